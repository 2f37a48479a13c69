"""What is there to compare and to rerun papers: no product code imports it."""
