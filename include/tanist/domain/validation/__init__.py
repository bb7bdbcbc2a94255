"""Validation: whether a mirror topic has the same records as its source; job, bounds and result."""
