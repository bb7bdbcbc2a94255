"""The interfaces between use cases or fetcher and clusters: one Protocol per noun, implemented in `kafka.adapters`.

Most calls take a `Deadline`. A call for many items returns a mapping with a value or an error for each item, so that
one failed item hides no other. An error of the whole call is raised (CouldNotTell, BrokerError).
"""
