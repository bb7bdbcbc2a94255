"""Failovers on real clusters with access rules: run, killed, aborted, woken from the past."""
