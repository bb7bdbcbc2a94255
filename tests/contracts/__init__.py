"""One suite per port, run against the fake in memory and against the real cluster."""
