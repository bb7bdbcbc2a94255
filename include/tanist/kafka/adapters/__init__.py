"""Adapters to Kafka clusters, one module per port."""
