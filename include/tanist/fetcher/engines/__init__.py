"""How records of one partition are copied; what is common to all engines stands above."""
