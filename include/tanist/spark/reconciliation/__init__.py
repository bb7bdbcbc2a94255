"""Which offset of one log holds which record of another, found from the records alone.

Works between any two topics: a copy by MirrorMaker 2, by an older mirror of ours, or by hand; with records lost,
repeated or absent at either end. `pairing` finds the last copy of each record, `runs` writes the pairs down in few
lines, `positions` translates by them, `digests` tells which parts of both logs need no pairing at all.
"""
