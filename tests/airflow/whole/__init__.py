"""The tests of whole."""
