"""A reader for the tests: a JSON list of conversations, each {"session": id, "says": [...], "odd":
[...]}."""

from typing import Any

import pytest

from helpers.fake_reader import add_reader
from open_token.builder.draft import Draft
from open_token.model.document import Found
from open_token.sources.source import Source

NAME = "many_sessions"


def sniff(source: Source) -> bool:
    """A list of sessions."""
    return bool(_list_conversations(source))


def _list_conversations(source: Source) -> list[Any]:
    value = source.document if source.shape == "document" else []
    return (
        [item for item in value if isinstance(item, dict) and "session" in item]
        if isinstance(value, list)
        else []
    )


def list_conversations(source: Source) -> list[Found]:
    """All of them."""
    return [Found(item["session"], title=item.get("title")) for item in _list_conversations(source)]


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """A session is its own; anything else is nobody's."""
    return value.get("session") if isinstance(value, dict) else None


def read(source: Source, draft: Draft) -> None:
    """Tell one."""
    person = draft.get_actor("human", "user")
    for item in _list_conversations(source):
        if source.conversation in (None, item["session"]):
            draft.conversation["id"] = item["session"]
            if item.get("title"):
                draft.conversation["title"] = item["title"]
            for words in item["says"]:
                draft.add_message("user", words, person)
            for number, _ in enumerate(item.get("odd", ()), 1):
                draft.note_omission("odd-part", f"part {number}", "a part that nobody knows")


def install_multi_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it a reader beside the others."""
    add_reader(
        monkeypatch,
        NAME,
        title="Many sessions",
        sniff=sniff,
        # Looked up when it is called, so that a test can replace it.
        read=lambda source, draft: read(source, draft),
        list_conversations=list_conversations,
        find_owner=find_owner,
    )
