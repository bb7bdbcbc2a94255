"""Failovers between clusters that no other test may have."""
