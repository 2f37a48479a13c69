"""What runs of a job leave for the next ones, in a folder on any path that Spark can write to."""
