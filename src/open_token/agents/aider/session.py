"""Read one session of aider, written in Markdown."""

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
_EDITOR_LINE = re.compile(r"(-\*-[^\n]*-\*-)[ \t]*\r?\n")
"""A mode line for an editor at the head of the file."""
_MODEL = re.compile(r"^(?:Main model|Models?): (\S+?),?(?: with |$)", re.MULTILINE)
_VERSION = re.compile(r"^Aider v(\S+)", re.MULTILINE)
_TOKENS = re.compile(r"^Tokens: ([\d.,]+k?) sent, (?:.*? )?([\d.,]+k?) received", re.MULTILINE)
_CACHE = re.compile(r"^Tokens: .*cache (?:hit|write)", re.MULTILINE)
_EXACT_COUNT = re.compile(r"\d{1,3}(?:,\d{3})*|\d+")
_LINT_PROMPT = re.compile(r"# Fix any (?:linting )?errors below, if possible\.")

_PROMPT_MARK = "####"
_NOTICE_MARK = ">"
_LINE_END = "  "
"""Prompts and notices end with two spaces on each line, a line break in Markdown."""


class Speaker(Enum):
    """Who wrote a block."""

    USER = "user"
    MODEL = "model"
    AIDER = "aider"


class Block(NamedTuple):
    """Consecutive lines of one speaker."""

    speaker: Speaker
    text: str


class SessionReader:
    """Reads a session; its time is local, without a time zone, so no event has a time."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._client = draft.get_actor("system", "aider")
        self._providers = ProviderTracker()
        self._model: str | None = None
        self._response: Event | None = None
        """The last response, until its token counts follow."""

    def read(self, text: str) -> None:
        """Read the text of the session into the draft."""
        draft = self._draft
        header = _HEADER.match(text)
        self._read_context(text, header[1] if header else None)
        start = header.end() if header else 0
        editor_line = _EDITOR_LINE.match(text)
        if editor_line:
            self._annotate({"kind": "notice", "text": editor_line[1]})
            start = editor_line.end()
        for block in split_blocks(text[start:]):
            if block.speaker is Speaker.USER:
                self._read_prompt(block.text)
            elif block.speaker is Speaker.MODEL:
                self._read_response(block.text)
            else:
                self._read_notice(block.text)
        draft.conversation["source_runtime"] = "cli"
        draft.without_thoughts = "unknown"
        self._providers.set_provider(draft.conversation)

    def _read_context(self, text: str, started_local: str | None) -> None:
        # Sessions have no id: one is made of their text, not of the file, which holds several.
        if text:
            raw = text.encode("utf-8", "surrogatepass")
            self._draft.fingerprint = hashlib.sha256(raw).hexdigest()
            self._draft.first_day = (started_local or "00000000")[:10]
        facts: dict[str, Any] = {}
        if started_local:
            facts["started_local"] = started_local
        # The version is in the first notice.
        version = _VERSION.search(text[:4000].replace("\n> ", "\n"))
        if version:
            facts["version"] = version[1]
        if facts:
            self._annotate({"kind": "context", **facts})

    def _annotate(self, data: dict[str, Any]) -> None:
        self._draft.add_annotation(data, actor=self._client)

    def _read_prompt(self, text: str) -> None:
        self._response = None
        if _LINT_PROMPT.match(text):
            # Aider itself sends the output of the linter as a prompt.
            self._draft.add_message("user", text, self._client, visibility="internal")
        else:
            self._draft.add_message("user", text, self._draft.get_actor("human", "user"))

    def _read_response(self, text: str) -> None:
        provider = self._providers.add_model(None, self._model)
        actor = self._draft.get_actor("model", "assistant", provider=provider, model=self._model)
        self._response = self._draft.add_message("assistant", text, actor)

    def _read_notice(self, text: str) -> None:
        """Read a message of aider: models, edits, commits, costs, confirmations."""
        model = _MODEL.search(text)
        if model:
            self._model = model[1]
        usage = _parse_usage(text) if self._response is not None else None
        if self._response is not None and usage:
            self._draft.set_usage(self._response, usage)
            self._response = None
        self._annotate({"kind": "notice", "text": text})


def _parse_usage(text: str) -> Usage | None:
    """Return the token counts that are exact.

    Most are rounded to thousands. With a cache it is not clear what the input includes.
    """
    tokens = _TOKENS.search(text)
    if tokens is None:
        return None
    sent = None if _CACHE.search(text) else _parse_count(tokens[1])
    return build_usage(input_tokens=sent, output_tokens=_parse_count(tokens[2]))


def _parse_count(text: str) -> int | None:
    return int(text.replace(",", "")) if _EXACT_COUNT.fullmatch(text) else None


def split_blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a session in order."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    # An editor may have removed the spaces at the ends of all lines.
    has_line_ends = any(
        line.startswith(_PROMPT_MARK) and line.endswith(_LINE_END) for line in lines
    )
    speaker = Speaker.MODEL
    block: list[str] = []
    for line_speaker, line in _assign_speakers(lines, _LINE_END if has_line_ends else ""):
        if line_speaker is not speaker:
            yield from _build_block(speaker, block)
            speaker = line_speaker
            block = []
        block.append(line)
    yield from _build_block(speaker, block)


def _assign_speakers(lines: list[str], line_end: str) -> Iterator[tuple[Speaker, str]]:
    """Yield each line with its speaker and without its markup.

    The line ends distinguish prompts and notices from headings and quotes in a response. A notice
    of several lines is marked on its first line only, and ends at the first line end.
    """
    is_in_notice = False
    previous = _LINE_END
    for line in lines:
        can_start = (
            not previous.strip()
            or previous.endswith(_LINE_END)
            or (not line_end and previous.startswith((_PROMPT_MARK, _NOTICE_MARK)))
        )
        is_prompt = can_start and _has_mark(line, _PROMPT_MARK, line_end)
        if is_in_notice and not (is_prompt and not previous):
            is_last = line.endswith(_LINE_END)
            yield Speaker.AIDER, line.rstrip() if is_last else line
            is_in_notice = not is_last
        elif is_prompt:
            is_in_notice = False
            yield Speaker.USER, _strip_markup(line[4:])
        elif can_start and _has_mark(line, _NOTICE_MARK, line_end):
            yield Speaker.AIDER, _strip_markup(line[1:])
        elif line.startswith("> ") and previous.endswith(_LINE_END):
            # A response always follows a blank line, so this is a notice of several lines.
            is_in_notice = True
            yield Speaker.AIDER, line[2:]
        else:
            yield Speaker.MODEL, line
        previous = line


def _has_mark(line: str, mark: str, line_end: str) -> bool:
    if not line.startswith(mark) or not line.endswith(line_end):
        return False
    return line[len(mark) : len(mark) + 1] in ("", " ")


def _strip_markup(text: str) -> str:
    """Remove the space after the mark and the two at the end of the line."""
    return text.removesuffix(_LINE_END).removeprefix(" ")


def _build_block(speaker: Speaker, lines: list[str]) -> Iterator[Block]:
    text = "\n".join(lines)
    if speaker is Speaker.MODEL:
        text = text.strip("\n")
        if not text.strip():
            return
    # An empty prompt is a prompt, too.
    if text or (speaker is Speaker.USER and lines):
        yield Block(speaker, text)
