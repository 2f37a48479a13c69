"""Which threads sit on which slot: one algorithm per file."""

from evenly.planning.mapping.base import Placed, SlotMapping, ThreadPlacement, place_on, place_threads
from evenly.planning.mapping.dsm import DSM
from evenly.planning.mapping.rsm import RSM
from evenly.planning.mapping.sam import SAM

__all__ = ["DSM", "RSM", "SAM", "Placed", "SlotMapping", "ThreadPlacement", "place_on", "place_threads"]
