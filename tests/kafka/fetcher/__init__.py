"""The copy path on real brokers."""
