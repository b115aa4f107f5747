"""native=full: the source embedded in an export, restoring it, and measuring what an export covers."""
