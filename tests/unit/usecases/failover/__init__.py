"""Failovers on clusters in memory: every crash, every loss, every bad input."""
