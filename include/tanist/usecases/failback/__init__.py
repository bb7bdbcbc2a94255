"""The way back: what an old source has, and what is done about it."""
