"""Reconciliation: finding the records of one topic in another; its job and its result."""
