"""What to do next about a mirror: the exact command, or what a person decides first."""
