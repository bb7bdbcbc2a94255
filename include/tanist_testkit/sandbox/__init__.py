"""Real Apache Kafka clusters on this machine, for demo, tests and benchmarks. Never for data that matters."""
