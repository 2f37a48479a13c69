"""Where rows go: routing tables, slots, and the check that a plan uses them."""
