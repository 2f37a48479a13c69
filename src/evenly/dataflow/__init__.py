"""Dataflows as plain data: operators, edges with selectivity, sources and sinks."""

from evenly.dataflow.graph import Dataflow, Edge, Operator

__all__ = ["Dataflow", "Edge", "Operator"]
