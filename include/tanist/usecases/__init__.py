"""What people ask for: one module per noun; each reads observe, decide, apply, record."""
