"""Slots for real: processes pinned to a core that run an operator's function in threads, and the hub that feeds them."""
