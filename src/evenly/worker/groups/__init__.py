"""Groups cut out of sorted batches inside a Python worker."""
