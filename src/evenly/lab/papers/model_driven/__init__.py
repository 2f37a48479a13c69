"""The figures of model-driven scheduling."""
