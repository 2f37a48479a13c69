"""The command `evenly`, one module per command."""
