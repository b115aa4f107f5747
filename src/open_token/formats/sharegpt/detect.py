"""Detection of ShareGPT data, as training files hold it: conversations from human to gpt."""

from open_token.formats.shared.export_archive import ExportLayout
from open_token.formats.shared.fields import JsonObject, as_dicts
from open_token.sources.source import Source

_MAX_INSPECTED = 16
_MEDIA_FIELDS = ("images", "videos", "audios")


def _is_conversation(value: JsonObject) -> bool:
    if isinstance(value.get("conversations"), list):
        return _has_turns(value["conversations"], "from", "value")
    # Messages with roles are only ShareGPT data if media are listed next to them.
    if not any(isinstance(value.get(name), list) for name in _MEDIA_FIELDS):
        return False
    if not isinstance(value.get("messages"), list):
        return False
    return _has_turns(value["messages"], "role", "content")


def _has_turns(turns: list[object], *names: str) -> bool:
    """Return whether any turn has these fields; a malformed one must not reject the others."""
    if not turns:
        return True
    fields = set(names)
    return any(fields <= turn.keys() for turn in as_dicts(turns[:_MAX_INSPECTED]))


LAYOUT = ExportLayout(
    globs=(), sign=b"sharegpt", is_one=_is_conversation, id_of=lambda value: value.get("id")
)


def sniff(source: Source) -> bool:
    """Return whether the content is of this format."""
    return LAYOUT.sniff(source)
