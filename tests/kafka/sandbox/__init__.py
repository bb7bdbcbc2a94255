"""The sandbox itself, on real brokers."""
