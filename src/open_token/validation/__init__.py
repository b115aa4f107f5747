"""Validation of exports against the spec: one check per rule, with ids OT001 to OT911."""
