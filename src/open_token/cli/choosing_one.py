"""Which of several conversations in one file is meant: one, found by id or number, or each of them into a folder."""

import argparse
from pathlib import Path

from open_token.cli.choosing import Choice
from open_token.cli.console import Console, cut, plural, visible
from open_token.cli.progress import Progress
from open_token.context import Context
from open_token.errors import SeveralError
from open_token.model import Found
from open_token.pipeline import Receipt
from open_token.readers import be_one, choose, pick
from open_token.several import INDEX, export_each

_LISTED = 40


def choose_one(args: argparse.Namespace, choice: Choice, console: Console) -> str:
    """The reader's name, with the conversation chosen; a file that holds several is listed if none was."""
    reader = _reader(args, choice)
    if args.conversation and choice.source.conversation is None:
        pick(choice.source, reader, args.conversation)
        return reader
    try:
        be_one(choice.source, reader)
    except SeveralError as problem:
        _list(problem.found, console)
        raise
    return reader


def _reader(args: argparse.Namespace, choice: Choice) -> str:
    return (args.reader.replace("-", "_") if args.reader else choice.reader) or choose(choice.source)


def _list(found: list[Found], console: Console) -> None:
    width = max(20, console.width() - 62)
    for number, item in enumerate(found[:_LISTED], 1):
        when = (item.updated_at or item.started_at or "")[:10]
        title = cut(visible(item.title or ""), width)
        console.say(f"{number:>5}  {visible(item.id)[:36]:36}  {when:10}  {title}".rstrip())
    if len(found) > _LISTED:
        console.say(f"  ... and {len(found) - _LISTED:,} more")


def export_all(args: argparse.Namespace, choice: Choice, context: Context, console: Console) -> int:
    """Each conversation into a folder, with an index."""
    source, reader = choice.source, _reader(args, choice)
    with Progress(source.size, console) as progress:
        source.progress = progress
        receipts = export_each(source, reader, Path(args.output), context)
    source.progress = None
    _tell(receipts, reader, args.output, console)
    if args.json:
        told = [{"id": receipt.conversation_id, "events": receipt.events} for receipt in receipts]
        console.json({"schema": "open-token/receipts/1", "output": args.output, "conversations": told})
    return 0


def _tell(receipts: list[Receipt], reader: str, output: str, console: Console) -> None:
    events = sum(receipt.events for receipt in receipts)
    console.say(f"read    {reader}  {plural(len(receipts), 'conversation')}, {plural(events, 'event')}")
    counts: dict[tuple[str, str], int] = {}
    for receipt in receipts:
        for note in receipt.notes:
            counts[note.code, note.detail] = counts.get((note.code, note.detail), 0) + note.count
    for (code, detail), count in counts.items():
        console.say(f"note    {code}: {visible(detail)} ({plural(count, 'time')})")
    console.say(f"wrote   {visible(output)}  {plural(len(receipts), 'document')} and {INDEX}")
