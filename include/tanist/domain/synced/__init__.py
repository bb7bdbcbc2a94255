"""What follows the source: one module for each kind, with what it decides about a topic."""
