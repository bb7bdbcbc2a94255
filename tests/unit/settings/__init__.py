"""The tests of settings."""
