"""The tests of wire."""
