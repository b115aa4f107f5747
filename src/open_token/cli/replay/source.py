"""The session that `open-token replay` plays, read into memory."""

import argparse
from collections.abc import Callable

import msgspec

from open_token.api import build_context
from open_token.cli.shared.console import Console
from open_token.cli.shared.document import read_document
from open_token.cli.shared.source_selection import (
    SelectedSource,
    check_reader_name,
    choose_conversation,
    print_source,
    select_source,
)
from open_token.errors import InputError
from open_token.model.document import Export
from open_token.options import ExportOptions
from open_token.pipeline import Receipt
from open_token.redaction.text_stream import redact_text
from open_token.settings import Settings, load_settings

MAX_DOCUMENT_BYTES = 256 << 20


class LoadedSession(msgspec.Struct, frozen=True):
    """A document, its source, and a function that masks its texts before they are shown."""

    document: Export
    selected: SelectedSource
    receipt: Receipt
    mask: Callable[[str], str]


def load_session(
    args: argparse.Namespace, words: list[str], options: ExportOptions, console: Console
) -> LoadedSession:
    """Find the session that the arguments name and read it."""
    check_reader_name(args.reader)
    settings = load_settings(console.env, console.cwd)
    selected = select_source(words, console, current=args.current, picking=args.pick)
    print_source(selected, console)
    reader = choose_conversation(args, selected, console)
    too_large = InputError(
        "the session is too large to replay",
        help="shorten it, for example: "
        "open-token export SOURCE max_bytes=100000000 drop=oldest -o short.json",
        code="replay.long",
    )
    context = build_context(options, settings, console.env)
    document, receipt = read_document(
        selected.source, reader, context, MAX_DOCUMENT_BYTES, too_large
    )
    mask = _create_mask(settings, receipt.conversation_id, console)
    return LoadedSession(document, selected, receipt, mask)


def _create_mask(settings: Settings, scope: str, console: Console) -> Callable[[str], str]:
    context = build_context(ExportOptions.of({}), settings, console.env)

    def mask(text: str) -> str:
        encoded = text.encode("utf-8", "replace")
        return b"".join(redact_text([encoded], context, scope)).decode("utf-8", "replace")

    return mask
