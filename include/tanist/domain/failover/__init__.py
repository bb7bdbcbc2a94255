"""A failover, decided: facts are frozen, decisions are pure, unknown is never green."""
