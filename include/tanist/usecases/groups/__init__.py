"""Positions of consumer groups: seen, translated, committed at the destination, explained."""
