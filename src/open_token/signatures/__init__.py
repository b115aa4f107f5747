"""Signatures of exports: what is signed, how it is signed, whom a reader trusts, and whether a
signature holds."""
