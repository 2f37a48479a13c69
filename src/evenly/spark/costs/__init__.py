"""Rows of unequal cost: a user's Python function, measured, with all instances busy to the end of each batch."""
