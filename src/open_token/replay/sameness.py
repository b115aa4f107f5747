"""When what an agent sends is the same as what was recorded: the same words, but for what differs
from run to run."""

import contextlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from open_token.redaction.markers import MARKER_PATTERN, MARKER_START
from open_token.replay.plain import flat, object_of
from open_token.replay.recording import CUT

_MARK = re.compile(f"{MARKER_PATTERN}|{re.escape(CUT)}")
_TAGGED = re.compile(r"<([a-zA-Z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_CHANGING = (
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"),
        "<time>",
    ),
    (
        re.compile(
            r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
        ),
        "<uuid>",
    ),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|s|sec|secs|seconds)\b"), "<duration>"),
    (re.compile(r'("duration(?:_?\w{0,12})?"\s?:\s?)\d+(?:\.\d+)?'), r"\1<duration>"),
    (re.compile(r"(\bChunk ID: |\bagentId: |<task-id>|<tool-use-id>)[\w-]+"), r"\1<id>"),
    (re.compile(r"\ba[0-9a-f]{16}\b"), "<agent>"),
    (re.compile(r"\b(PIDs?|PGID|pid|process)(:? )\d+"), r"\1\2<pid>"),
    (re.compile(r"(?:/private)?(?:/tmp|/var/tmp|/var/folders/\w+/\w+/T)/[\w.-]+"), "<tmp>"),
)
_CODEX = re.compile(
    r"\A(?:Chunk ID: [^\n]*\n|Exit code: [^\n]*\n|Wall time: [^\n]*\n|Process exited [^\n]*\n|Original token [^\n]*\n)+"
    r"(?:Total output lines: [^\n]*\n\n?)?Output:\n"
)
_EXIT = re.compile(
    r"\AExit code \d+\n|\n?<(?:shellId: \d+ completed|exited) with exit code -?\d+>\Z"
)
_NOTHING = ("(empty)", "(no output)", "(Bash completed with no output)")
_QUOTES = "\"'` \n\t"


class Sameness(msgspec.Struct, frozen=True):
    """How strictly texts are compared; `folders` are the same place in the record and now, the
    longest first."""

    exact: bool = False
    folders: tuple[str, ...] = ()

    def prompts(self, recorded: str, given: str) -> bool:
        """Whether a user's words are the same; agents put them in quotes and tagged notes beside
        them."""
        if recorded == given or (
            not self.exact and _fits(self._at_home(recorded), self._at_home(given))
        ):
            return True
        if self.exact:
            return False
        told, said = (_joined(without_tags(self._at_home(text))) for text in (recorded, given))
        if not told:  # a note of the agent's own, where nobody typed
            return _fits(steady(self._at_home(recorded)), steady(self._at_home(given)))
        return _fits(told, said) or _fits(told.strip(_QUOTES), said.strip(_QUOTES))

    def results(self, recorded: str, given: str) -> bool:
        """Whether what a call gave back is the same; times, durations and process numbers are
        forgiven."""
        if recorded == given or self.exact:
            return recorded == given or _fits(recorded, given)
        told, said = (steady(self._at_home(text)) for text in (recorded, given))
        return _fits(told, said) or _fits(bare(told), bare(said))

    def values(self, recorded: Any, given: Any) -> bool:
        """Whether arguments are the same; those that are null may be left out."""
        told, said = (_Plain(self).of(value, 0) for value in (recorded, given))
        return bool(told == said) or (MARKER_START in flat(told) and _fits(flat(told), flat(said)))

    def told(self, text: str) -> str:
        """A result as it is compared: what is forgiven shows no difference."""
        return text if self.exact else steady(self._at_home(text))

    def _at_home(self, text: str) -> str:
        for folder in self.folders:
            text = text.replace(folder, "<cwd>")
        return text


class _Plain(msgspec.Struct, frozen=True):
    """Arguments without what says nothing."""

    sameness: Sameness

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return value if self.sameness.exact else self.sameness._at_home(value)
        if isinstance(value, dict) and depth < 64:
            return {
                name: self.of(item, depth + 1) for name, item in value.items() if item is not None
            }
        if isinstance(value, list) and depth < 64:
            return [self.of(item, depth + 1) for item in value]
        return value


def names_of(folders: Iterable[str]) -> tuple[str, ...]:
    """Folders as texts name them, the longest first; Claude Code makes one word of a path to name a
    folder after it."""
    found = {
        name
        for folder in folders
        for name in (folder, re.sub("[^A-Za-z0-9]", "-", folder))
        if len(folder) > 3
    }
    return tuple(sorted(found, key=lambda name: (-len(name), name)))


def steady(text: str) -> str:
    """A result without what differs from run to run."""
    text = text.replace("\r\n", "\n")
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text.strip()


def bare(text: str) -> str:
    """A result without what its runtime puts around it."""
    if text.startswith(("{", "[")):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            held = msgspec.json.decode(text)
            inner = object_of(held).get("output")
            text = inner if isinstance(inner, str) else flat(held)
    elif text.startswith("Output: ") and not text.startswith("Output: \n"):
        text = text.removeprefix("Output: ").partition("\nProcess Group PGID:")[0]
    text = _EXIT.sub("", _CODEX.sub("", text)).strip()
    return "" if text in _NOTHING else text


def without_tags(text: str) -> str:
    """Words without the notes that agents put among them, as
    `<system-reminder>...</system-reminder>`."""
    kept, place = [], 0
    while found := _TAGGED.search(text, place):
        close = text.find(f"</{found[1]}>", found.end())
        if close < 0:
            break
        kept.append(text[place : found.start()])
        place = close + len(found[1]) + 3
    return "".join([*kept, text[place:]])


def _joined(text: str) -> str:
    return " ".join(text.split())


def _fits(recorded: str, given: str) -> bool:
    """Whether a text is the recorded one; a mark in it stands for anything."""
    first, *rest = _MARK.split(recorded)
    if not rest:
        return recorded == given
    if not given.startswith(first):
        return False
    place, last = len(first), rest.pop()
    for piece in rest:
        found = given.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return given.endswith(last) and len(given) - len(last) >= place
