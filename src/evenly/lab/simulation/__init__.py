"""Runs of the library's decisions without Spark: many drawn streams, or a recorded one."""
