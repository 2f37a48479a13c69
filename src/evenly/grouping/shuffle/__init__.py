"""Shuffle groupings, one algorithm a file: tuples go where there is time for them."""
