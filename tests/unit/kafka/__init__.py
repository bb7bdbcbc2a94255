"""The tests of kafka."""
