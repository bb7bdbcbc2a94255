"""Use cases of mirrors, one module each: observe, decide (pure), apply, record."""
