"""Messages that kafka-python does not know, in its own schema format (field names as in Apache Kafka)."""
