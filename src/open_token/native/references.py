"""References from embedded source values to binary data that an event already holds.

Text compresses well, so it is stored twice. Images and other base64 data do not: a session with
screenshots would be twice as large.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from open_token.jsontools.walk import iter_string_pointers
from open_token.model.document import Event

_MIN_LENGTH = 1024
_MAX_ENTRIES = 100_000
_BASE64 = re.compile(r"(?:data:[\w.+-]+/[\w.+-]+;base64,)?[A-Za-z0-9+/_=-]+")

FindReference = Callable[[str], str | None]
ResolveReference = Callable[[str], str]


class UnresolvedValue(Exception):
    """A value cannot be restored: it was withheld, or what it refers to is missing or malformed."""


class BinaryDataIndex:
    """Where the events of a record hold long base64 strings.

    Only digests are kept, and a limited number of them, so that memory stays bounded.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._references: dict[bytes, str] = {}
        for event in events:
            for pointer, text in iter_string_pointers(event["content"], "/content"):
                if len(self._references) >= _MAX_ENTRIES:
                    return
                if is_binary_text(text):
                    # The first event that holds a string is the one that references name.
                    digest = _compute_digest(text)
                    self._references.setdefault(digest, f"{event['id']}#{pointer}")

    def find(self, text: str) -> str | None:
        """Return the reference to a string, or None if it is not in the events."""
        if not self._references or not is_binary_text(text):
            return None
        return self._references.get(_compute_digest(text))


def is_binary_text(text: str) -> bool:
    """Return whether a string is long and looks like base64."""
    return len(text) >= _MIN_LENGTH and _BASE64.fullmatch(text) is not None


def _compute_digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=20).digest()


def resolve_pointer(content: Any, pointer: str) -> str:
    """Return the string that a JSON pointer below `/content` names."""
    value: Any = {"content": content}
    try:
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (KeyError, IndexError, ValueError, TypeError):
        raise UnresolvedValue(pointer) from None
    if not isinstance(value, str):
        raise UnresolvedValue(pointer)
    return value
