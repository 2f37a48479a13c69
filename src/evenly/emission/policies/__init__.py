"""Which queue may send next: one policy per file."""
