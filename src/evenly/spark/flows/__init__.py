"""Dataflows on Spark: their stages as DataFrames, their sinks, and the query or batch that runs them."""
