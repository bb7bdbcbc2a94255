"""What MirrorMaker 2 (MM2) tells of its copies in topics of its own, and what may be concluded from it."""
