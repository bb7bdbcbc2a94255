"""Pure vocabulary and decisions: facts are frozen, functions know no clock, no socket and no log."""
