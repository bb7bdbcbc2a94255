"""Tests of the pure domain: no clock, no socket, no file."""
