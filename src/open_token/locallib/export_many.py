"""Export every conversation of one source into a directory, with an index."""

import re
from pathlib import Path
from typing import Any

import msgspec

from open_token.context import Context
from open_token.errors import InputError
from open_token.model.document import Found
from open_token.pipeline import Observer, Receipt, export
from open_token.registry import list_conversations
from open_token.sources.source import Source
from open_token.storage.files import atomic_file, atomic_folder, read_optional

INDEX = "index.json"


class _Entry(msgspec.Struct):
    file: str = ""


class _Index(msgspec.Struct):
    conversations: list[_Entry]


SCHEMA = "open-token/index/1"


def export_conversations(
    source: Source, reader: str, folder: Path, context: Context, witness: Observer | None = None
) -> list[Receipt]:
    """Export every conversation of a source into a directory that appears complete or not at all.

    An empty conversation has no document, and the index says so; if all are empty, it is an error.
    """
    found = list_conversations(source, reader) or [Found("1")]
    receipts: list[Receipt] = []
    entries: list[dict[str, Any]] = []
    suffix = "ndjson" if context.options.mode == "ndjson" else "json"
    with atomic_folder(folder) as made:
        for number, item in enumerate(found, 1):
            source.conversation = item.id if len(found) > 1 else None
            name = f"{number:0{len(str(len(found)))}d}_{_plain(item.id)}.{suffix}"
            try:
                with atomic_file(made / name) as out:
                    receipt = export(source, out, context, reader, witness)
            except InputError as problem:
                if problem.code != "input.no-events" or (number == len(found) and not receipts):
                    raise
                entries.append({"number": number, "id": item.id, "events": 0})
                continue
            receipts.append(receipt)
            entries.append(_entry(number, item, name, receipt))
        with atomic_file(made / INDEX) as out:
            out.write(_index(source, reader, entries))
    return receipts


def list_exports(folder: Path) -> list[Path]:
    """Return the documents of such a directory, in the order of its index."""
    found = read_optional(folder / INDEX)
    try:
        index = msgspec.json.decode(found or b"", type=_Index)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise InputError(
            "this directory is not a set of exports",
            where=str(folder),
            help=f"name an export, or a directory with the {INDEX} that --conversation all wrote",
            code="restore.index",
        ) from None
    return [folder / Path(entry.file).name for entry in index.conversations if entry.file]


def _plain(name: str) -> str:
    """Return an id as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:80].strip(".-") or "conversation"


def _entry(number: int, item: Found, name: str, receipt: Receipt) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "number": number,
        "id": receipt.conversation_id,
        "file": name,
        "events": receipt.events,
    }
    if receipt.integrity:
        entry["events_hash"] = receipt.integrity["events_hash"]
    if receipt.title:
        entry["title"] = receipt.title
    if item.id != receipt.conversation_id:
        entry["source_id"] = item.id
    return entry


def _index(source: Source, reader: str, entries: list[dict[str, Any]]) -> bytes:
    index = {
        "schema": SCHEMA,
        "source": Path(source.name).name,
        "source_sha256": source.sha256,
        "reader": reader,
        "conversations": entries,
    }
    return msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n"
