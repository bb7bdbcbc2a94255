"""What a reconciliation pairs."""
