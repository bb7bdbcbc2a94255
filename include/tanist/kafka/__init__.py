"""All that speaks to Kafka: bytes, below sockets, below adapters of the ports."""
