"""Runs on Spark that are measured row by row."""
