"""The records of a Qwen Code file: fragments of one message joined, and what each has where it
should be."""

from collections.abc import Iterator
from typing import Any

from open_token.sources.source import Source

Body = dict[str, Any]


def joined(source: Source) -> Iterator[tuple[int, Any]]:
    """The records; lines that follow each other with the same uuid and type are parts of one."""
    first = 0
    held: list[Any] = []
    for number, record in source.records():
        if held and not _is_more(held[0], record):
            yield first, _one(held)
            held = []
        first = first if held else number
        held.append(record)
    if held:
        yield first, _one(held)


def _is_more(first: Any, record: Any) -> bool:
    return (
        isinstance(first, dict)
        and isinstance(record, dict)
        and isinstance(uuid := record.get("uuid"), str)
        and first.get("uuid") == uuid
        and first.get("type") == record.get("type")
        and isinstance(record.get("message"), dict)
        and isinstance(first.get("message"), dict)
    )


def _one(fragments: list[Any]) -> Any:
    """The fragments as one record: parts behind each other, the first of everything else but for
    the counts."""
    if len(fragments) == 1:
        return fragments[0]
    made: Body = {}
    parts: list[Any] = []
    for record in fragments:
        parts += parts_of(record)
        made |= {
            name: value
            for name, value in record.items()
            if made.get(name) is None or name == "usageMetadata"
        }
    return made | {"message": {**fragments[0]["message"], "parts": parts}}


def parts_of(record: Body) -> list[Any]:
    """The parts of a record's message."""
    message = record.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    return parts if isinstance(parts, list) else []


def body(value: Any) -> Body:
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}
