"""Spark jobs: their pure parts in milliseconds, the jobs themselves on a real session and real brokers."""
