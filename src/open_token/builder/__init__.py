"""Building a record from what a reader finds: numbering, call pairing, spans, late edits."""
