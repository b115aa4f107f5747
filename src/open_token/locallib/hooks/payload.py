"""What a runtime says on standard input when it calls us: one tolerant reader for all of them."""

import contextlib
import re
from collections.abc import Mapping

import msgspec

LONGEST = 1 << 24
"""A call with more bytes is none: the last answer may ride along, a conversation does not."""
_PATHS = ("transcript_path", "transcriptPath")
_IDS = ("session_id", "sessionId", "conversation_id", "conversationId")
_EVENTS = ("hook_event_name", "hookEventName", "event")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,99}")
_EVENT = re.compile(r"[A-Za-z]{1,40}")
_LONGEST_PATH = 4096


class HookCall(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversation is meant: by its file, by its id, or both."""

    runtime: str = ""
    event: str = ""
    path: str = ""
    id: str = ""
    folder: str = ""
    """The archive; empty for the one in the data folder."""

    @property
    def is_end(self) -> bool:
        """Whether the session is over."""
        return self.event.lower() == "sessionend"


def parse_call(data: bytes, runtime: str = "", folder: str = "") -> HookCall | None:
    """The call that these bytes are; None when they name no conversation."""
    if len(data) > LONGEST:
        return None
    try:
        said = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    path = next((path for path in _texts(said, _PATHS) if _is_path(path)), "")
    known = next((known for known in _texts(said, _IDS) if _ID.fullmatch(known)), "")
    event = next((event for event in _texts(said, _EVENTS) if _EVENT.fullmatch(event)), "")
    if not event and "reason" in said:
        event = "sessionEnd"  # Copilot CLI 1.0 does not name the event; only an end has a reason
    return (
        HookCall(runtime=runtime, event=event, path=path, id=known, folder=folder)
        if path or known
        else None
    )


def _texts(said: Mapping[str, msgspec.Raw], names: tuple[str, ...]) -> list[str]:
    found = []
    for name in names:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if name in said:
                found.append(msgspec.json.decode(said[name], type=str))
    return found


def _is_path(path: str) -> bool:
    return 0 < len(path) <= _LONGEST_PATH and "\0" not in path
