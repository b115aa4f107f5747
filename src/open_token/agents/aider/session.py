"""One session of aider told block by block."""

import hashlib
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Usage

_HEADER = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[ \t]*\r?(?:\n|$)")
_MODE = re.compile(r"(-\*-[^\n]*-\*-)[ \t]*\r?\n")
"""A line for an editor at the head of the file."""
_MODEL = re.compile(r"^(?:Main model|Models?): (\S+?),?(?: with |$)", re.MULTILINE)
_VERSION = re.compile(r"^Aider v(\S+)", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: ([\d.,]+k?) sent, (?:.*? )?([\d.,]+k?) received", re.MULTILINE)
_CACHE = re.compile(r"^Tokens: .*cache (?:hit|write)", re.MULTILINE)
_EXACT = re.compile(r"\d{1,3}(?:,\d{3})*|\d+")
_LINT = re.compile(r"# Fix any (?:linting )?errors below, if possible\.")


class Voice(Enum):
    """Who speaks in a block."""

    PERSON = "person"
    MODEL = "model"
    AIDER = "aider"


class Block(NamedTuple):
    """What one of them said."""

    voice: Voice
    text: str


class Session:
    """Tells a session. Its time is local, with no zone, so that no event has one."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._client = draft.get_actor("system", "aider")
        self._providers = ProviderTracker()
        self._model: str | None = None
        self._answer: Event | None = None
        """The last answer, until its tokens are told."""

    def tell(self, text: str) -> None:
        """Tell everything."""
        draft = self._draft
        header = _HEADER.match(text)
        self._frame(text, header[1] if header else None)
        start = header.end() if header else 0
        if mode := _MODE.match(text):
            draft.add_annotation({"kind": "notice", "text": mode[1]}, actor=self._client)
            start = mode.end()
        for block in blocks(text[start:]):
            self._block(block)
        draft.conversation["source_runtime"] = "cli"
        draft.without_thoughts = "unknown"
        self._providers.set_provider(draft.conversation)

    def _frame(self, text: str, began: str | None) -> None:
        """The history names no session: its own text does."""
        if text:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            self._draft.conversation["id"] = (
                f"conv_{(began or '00000000')[:10].replace('-', '')}_{digest[:8]}"
            )
        facts: dict[str, Any] = {"started_local": began} if began else {}
        if found := _VERSION.search(text[:4000].replace("\n> ", "\n")):
            facts["version"] = found[1]
        if facts:
            self._draft.add_annotation({"kind": "context", **facts}, actor=self._client)

    def _block(self, block: Block) -> None:
        if block.voice is Voice.PERSON:
            self._prompt(block.text)
        elif block.voice is Voice.MODEL:
            self._said(block.text)
        else:
            self._notice(block.text)

    def _prompt(self, text: str) -> None:
        """What was typed, commands too; what the linter found is sent back by aider in the person's
        place."""
        self._answer = None
        if _LINT.match(text):
            self._draft.add_message("user", text, self._client, visibility="internal")
        else:
            self._draft.add_message("user", text, self._draft.get_actor("human", "user"))

    def _said(self, text: str) -> None:
        provider = self._providers.add_model(None, self._model)
        actor = self._draft.get_actor("model", "assistant", provider=provider, model=self._model)
        self._answer = self._draft.add_message("assistant", text, actor)

    def _notice(self, text: str) -> None:
        """What aider said: its models, edits, commits, costs, questions with their answers."""
        if found := _MODEL.search(text):
            self._model = found[1]
        if self._answer is not None and (usage := _usage(text)):
            self._draft.set_usage(self._answer, usage)
            self._answer = None
        self._draft.add_annotation({"kind": "notice", "text": text}, actor=self._client)


def _usage(text: str) -> Usage | None:
    """The counts that are exact; most are rounded to thousands, and with a cache it is not clear
    what is counted."""
    found = _TOKENS.search(text)
    if not found:
        return None
    sent, received = (
        int(figure.replace(",", "")) if _EXACT.fullmatch(figure) else None
        for figure in found.groups()
    )
    return build_usage(input_tokens=None if _CACHE.search(text) else sent, output_tokens=received)


_PROMPT, _NOTICE = "####", ">"


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a session, in order.

    What a person typed and what aider said end with two spaces on each line, which is what tells
    them from headings and quotes in an answer. Words of aider that have several lines are marked on
    the first, and end on the last."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    end = "  " if any(line.startswith(_PROMPT) and line.endswith("  ") for line in lines) else ""
    gathered: list[str] = []
    voice = Voice.MODEL
    for now, line in _voiced(lines, end):
        if now is not voice:
            yield from _block(voice, gathered)
            gathered, voice = [], now
        gathered.append(line)
    yield from _block(voice, gathered)


def _voiced(lines: list[str], end: str) -> Iterator[tuple[Voice, str]]:
    """Each line with who says it, without its marks; end is empty when an editor cut the spaces off
    all of them."""
    goes_on, before = False, "  "
    for line in lines:
        fresh = (
            not before.strip()
            or before.endswith("  ")
            or (not end and before.startswith((_PROMPT, _NOTICE)))
        )
        prompt = fresh and _is_marked(line, _PROMPT, end)
        if goes_on and not (prompt and not before):
            yield Voice.AIDER, line.rstrip() if line.endswith("  ") else line
            goes_on = not line.endswith("  ")
        elif prompt:
            goes_on = False
            yield Voice.PERSON, _bare(line[4:])
        elif fresh and _is_marked(line, _NOTICE, end):
            yield Voice.AIDER, _bare(line[1:])
        elif line.startswith("> ") and before.endswith("  "):
            # No answer follows without a blank line: aider says something that has more lines.
            goes_on = True
            yield Voice.AIDER, line[2:]
        else:
            yield Voice.MODEL, line
        before = line


def _is_marked(line: str, mark: str, end: str) -> bool:
    return (
        line.startswith(mark)
        and line[len(mark) : len(mark) + 1] in ("", " ")
        and line.endswith(end)
    )


def _bare(text: str) -> str:
    """A line without the space behind its mark and the two at its end."""
    return text.removesuffix("  ").removeprefix(" ")


def _block(voice: Voice, lines: list[str]) -> Iterator[Block]:
    text = "\n".join(lines)
    if voice is Voice.MODEL:
        text = text.strip("\n")
        text = "" if not text.strip() else text
    if text or (voice is Voice.PERSON and lines):
        yield Block(voice, text)
