"""Real embedded Kafka clusters for demos and tests."""
