"""Which instance receives a tuple: the protocols, the mapping they yield, and the algorithms."""
