"""Reads ShareGPT data, as files for training hold it: lists or lines of conversations from human to
gpt."""

from typing import Any

from open_token.formats.shared.export_archive import Layout
from open_token.sources.source import Source

_LOOKED_AT = 16
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
