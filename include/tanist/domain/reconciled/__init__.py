"""A reconciliation that is published: its records, and the table of where readers go on."""
