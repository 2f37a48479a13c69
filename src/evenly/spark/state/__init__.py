"""The state of streaming queries: read per partition, and moved to another mapping."""
