"""Whether a copy holds the same records as its source: what is asked, how far it goes, what was found."""
