"""What a dataflow did on Spark beside what was planned: whether batches keep up, the highest rate, and changes while it runs."""
