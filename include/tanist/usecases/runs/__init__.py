"""What is approved is run by a table of rows, and what cannot be completed is put back by the same rows, backwards."""
