"""What is wrong with a stage, a key or a state, and what would fix it: pure decisions on what was measured."""
