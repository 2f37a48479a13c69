"""How Evenly gets to Spark's Python workers: what they need of it, as one file that Spark hands to every executor."""
