"""What runs inside Spark's Python workers: no numba, and nothing of pyspark's driver side."""
