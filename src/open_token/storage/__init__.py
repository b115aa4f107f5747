"""Writing files atomically, the user's directories, and the spool that holds events."""
