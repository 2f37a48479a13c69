"""Profiling: the performance model of an operator, measured."""
