"""Groups cut out of whole instances by the worker, for functions over many small groups."""
