"""The tests of spark submit."""
