"""The composition root: the only package that connects adapters to use cases.

Its modules are imported one by one: a command that only reads does not load what a fetcher needs.
"""
