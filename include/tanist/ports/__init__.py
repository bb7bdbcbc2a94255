"""What the use cases and the fetcher need of the world, one Protocol per noun."""
