"""The one place that introduces adapters to use cases."""
