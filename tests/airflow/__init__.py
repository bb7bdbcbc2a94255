"""DAGs in the test process, against real clusters."""
