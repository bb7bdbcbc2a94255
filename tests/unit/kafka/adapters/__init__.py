"""The tests of adapters."""
