"""Rows to a destination outside Spark, through the paced queues of `evenly.emission`."""
