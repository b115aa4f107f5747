"""Hashes, Merkle trees, source commitments and signatures of exports, and their verification."""
