"""Selecting what a reconciliation compares."""
