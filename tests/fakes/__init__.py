"""The ports in memory. tests/contracts holds them to what real clusters do."""
