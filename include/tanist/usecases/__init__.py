"""Use cases, one module per noun; each reads: observe, decide, apply, record."""
