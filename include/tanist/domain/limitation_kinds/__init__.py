"""Every limitation by name: what it means, what it does to a plan, and which checks of `tanist status` it fails."""
