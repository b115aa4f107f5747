"""The records of a Qwen Code file, with the fragments of a message joined."""

from collections.abc import Iterator
from typing import Any

from open_token.sources.source import Source

Body = dict[str, Any]


def read_records(source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the records; consecutive lines with the same uuid and type are one message."""
    first_number = 0
    fragments: list[Any] = []
    for number, record in source.records():
        if fragments and not _is_continuation(fragments[0], record):
            yield first_number, _join(fragments)
            fragments = []
        if not fragments:
            first_number = number
        fragments.append(record)
    if fragments:
        yield first_number, _join(fragments)


def _is_continuation(first: Any, record: Any) -> bool:
    if not isinstance(first, dict) or not isinstance(record, dict):
        return False
    uuid = record.get("uuid")
    return (
        isinstance(uuid, str)
        and first.get("uuid") == uuid
        and first.get("type") == record.get("type")
        and isinstance(record.get("message"), dict)
        and isinstance(first.get("message"), dict)
    )


def _join(fragments: list[Any]) -> Any:
    """Join fragments: all parts, the last token counts, the first value of everything else."""
    if len(fragments) == 1:
        return fragments[0]
    joined: Body = {}
    parts: list[Any] = []
    for record in fragments:
        parts += get_parts(record)
        for name, value in record.items():
            if joined.get(name) is None or name == "usageMetadata":
                joined[name] = value
    joined["message"] = {**fragments[0]["message"], "parts": parts}
    return joined


def get_parts(record: Body) -> list[Any]:
    """Return the parts of a record's message."""
    message = record.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    return parts if isinstance(parts, list) else []


def to_dict(value: Any) -> Body:
    """Return an object as it is, an empty one for anything else."""
    return value if isinstance(value, dict) else {}
