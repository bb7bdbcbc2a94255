"""Positions that applications keep outside Kafka."""
