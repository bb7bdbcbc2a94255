"""The persistent service: supervisor, ownership, lanes; one lane thread copies many partitions."""
