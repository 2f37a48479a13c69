"""The command `evenly`, one module a command."""
