"""Key grouping in Structured Streaming: the mapping beside the checkpoint, and how it changes while the query runs."""
