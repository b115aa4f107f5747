"""A reader for the tests: a JSON list of conversations, each {"talk": id, "says": [...], "odd":
[...]}."""

import sys
from typing import Any

import pytest

from open_token import readers
from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "Many talks"
PLACES: tuple[str, ...] = ()
NAME = "many_talks"
__name__ = f"open_token.readers.{NAME}"


def sniff(source: Source) -> bool:
    """A list of talks."""
    return bool(_talks(source))


def _talks(source: Source) -> list[Any]:
    value = source.document if source.shape == "document" else []
    return (
        [item for item in value if isinstance(item, dict) and "talk" in item]
        if isinstance(value, list)
        else []
    )


def conversations(source: Source) -> list[Found]:
    """All of them."""
    return [Found(item["talk"], title=item.get("title")) for item in _talks(source)]


def belongs(source: Source, at: str, value: Any) -> str | None:
    """A talk is its own; anything else is nobody's."""
    return value.get("talk") if isinstance(value, dict) else None


def read(source: Source, draft: Draft) -> None:
    """Tell one."""
    person = draft.actor("human", "user")
    for item in _talks(source):
        if source.conversation in (None, item["talk"]):
            draft.conversation["id"] = item["talk"]
            if item.get("title"):
                draft.conversation["title"] = item["title"]
            for words in item["says"]:
                draft.message("user", words, person)
            for number, _ in enumerate(item.get("odd", ()), 1):
                draft.skip("odd-part", f"part {number}", "a part that nobody knows")


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it a reader beside the others."""
    monkeypatch.setitem(sys.modules, f"open_token.readers.{NAME}", sys.modules["many_talks"])
    monkeypatch.setattr(readers, "NAMES", (*readers.NAMES, NAME))
