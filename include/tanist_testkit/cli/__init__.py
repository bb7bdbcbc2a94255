"""The commands `tanist sandbox` and `tanist demo`."""
