"""Tools for JSON values: canonical form, strict parsing, repair, traversal and timestamps."""
