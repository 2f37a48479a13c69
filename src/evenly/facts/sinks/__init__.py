"""Where records go: each of them a few lines."""
