"""Signatures of exports: the signed statement, the two schemes, trusted keys, and checking."""
