"""Adapters on real brokers."""
