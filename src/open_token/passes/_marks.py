"""The form of marks, `[REDACTED:<type>:<hash8>]`, and how a search passes over those that are there."""

from open_token.passes._late import late

MARK = late(r"\[REDACTED:[A-Za-z0-9_.-]+:[0-9a-f]{8}\]")
_MARK_BYTES = late(MARK.pattern.encode())


def without_marks(text: bytes) -> bytes:
    """The text with each mark turned into zero bytes, which no rule matches; the length stays."""
    if b"[REDACTED:" not in text:
        return text
    return _MARK_BYTES.sub(lambda found: b"\0" * len(found[0]), text)
