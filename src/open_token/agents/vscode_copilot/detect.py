"""Recognize chat sessions of VS Code, and read the facts that a listing shows of them."""

from typing import Any
from urllib.parse import unquote, urlsplit

from open_token.formats.shared.fields import get_dict, get_dicts, get_text
from open_token.sources.source import Source

INITIAL, SET, PUSH, DELETE = range(4)
"""The kinds of patches in a log."""
_PREVIEW_LENGTH = 400


def sniff(source: Source) -> bool:
    """Return whether the first record is a session, or a patch that holds one."""
    if source.shape not in ("lines", "document", "glued") or not source.sample:
        return False
    first = source.sample[0]
    if is_patch(first):
        return first["kind"] == INITIAL and is_session(first.get("v"))
    return len(source.sample) == 1 and is_session(first)


def is_patch(record: Any) -> bool:
    """Return whether a record is a patch of a log."""
    if not isinstance(record, dict) or type(record.get("kind")) is not int:
        return False
    return INITIAL <= record["kind"] <= DELETE and ("v" in record or "k" in record)


def is_session(value: Any) -> bool:
    """Return whether a value is a session: requests of the editor, or none yet."""
    if not isinstance(value, dict) or not isinstance(value.get("requests"), list):
        return False
    requests = value["requests"]
    if not requests:
        is_named = get_text(value, "responderUsername") or type(value.get("creationDate")) is int
        return bool(is_named) and ("initialLocation" in value or "sessionId" in value)
    return all(_is_request(request) for request in requests[:8])


def _is_request(value: Any) -> bool:
    if not isinstance(value, dict) or get_text(value, "requestId") is None:
        return False
    message = value.get("message")
    if not isinstance(message, str) and "text" not in get_dict(value, "message"):
        return False
    return isinstance(value.get("response"), list | type(None))


def get_prompt(request: Any) -> str | None:
    """Return the text of a request; earlier versions have it without parts."""
    return get_text(get_dict(request, "message"), "text") or get_text(request, "message")


def parse_folder(uri: Any) -> str | None:
    """Return the path of a folder by its address; a folder of another machine keeps its address."""
    if not isinstance(uri, str) or not uri:
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file":
        return uri
    path = unquote(parts.path)
    # Windows has a slash before the drive.
    if len(path) > 2 and path[0] == "/" and path[2] == ":":
        path = path[1:].replace("/", "\\")
    return path or None


def companion_file(name: str) -> str | None:
    """Return the file that names the folder of the workspace."""
    return "../workspace.json"


def peek(records: list[Any]) -> dict[str, str]:
    """Return id, cwd and title or first words, from the first records or from the workspace."""
    found: dict[str, str | None] = {}
    for record in records:
        folder = parse_folder(get_text(record, "folder") or get_text(record, "workspace"))
        if folder:
            found["cwd"] = folder
        session = record
        if is_patch(record):
            session = record.get("v") if record["kind"] == INITIAL else _unpack_patch(record)
        if not isinstance(session, dict):
            continue
        for name, key in (("id", "sessionId"), ("title", "customTitle")):
            found[name] = get_text(session, key) or found.get(name)
        for request in get_dicts(session, "requests"):
            found["words"] = found.get("words") or (get_prompt(request) or "")[:_PREVIEW_LENGTH]
    return {name: value for name, value in found.items() if value}


def peek_tail(records: list[Any]) -> dict[str, str]:
    """Return the last title that a log gives to the session."""
    title = None
    for record in records:
        if is_patch(record):
            title = get_text(_unpack_patch(record), "customTitle") or title
    return {"title": title} if title else {}


def _unpack_patch(record: dict[str, Any]) -> dict[str, Any]:
    """Return a patch of a field of the session as a session with that field."""
    path = record.get("k")
    if isinstance(path, list) and len(path) == 1 and isinstance(path[0], str):
        return {path[0]: record.get("v")}
    return {}
