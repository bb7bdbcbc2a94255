"""Engines copy the records of partitions; what all engines share is in the parent package."""
