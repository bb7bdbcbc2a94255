"""Minutes of random faults on real clusters, then every record counted."""
