"""The conversation that a replay is held against, read whole from whatever export takes."""

import argparse
from collections.abc import Callable
from typing import cast

import msgspec

from open_token.cli.choosing import Choice, choose_source
from open_token.cli.choosing_one import choose_one
from open_token.cli.console import Console
from open_token.cli.export import check_reader
from open_token.errors import InputError
from open_token.library import context_for
from open_token.model import Export
from open_token.options import ExportOptions
from open_token.passes.text import redacted_text
from open_token.pipeline import Bounded, Receipt, export
from open_token.settings import Settings, load_settings

MOST = 256 << 20
"""Bytes of a document that is replayed; it is held in memory."""


class Read(msgspec.Struct, frozen=True):
    """A document, where it came from, and how a text of it is masked before it is shown."""

    document: Export
    choice: Choice
    receipt: Receipt
    mask: Callable[[str], str]


def recorded(
    args: argparse.Namespace, words: list[str], options: ExportOptions, console: Console
) -> Read:
    """Find the conversation that is meant and read it."""
    check_reader(args)
    settings = load_settings(console.env, console.cwd)
    choice = choose_source(words, console, current=args.current, picking=args.pick)
    if choice.how:
        console.say(f"source  {choice.how}")
    reader = choose_one(args, choice, console)
    too_long = InputError(
        "this conversation is too long to be replayed",
        help="cut it, for example: open-token export SOURCE max_bytes=100000000 drop=oldest -o short.json",
        code="replay.long",
    )
    out = Bounded(MOST, too_long)
    receipt = export(choice.source, out, context_for(options, settings, console.env), reader)
    document = cast(Export, msgspec.json.decode(out.getvalue()))
    return Read(document, choice, receipt, _mask(settings, receipt.conversation_id, console))


def _mask(settings: Settings, scope: str, console: Console) -> Callable[[str], str]:
    context = context_for(ExportOptions.of({}), settings, console.env)

    def masked(text: str) -> str:
        return b"".join(redacted_text([text.encode("utf-8", "replace")], context, scope)).decode(
            "utf-8", "replace"
        )

    return masked
