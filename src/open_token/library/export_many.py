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

INDEX_NAME = "index.json"
INDEX_SCHEMA = "open-token/index/1"


class _Entry(msgspec.Struct):
    file: str = ""


class _Index(msgspec.Struct):
    conversations: list[_Entry]


def export_conversations(
    source: Source, reader: str, folder: Path, context: Context, observer: Observer | None = None
) -> list[Receipt]:
    """Export every conversation of a source into a directory that appears complete or not at all.

    An empty conversation has no document, and the index says so; if all are empty, it is an error.
    """
    conversations = list_conversations(source, reader) or [Found("1")]
    total = len(conversations)
    digits = len(str(total))
    suffix = "ndjson" if context.options.mode == "ndjson" else "json"
    receipts: list[Receipt] = []
    entries: list[dict[str, Any]] = []
    with atomic_folder(folder) as temporary:
        for number, conversation in enumerate(conversations, 1):
            source.conversation = conversation.id if total > 1 else None
            name = f"{number:0{digits}d}_{_to_file_name(conversation.id)}.{suffix}"
            try:
                with atomic_file(temporary / name) as out:
                    receipt = export(source, out, context, reader, observer)
            except InputError as problem:
                are_all_empty = number == total and not receipts
                if problem.code != "input.no-events" or are_all_empty:
                    raise
                entries.append({"number": number, "id": conversation.id, "events": 0})
                continue
            receipts.append(receipt)
            entries.append(_build_entry(number, conversation, name, receipt))
        with atomic_file(temporary / INDEX_NAME) as out:
            out.write(_render_index(source, reader, entries))
    return receipts


def list_exports(folder: Path) -> list[Path]:
    """Return the documents of such a directory, in the order of its index."""
    raw = read_optional(folder / INDEX_NAME)
    try:
        index = msgspec.json.decode(raw or b"", type=_Index)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise InputError(
            "this directory is not a set of exports",
            where=str(folder),
            help=f"name an export, or a directory with the {INDEX_NAME} "
            "that --conversation all wrote",
            code="restore.index",
        ) from None
    return [folder / Path(entry.file).name for entry in index.conversations if entry.file]


def _to_file_name(conversation_id: str) -> str:
    """Return an id as a part of a file name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", conversation_id)[:80].strip(".-")
    return name or "conversation"


def _build_entry(number: int, conversation: Found, name: str, receipt: Receipt) -> dict[str, Any]:
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
    if conversation.id != receipt.conversation_id:
        entry["source_id"] = conversation.id
    return entry


def _render_index(source: Source, reader: str, entries: list[dict[str, Any]]) -> bytes:
    index = {
        "schema": INDEX_SCHEMA,
        "source": Path(source.name).name,
        "source_sha256": source.sha256,
        "reader": reader,
        "conversations": entries,
    }
    return msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n"
