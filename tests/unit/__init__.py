"""What needs no broker."""
