"""Selecting what a validation compares."""
