"""The fetcher service: coordination, ownership and fetcher threads; one thread copies many partitions."""
