"""What a port does itself."""
