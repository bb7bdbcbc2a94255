"""Use cases over clusters in memory."""
