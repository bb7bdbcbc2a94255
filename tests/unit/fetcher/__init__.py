"""The tests of fetcher."""
