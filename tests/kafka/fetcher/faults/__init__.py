"""The tests of faults."""
