"""How many threads, slots and machines a rate needs."""
