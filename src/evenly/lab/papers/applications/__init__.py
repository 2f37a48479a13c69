"""The applications of the POSG and OSG papers as plain code: rows, and a function whose cost depends on the row.

`calls` has the functions and is light, because Spark's Python workers import it; `catalogue` joins them with their rows.
"""
