"""What makes each step's postcondition true. All of them may be done again, by anybody, after any crash."""
