"""Runs of groupings and policies without Spark."""
