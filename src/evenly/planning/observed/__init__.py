"""What a dataflow did on Spark beside what was planned: whether it keeps up, its highest rate, and changes as it runs."""
