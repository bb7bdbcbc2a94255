"""What people do with mirrors: one module per thing done. Observe, decide (pure), apply, record."""
