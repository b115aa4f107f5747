"""Which of several conversations in one file is meant: one, found by id or number, or each of them
into a folder."""

import argparse
import importlib
from pathlib import Path
from typing import Any

import msgspec

from open_token.cli.choosing import Choice
from open_token.cli.console import Console, cut, plural, visible
from open_token.cli.progress import Progress
from open_token.cli.seen import Seen
from open_token.context import Context
from open_token.errors import SeveralError
from open_token.locallib.export_many import INDEX, export_conversations
from open_token.model import Found
from open_token.pipeline import Receipt
from open_token.registry import detect_format, require_one_conversation, select_conversation
from open_token.sources.source import Source

_LISTED = 40


def choose_one(args: argparse.Namespace, choice: Choice, console: Console, also: str = "") -> str:
    """The reader's name, with the conversation chosen; a file that holds several is listed if none
    was.

    `also` is what a verb can do beside choosing one."""
    reader = _reader(args, choice)
    be_chosen(choice.source, reader, args.conversation, console, also)
    return reader


def be_chosen(
    source: Source, reader: str, wanted: str | None, console: Console, also: str = ""
) -> None:
    """Choose the conversation that is wanted; without a wish there must be only one, or all are
    listed."""
    if wanted and source.conversation is None:
        select_conversation(source, reader, wanted)
        return
    try:
        require_one_conversation(source, reader)
    except SeveralError as problem:
        _list(problem.found, console)
        way = f"{problem.help}{also}"
        raise SeveralError(
            problem.what, found=problem.found, where=problem.where, help=way
        ) from None


def _reader(args: argparse.Namespace, choice: Choice) -> str:
    return (args.reader.replace("-", "_") if args.reader else choice.reader) or detect_format(
        choice.source
    )


def _list(found: list[Found], console: Console) -> None:
    width = max(20, console.width() - 62)
    # Loaded only for a list: it needs the search for secrets.
    masked = importlib.import_module("open_token.cli.titles").masked_titles
    listed = found[:_LISTED]
    titles: list[str] = masked([item.title for item in listed], console)
    for number, (item, told) in enumerate(zip(listed, titles, strict=True), 1):
        when = (item.updated_at or item.started_at or "")[:10]
        title = cut(visible(told), width)
        console.say(f"{number:>5}  {visible(item.id)[:36]:36}  {when:10}  {title}".rstrip())
    if len(found) > _LISTED:
        console.say(f"  ... and {len(found) - _LISTED:,} more")


def export_all(args: argparse.Namespace, choice: Choice, context: Context, console: Console) -> int:
    """Each conversation into a folder, with an index."""
    source, reader = choice.source, _reader(args, choice)
    seen = Seen() if args.report else None
    with Progress(source.size, console) as progress:
        source.progress = progress
        receipts = export_conversations(source, reader, Path(args.output), context, seen)
    source.progress = source.conversation = None
    _tell(receipts, reader, args.output, console)
    facts: dict[str, Any] = {"conversations": [_brief(receipt) for receipt in receipts]}
    if seen:
        facts["fidelity"] = seen.tell(
            source, reader, [note for receipt in receipts for note in receipt.notes], console
        )
    if args.json:
        console.json({"schema": "open-token/receipts/1", "output": args.output, **facts})
    return 0


def _brief(receipt: Receipt) -> dict[str, Any]:
    notes = {"notes": msgspec.to_builtins(receipt.notes)} if receipt.notes else {}
    return {"id": receipt.conversation_id, "events": receipt.events, **notes}


def _tell(receipts: list[Receipt], reader: str, output: str, console: Console) -> None:
    events = sum(receipt.events for receipt in receipts)
    console.say(
        f"read    {reader}  {plural(len(receipts), 'conversation')}, {plural(events, 'event')}"
    )
    counts: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], str] = {}
    for receipt in receipts:
        for note in receipt.notes:
            counts[note.code, note.detail] = counts.get((note.code, note.detail), 0) + note.count
            first.setdefault(
                (note.code, note.detail), f"{receipt.conversation_id[:60]}, {note.place}"
            )
    for (code, detail), count in counts.items():
        place = visible(first[code, detail])
        console.say(
            f"note    {code}: {visible(detail)} ({plural(count, 'time')}, first in {place})"
        )
    console.say(f"wrote   {visible(output)}  {plural(len(receipts), 'document')} and {INDEX}")
