"""On real brokers."""
