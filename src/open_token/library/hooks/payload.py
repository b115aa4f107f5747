"""Parse what agents write to the standard input of a hook; one tolerant parser for all of them."""

import contextlib
import re
from collections.abc import Mapping

import msgspec

MAX_CALL_SIZE = 1 << 24
"""A longer input is ignored: agents may include the last answer, but not a conversation."""
_MAX_PATH = 4096
_PATH_KEYS = ("transcript_path", "transcriptPath")
_ID_KEYS = ("session_id", "sessionId", "conversation_id", "conversationId")
_EVENT_KEYS = ("hook_event_name", "hookEventName", "event")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,99}")
_EVENT = re.compile(r"[A-Za-z]{1,40}")


class HookCall(msgspec.Struct, frozen=True, kw_only=True):
    """A hook call: it names a session by its file, its id, or both."""

    runtime: str = ""
    event: str = ""
    path: str = ""
    id: str = ""
    folder: str = ""
    """The archive; empty for the one in the data directory."""

    @property
    def is_end(self) -> bool:
        """Whether the session is over."""
        return self.event.lower() == "sessionend"


def parse_call(data: bytes, runtime: str = "", folder: str = "") -> HookCall | None:
    """Parse the input of a hook; return None if it names no session."""
    if len(data) > MAX_CALL_SIZE:
        return None
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    path = next((text for text in _decode_texts(fields, _PATH_KEYS) if _is_path(text)), "")
    session_id = next((text for text in _decode_texts(fields, _ID_KEYS) if _ID.fullmatch(text)), "")
    event = next(
        (text for text in _decode_texts(fields, _EVENT_KEYS) if _EVENT.fullmatch(text)), ""
    )
    if not path and not session_id:
        return None
    if not event and "reason" in fields:
        # Copilot CLI 1.0 does not name the event; only the end of a session has a reason.
        event = "sessionEnd"
    return HookCall(runtime=runtime, event=event, path=path, id=session_id, folder=folder)


def _decode_texts(fields: Mapping[str, msgspec.Raw], keys: tuple[str, ...]) -> list[str]:
    texts = []
    for key in keys:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if key in fields:
                texts.append(msgspec.json.decode(fields[key], type=str))
    return texts


def _is_path(text: str) -> bool:
    return 0 < len(text) <= _MAX_PATH and "\0" not in text
