"""Which instance's outgoing queue may send next."""
