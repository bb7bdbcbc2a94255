"""Which offset of one topic holds which record of another: what is asked, and what was found."""
