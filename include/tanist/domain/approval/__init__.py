"""Approvals: what stands in the approvers' topic, and which of it permits a run now."""
