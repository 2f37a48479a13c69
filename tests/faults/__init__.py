"""A campaign of seeded schedules on a real cluster: an operation, an input, settings, and faults at drawn moments.

`python -m faults --help`, with this folder's parent on the path. After each schedule the result must be that of plain Spark
without faults, row for row, and nothing may be left behind.
"""
