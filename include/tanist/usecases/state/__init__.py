"""Saving the state of mirrors, and getting it back after it was lost."""
