"""Measured, side by side with the peer: see `make bench`."""
