"""The way back on real brokers, as short as it can be told; the long stories are in `kafka/failover/own`."""
