"""MirrorMaker 2's own topics, as a real one has written them."""
