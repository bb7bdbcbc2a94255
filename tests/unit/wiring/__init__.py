"""The tests of wiring."""
