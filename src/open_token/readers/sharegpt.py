"""Reads ShareGPT data, as files for training hold it: lists or lines of conversations from human to
gpt."""

from importlib import import_module
from typing import Any

from open_token.draft import Draft
from open_token.model import Found
from open_token.readers._export_files import Layout, Part
from open_token.source import Source

TITLE = "ShareGPT"
PLACES: tuple[str, ...] = ()
SEEN = (
    "conversations with tool calls, and the messages form with images, as LLaMA-Factory takes them"
)
CARRIES = "messages, the system prompt, tool calls and observations paired by order, the names of tools, references to media"
LEAVES = "the descriptions of tools, and the bytes of media"

_LOOKED_AT = 16
_ASKING = ("human", "user")
_MEDIA = ("images", "videos", "audios")


def _is_conversation(value: dict[str, Any]) -> bool:
    turns = value.get("conversations")
    if isinstance(turns, list):
        return _has_turns(turns, "from", "value")
    turns = value.get("messages")
    if not isinstance(turns, list) or not any(isinstance(value.get(name), list) for name in _MEDIA):
        return False
    return _has_turns(turns, "role", "content")


def _has_turns(turns: list[Any], *names: str) -> bool:
    """Whether somebody speaks; one turn that is something else must not cost the others."""
    looked_at = turns[:_LOOKED_AT]
    return not turns or any(
        isinstance(turn, dict) and all(name in turn for name in names) for turn in looked_at
    )


LAYOUT = Layout(
    globs=(), sign=b"sharegpt", is_one=_is_conversation, id_of=lambda value: value.get("id")
)


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    return LAYOUT.sniff(source)


def conversations(source: Source) -> list[Found]:
    """The conversations of the file, in its order."""
    return LAYOUT.parts(source).listed(_found)


def _found(part: Part) -> Found:
    given = part.value.get("conversations") or part.value.get("messages")
    turns = [turn for turn in given if isinstance(turn, dict)] if isinstance(given, list) else []
    said = [
        turn.get("value", turn.get("content"))
        for turn in turns
        if turn.get("from", turn.get("role")) in _ASKING
    ]
    first = next((" ".join(text[:400].split()) for text in said if isinstance(text, str)), "")
    return Found(part.id, title=first[:80] or None, messages=len(turns))


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the file belongs to."""
    return LAYOUT.parts(source).owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    import_module("open_token.readers._sharegpt").read(source, draft, LAYOUT.parts(source))
