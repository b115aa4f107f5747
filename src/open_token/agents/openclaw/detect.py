"""Recognize sessions of OpenClaw; a listing shows the same facts as of Pi."""

from open_token.agents.pi.detect import is_entry_log, is_openclaw
from open_token.agents.pi.detect import peek as peek
from open_token.agents.pi.detect import peek_tail as peek_tail
from open_token.sources.source import Source


def sniff(source: Source) -> bool:
    """Return whether there are entries of Pi, and one that only OpenClaw writes."""
    if source.shape == "document":
        return False
    records = [record for record in source.sample if isinstance(record, dict)]
    return is_openclaw(records) and is_entry_log(records)
