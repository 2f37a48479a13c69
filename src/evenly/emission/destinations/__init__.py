"""Where an outgoing queue sends to: a line socket, an HTTP endpoint, a function; one kind a file."""

from evenly.emission.destinations.base import Connection, Destination, NumberedRow
from evenly.emission.destinations.http_post import HttpPost
from evenly.emission.destinations.own_function import OwnFunction
from evenly.emission.destinations.tcp_lines import TcpLines

__all__ = ["Connection", "Destination", "HttpPost", "NumberedRow", "OwnFunction", "TcpLines"]
