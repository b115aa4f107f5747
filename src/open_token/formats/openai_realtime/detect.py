"""Detection of logs of the OpenAI Realtime API."""

from typing import Any

from open_token.sources.source import Source

_EVIDENCE = ("conversation.item.", "input_audio_buffer.")
_SESSION_EVENTS = ("session.created", "session.updated", "session.update")
_KNOWN = (
    "session.",
    "conversation.",
    "input_audio_buffer.",
    "output_audio_buffer.",
    "response.",
    "rate_limits.",
)


def sniff(source: Source) -> bool:
    """Return whether most records are events of this API, and one is of no other."""
    sample = source.sample
    if source.shape == "document" and sample and isinstance(sample[0], list):
        sample = sample[0]
    kinds = [_get_kind(record) for record in sample]
    known = [kind for kind in kinds if kind.startswith(_KNOWN)]
    if 2 * len(known) <= len(kinds):
        return False
    if any(kind.startswith(_EVIDENCE) for kind in known):
        return True
    return any(_is_session(record) for record in sample)


def _get_kind(record: Any) -> str:
    kind = record.get("type") if isinstance(record, dict) else None
    return kind if isinstance(kind, str) else ""


def _is_session(record: Any) -> bool:
    return _get_kind(record) in _SESSION_EVENTS and isinstance(record.get("session"), dict)
