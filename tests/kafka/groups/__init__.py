"""Positions of consumer groups on real brokers."""
