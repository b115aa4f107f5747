"""Which source a command reads: a file, stdin, a session, and the conversation in it."""

import argparse
import os

import msgspec

from open_token.cli.shared.console import Console, escape_controls, truncate_to_columns
from open_token.errors import MultipleConversationsError, UsageError
from open_token.model.document import Found
from open_token.options import suggest_match
from open_token.registry import (
    READERS,
    detect_format,
    require_one_conversation,
    select_conversation,
)
from open_token.sources.source import Source

SOURCE_HELP = (
    "A file, a folder, - for stdin, a session id or its prefix, `last` for the newest "
    "session or @N for the Nth newest"
)
FILE_SUFFIXES = (".json", ".jsonl", ".ndjson", ".gz", ".zst")
_MAX_LISTED = 40


class SelectedSource(msgspec.Struct, frozen=True):
    """A source; `how` says how it was found where the command does not name it."""

    source: Source
    how: str | None = None
    reader: str | None = None


def add_source_arguments(
    parser: argparse.ArgumentParser,
    *,
    conversation: str = "Conversation to read from a source that holds several",
    conversation_metavar: str = "ID|N",
    has_session_flags: bool = True,
) -> None:
    """Add the options that select a source to the help group `Selection`."""
    group = parser.add_argument_group("Selection")
    if has_session_flags:
        group.add_argument(
            "--current", action="store_true", help="Use the session this process runs in"
        )
        group.add_argument("--pick", action="store_true", help="Pick a session from a list")
    group.add_argument("--conversation", metavar=conversation_metavar, help=conversation)
    group.add_argument(
        "--from", dest="reader", metavar="READER", help="Format of the source [default: detected]"
    )


def check_reader_name(reader: str | None) -> None:
    """Raise if there is no reader of that name, before anything is opened."""
    if not reader or reader.replace("-", "_") in READERS:
        return
    guess = suggest_match(reader[:60].replace("-", "_"), READERS)
    raise UsageError(
        f"unknown reader '{reader[:60]}'", help=f"{guess}available readers: {', '.join(READERS)}"
    )


def select_source(
    words: list[str], console: Console, *, current: bool, picking: bool
) -> SelectedSource:
    """Return the source that the words of a command name; without words, the newest session."""
    if len(words) > 1:
        raise UsageError(
            f"expected one source, got {len(words)}",
            help="write options as key=value or --key value; quote a path with spaces",
        )
    if current + picking + bool(words) > 1:
        raise UsageError("SOURCE, --current and --pick are mutually exclusive", help="use one")
    if words:
        selected = _select_file(words[0], console)
        if selected is not None:
            return selected
    # Session discovery is loaded only when a command does not name its file.
    from open_token.cli.shared import session_selection

    if current:
        return session_selection.find_running(console)
    if picking:
        return session_selection.pick_from_list(console)
    if words:
        return session_selection.find_by_word(words[0], console)
    return session_selection.find_newest(console)


def _select_file(word: str, console: Console) -> SelectedSource | None:
    """Return stdin or a file by its path."""
    if word == "-":
        return SelectedSource(Source.of_stream(console.stdin, "<stdin>"))
    path = console.cwd / os.path.expanduser(word)
    if os.path.isdir(path):
        return None
    # What looks like a path is one, even if it does not exist: the error is about the file then.
    if os.path.exists(path) or "/" in word or path.suffix in FILE_SUFFIXES:
        return SelectedSource(Source.of(path, word))
    return None


def print_source(selected: SelectedSource, console: Console) -> None:
    """Report a source that the command did not name."""
    if selected.how:
        console.info(f"source  {selected.how}")


def select_reader(reader: str | None, selected: SelectedSource) -> str:
    """Return the reader that was asked for, else the detected one."""
    if reader:
        return reader.replace("-", "_")
    return selected.reader or detect_format(selected.source)


def choose_conversation(
    args: argparse.Namespace, selected: SelectedSource, console: Console, alternative: str = ""
) -> str:
    """Select the conversation that `args` ask for; return the name of the reader.

    `alternative` ends the help text of the error about a source with several conversations."""
    reader = select_reader(args.reader, selected)
    choose_conversation_in(selected.source, reader, args.conversation, console, alternative)
    return reader


def choose_conversation_in(
    source: Source, reader: str, wanted: str | None, console: Console, alternative: str = ""
) -> None:
    """Select a conversation of a source; list them if there are several and none is wanted."""
    if wanted and source.conversation is None:
        select_conversation(source, reader, wanted)
        return
    try:
        require_one_conversation(source, reader)
    except MultipleConversationsError as problem:
        _list_conversations(problem.found, console)
        raise MultipleConversationsError(
            problem.what,
            found=problem.found,
            where=problem.where,
            help=f"{problem.help}{alternative}",
        ) from None


def _list_conversations(conversations: list[Found], console: Console) -> None:
    # Loaded only for a list: masking needs the redaction rules.
    from open_token.cli.shared.session_titles import mask_titles

    width = max(20, console.width() - 62)
    listed = conversations[:_MAX_LISTED]
    titles = mask_titles([item.title for item in listed], console)
    for number, (item, title) in enumerate(zip(listed, titles, strict=True), 1):
        date = (item.updated_at or item.started_at or "")[:10]
        shown = truncate_to_columns(escape_controls(title), width)
        row = f"{number:>5}  {escape_controls(item.id)[:36]:36}  {date:10}  {shown}"
        console.info(row.rstrip())
    if len(conversations) > _MAX_LISTED:
        console.info(f"  ... and {len(conversations) - _MAX_LISTED:,} more")
