"""The configuration file: names of clusters to endpoints."""
