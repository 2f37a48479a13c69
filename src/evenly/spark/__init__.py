"""Evenly on Spark: rows to instances, mappings learnt on the cluster. The only package that imports pyspark."""
