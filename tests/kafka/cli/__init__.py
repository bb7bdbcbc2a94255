"""The command line, on real brokers."""
