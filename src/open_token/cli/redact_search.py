"""What `open-token redact` would mask in a session or a text; works the same in any process."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from open_token.cli.shared.source_selection import SelectedSource, select_reader
from open_token.cli.shared.text_input import check_text
from open_token.context import Context
from open_token.errors import InputError
from open_token.passes import select
from open_token.pipeline import read_record
from open_token.redaction.explanation import collect_values
from open_token.redaction.findings import Finding, list_record_findings, list_text_findings
from open_token.redaction.media import count_media
from open_token.registry import detect_format, require_one_conversation, select_conversation
from open_token.sources.source import Source

_TEXT_CODES = ("input.unknown", "input.json", "input.empty")
"""Errors of format detection that mean: this is plain text."""
_CHUNK_SIZE = 1 << 16


@dataclass(frozen=True)
class SourceSearcher:
    """Lists what would be masked in one source after the other."""

    context: Context
    reader: str | None
    conversation: str | None
    reads_text: bool
    """Whether every source is a text, whatever it looks like."""

    def __call__(self, selected: SelectedSource) -> list[Finding]:
        """Return what would be masked in a source."""
        source = selected.source
        context = replace(self.context, source=str(source.path or source.name))
        if self.reads_text or is_text(selected, self.reader):
            return search_text(source, context)
        reader = select_reader(self.reader, selected)
        if self.conversation and source.conversation is None:
            select_conversation(source, reader, self.conversation)
        else:
            require_one_conversation(source, reader)
        return search_session(source, reader, context)[0]


def is_text(selected: SelectedSource, reader: str | None) -> bool:
    """Whether no reader recognizes the input; a damaged session is an error, not a text."""
    if reader or selected.reader:
        return False
    try:
        detect_format(selected.source)
    except InputError as problem:
        if problem.code in _TEXT_CODES and not selected.source.is_folder:
            return True
        raise
    return False


def search_session(source: Source, reader: str, context: Context) -> tuple[list[Finding], int]:
    """Return what would be masked in a session, and how many images and files it has."""
    record = select(read_record(source, context, reader), context)
    return list_record_findings(record, context), count_media(record.events)


def search_text(
    source: Source, context: Context, report: Callable[[int], None] = lambda done: None
) -> list[Finding]:
    """Return what would be masked in a text, which is read twice."""
    known = collect_values(read_text(source, report), context)
    return list_text_findings(read_text(source, report), context, known)


def read_text(source: Source, report: Callable[[int], None] = lambda done: None) -> Iterator[bytes]:
    """Yield a text in chunks; `report` gets how many bytes were read."""
    done = 0
    with source.opened() as stream:
        chunks = iter(lambda: stream.read(_CHUNK_SIZE), b"")
        for chunk in check_text(chunks, source.name):
            done += len(chunk)
            report(done)
            yield chunk
