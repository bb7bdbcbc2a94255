"""What a validation compares."""
