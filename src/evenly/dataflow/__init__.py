"""Operators, edges and selectivity as plain data."""
