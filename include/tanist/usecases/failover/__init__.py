"""A failover: observe, decide, act, and again, until nothing is left to do or something speaks against it."""
