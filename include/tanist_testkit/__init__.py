"""Clusters for trying, the demo, and the kit that compares logs: beside the product, which never imports it."""

__version__ = "0.1.0"
