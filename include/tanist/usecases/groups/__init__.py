"""Committed offsets of consumer groups: listed, translated, committed at the destination, explained."""
