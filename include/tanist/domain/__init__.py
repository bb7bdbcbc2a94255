"""Pure values and decisions: facts are frozen; functions use no clock, no socket and no logger."""
