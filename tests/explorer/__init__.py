"""An explorer of the runbook: its real use cases, played by many at once over clusters in memory.

Actors are frozen, killed and woken wherever they ask a cluster something. Everything follows from a seed, so whatever
breaks can be played again, and is made as short as it gets.
"""
