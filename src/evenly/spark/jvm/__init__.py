"""The only room that touches Spark's private parts."""
