"""Readers: one public module per runtime or format. The table is lazy, so that start-up stays light."""

from importlib import import_module
from itertools import islice
from typing import Protocol, cast

from open_token.draft import Draft
from open_token.errors import InputError, UsageError
from open_token.source import SAMPLE_RECORDS, Source


class Reader(Protocol):
    """What a reader module defines."""

    TITLE: str
    """The name a person knows the format by."""
    PLACES: tuple[str, ...]
    """Where its conversations live: globs below the home folder, or below one that `$NAME` in the environment names."""

    def sniff(self, source: Source) -> bool:
        """Whether the content is of this format."""
        ...

    def read(self, source: Source, draft: Draft) -> None:
        """Tell the conversation to the draft, in source order."""
        ...


NAMES = ("anthropic_messages", "claude_code", "codex", "gemini_api", "open_token", "openai_chat", "openai_responses")
"""The public modules here, as a test makes sure; looking into the folder at every start would cost more."""


def load(name: str) -> Reader:
    """The reader of that name."""
    name = name.replace("-", "_")
    if name not in NAMES:
        raise UsageError(f"there is no reader {name}", help=f"the readers are {', '.join(NAMES)}")
    return cast(Reader, import_module(f"{__name__}.{name}"))


def choose(source: Source) -> str:
    """The one reader that claims the content; none or several is an error that says so."""
    if source.shape == "empty":
        raise InputError(
            "the input is empty", where=source.name, help="name a file that holds a conversation", code="input.empty"
        )
    if source.shape == "binary":
        raise InputError(
            "the input is binary data, not a conversation this version reads",
            where=source.name,
            help="list what can be read with `open-token formats`",
            code="input.binary",
        )
    claims = [name for name in NAMES if load(name).sniff(source)]
    if len(claims) == 1:
        return claims[0]
    if claims:
        raise InputError(
            f"{' and '.join(claims)} both claim this input",
            where=source.name,
            help=f"say which it is: --from {claims[0]} or --from {claims[1]}",
            code="input.ambiguous",
        )
    for _ in islice(source.records(), SAMPLE_RECORDS):
        pass  # an input that does not parse says where, which helps more than 'unknown'
    raise InputError(
        f"this is no conversation I know (tried {len(NAMES)} formats)",
        where=source.name,
        help="name the format with --from NAME; list them with `open-token formats`",
        code="input.unknown",
    )
