"""What the server keeps: one interface, and the stores behind it."""
