"""Export every conversation of one source into a directory, with an index."""

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from open_token.context import Context
from open_token.errors import InputError, OpenTokenError, OutputError, UsageError
from open_token.library.jobs import Outcome, limit_jobs, run_jobs
from open_token.model.document import Found
from open_token.pipeline import Observer, Receipt, export
from open_token.registry import list_conversations
from open_token.sources.source import Source
from open_token.storage.files import atomic_file, atomic_folder, read_optional

INDEX_NAME = "index.json"
INDEX_SCHEMA = "open-token/index/1"
_EMPTY = "input.no-events"
# Parsed, a document takes several times its size in each process.
_MAX_PARSED_BYTES = 1 << 28


class _Entry(msgspec.Struct):
    file: str = ""


class _Index(msgspec.Struct):
    conversations: list[_Entry]


@dataclass(frozen=True)
class Failure:
    """A conversation that could not be exported, by its number and its id in the source."""

    number: int
    id: str
    problem: OpenTokenError


@dataclass(frozen=True)
class ExportedConversations:
    """What became of the conversations of one source."""

    receipts: list[Receipt]
    failures: list[Failure]


def export_conversations(
    source: Source,
    reader: str,
    folder: Path,
    context: Context,
    observer: Observer | None = None,
    *,
    jobs: int = 1,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> ExportedConversations:
    """Export every conversation of a source into a directory that appears complete or not at all.

    A conversation that is empty or cannot be exported has no document, and the index says so; if
    there is no document at all, it is an error. `report` gets how many of how many are done.
    """
    conversations = list_conversations(source, reader) or [Found("1")]
    total = len(conversations)
    names = _choose_names(conversations, context)
    receipts: list[Receipt] = []
    failures: list[Failure] = []
    empty: list[OpenTokenError] = []
    entries: list[dict[str, Any]] = []
    with atomic_folder(folder) as temporary:
        items = [
            _Item(conversation.id if total > 1 else None, temporary / name)
            for conversation, name in zip(conversations, names, strict=True)
        ]
        exporter = _Exporter(source, reader, context, observer)
        # An observer and a signer work in this process only.
        if observer is None and context.sign is None:
            jobs = _limit_jobs(jobs, source, total)
        else:
            jobs = 1
        with contextlib.closing(run_jobs(exporter, items, jobs)) as outcomes:
            for number, outcome in enumerate(outcomes, 1):
                conversation = conversations[number - 1]
                problem = outcome.problem
                if isinstance(problem, OutputError | UsageError):
                    raise problem
                entries.append(_build_entry(number, conversation, outcome))
                if outcome.result is not None:
                    receipts.append(outcome.result)
                elif problem is not None and problem.code == _EMPTY:
                    empty.append(problem)
                elif problem is not None:
                    failures.append(Failure(number, conversation.id, problem))
                report(number, total)
        if not receipts:
            raise failures[0].problem if failures else empty[0]
        with atomic_file(temporary / INDEX_NAME) as out:
            out.write(_render_index(source, reader, entries))
    return ExportedConversations(receipts, failures)


@dataclass(frozen=True)
class _Item:
    """One conversation, None if it is the only one, and the file that it goes into."""

    conversation: str | None
    path: Path


@dataclass(frozen=True)
class _Exporter:
    """Exports one conversation at a time; another process opens the source anew."""

    source: Source
    reader: str
    context: Context
    observer: Observer | None

    def __call__(self, item: _Item) -> Receipt:
        self.source.conversation = item.conversation
        with atomic_file(item.path) as out:
            return export(self.source, out, self.context, self.reader, self.observer)


def _limit_jobs(jobs: int, source: Source, count: int) -> int:
    """Return how many processes to use for the conversations of one source.

    Each process reads the source itself, and parses all of one that is neither a database nor a
    folder.
    """
    if not source.is_folder and not source.is_database:
        jobs = min(jobs, max(1, _MAX_PARSED_BYTES // max(1, source.size)))
    return limit_jobs(jobs, [source.size // count] * count)


def _choose_names(conversations: list[Found], context: Context) -> list[str]:
    """Return the names of the documents, which begin with their numbers."""
    digits = len(str(len(conversations)))
    suffix = "ndjson" if context.options.mode == "ndjson" else "json"
    return [
        f"{number:0{digits}d}_{_to_file_name(conversation.id)}.{suffix}"
        for number, conversation in enumerate(conversations, 1)
    ]


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


def _build_entry(
    number: int, conversation: Found, outcome: Outcome[_Item, Receipt]
) -> dict[str, Any]:
    receipt = outcome.result
    problem = outcome.problem
    if receipt is None:
        entry = {"number": number, "id": conversation.id, "events": 0}
        if problem is not None and problem.code != _EMPTY:
            entry["error"] = problem.code
        return entry
    entry = {
        "number": number,
        "id": receipt.conversation_id,
        "file": outcome.item.path.name,
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
