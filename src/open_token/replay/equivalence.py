"""When text that an agent sends counts as equal to the recorded text."""

import contextlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from open_token.jsontools.objects import as_object
from open_token.redaction.markers import MARKER_PATTERN, MARKER_START
from open_token.replay.recording import TRUNCATION_MARKER
from open_token.replay.text import flatten_text

_WILDCARD = re.compile(f"{MARKER_PATTERN}|{re.escape(TRUNCATION_MARKER)}")
_TAG = re.compile(r"<([a-zA-Z][\w-]{1,40})(?:\s[^<>]{0,200})?>")
_VOLATILE = (
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
_CODEX_HEADER = re.compile(
    r"\A(?:Chunk ID: [^\n]*\n|Exit code: [^\n]*\n|Wall time: [^\n]*\n|Process exited [^\n]*\n"
    r"|Original token [^\n]*\n)+"
    r"(?:Total output lines: [^\n]*\n\n?)?Output:\n"
)
_EXIT_CODE = re.compile(
    r"\AExit code \d+\n|\n?<(?:shellId: \d+ completed|exited) with exit code -?\d+>\Z"
)
_NO_OUTPUT = ("(empty)", "(no output)", "(Bash completed with no output)")
_QUOTES = "\"'` \n\t"
_MAX_DEPTH = 64


class Equivalence(msgspec.Struct, frozen=True):
    """How strictly texts are compared.

    `folders` are working directories of the recording and of the replay, the longest first: they
    count as the same.
    """

    exact: bool = False
    folders: tuple[str, ...] = ()

    def matches_prompt(self, recorded: str, given: str) -> bool:
        """Compare texts of the user; quotes and tagged notes of the agent are ignored."""
        if recorded == given:
            return True
        if self.exact:
            return False
        recorded = self._mask_folders(recorded)
        given = self._mask_folders(given)
        if _matches_with_wildcards(recorded, given):
            return True
        recorded_words = " ".join(strip_tagged_notes(recorded).split())
        given_words = " ".join(strip_tagged_notes(given).split())
        if not recorded_words:
            # A note of the agent, which nobody typed.
            return _matches_with_wildcards(mask_run_values(recorded), mask_run_values(given))
        if _matches_with_wildcards(recorded_words, given_words):
            return True
        recorded_words = recorded_words.strip(_QUOTES)
        given_words = given_words.strip(_QUOTES)
        return _matches_with_wildcards(recorded_words, given_words)

    def matches_result(self, recorded: str, given: str) -> bool:
        """Compare results of a call; times, durations and process ids are ignored."""
        if recorded == given:
            return True
        if self.exact:
            return _matches_with_wildcards(recorded, given)
        recorded = self.normalize(recorded)
        given = self.normalize(given)
        if _matches_with_wildcards(recorded, given):
            return True
        recorded = strip_runtime_lines(recorded)
        given = strip_runtime_lines(given)
        return _matches_with_wildcards(recorded, given)

    def matches_value(self, recorded: Any, given: Any) -> bool:
        """Compare arguments of a call; null and absent are the same."""
        recorded = self._normalize_value(recorded, 0)
        given = self._normalize_value(given, 0)
        if recorded == given:
            return True
        recorded_text = flatten_text(recorded)
        if MARKER_START not in recorded_text:
            return False
        return _matches_with_wildcards(recorded_text, flatten_text(given))

    def normalize(self, text: str) -> str:
        """Return a result as it is compared."""
        if self.exact:
            return text
        return mask_run_values(self._mask_folders(text))

    def _mask_folders(self, text: str) -> str:
        for folder in self.folders:
            text = text.replace(folder, "<cwd>")
        return text

    def _normalize_value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            if self.exact:
                return value
            return self._mask_folders(value)
        if depth == _MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self._normalize_value(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {
                name: self._normalize_value(item, depth + 1)
                for name, item in value.items()
                if item is not None
            }
        return value


def list_path_names(folders: Iterable[str]) -> tuple[str, ...]:
    """Return the names under which texts mention folders, the longest first.

    Claude Code names its own folders after a path, with dashes for all other characters.
    """
    names: set[str] = set()
    for folder in folders:
        if len(folder) > 3:
            names.add(folder)
            names.add(re.sub("[^A-Za-z0-9]", "-", folder))
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def mask_run_values(text: str) -> str:
    """Return a result with values that belong to one run of an agent masked.

    More is masked than by `comparison.outputs.mask_volatile`: a replay runs elsewhere, so process
    ids and temporary folders always differ, while `diff` reports them.
    """
    text = text.replace("\r\n", "\n")
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text.strip()


def strip_runtime_lines(text: str) -> str:
    """Return a result without lines that its runtime added.

    Unlike `comparison.outputs.unwrap_output` it gets what an agent sends to a model, in which
    JSON of any tool is text and an empty output has a placeholder.
    """
    if text.startswith(("{", "[")):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            value = msgspec.json.decode(text)
            output = as_object(value).get("output")
            if isinstance(output, str):
                text = output
            else:
                text = flatten_text(value)
    elif text.startswith("Output: ") and not text.startswith("Output: \n"):
        # Gemini CLI, whose last labelled line is the process group.
        text = text.removeprefix("Output: ")
        text = text.partition("\nProcess Group PGID:")[0]
    text = _CODEX_HEADER.sub("", text)
    text = _EXIT_CODE.sub("", text).strip()
    if text in _NO_OUTPUT:
        return ""
    return text


def strip_tagged_notes(text: str) -> str:
    """Return text without notes of the agent such as `<system-reminder>...</system-reminder>`."""
    parts: list[str] = []
    position = 0
    while True:
        tag = _TAG.search(text, position)
        close = text.find(f"</{tag[1]}>", tag.end()) if tag else -1
        if tag is None or close < 0:
            break
        parts.append(text[position : tag.start()])
        position = close + len(f"</{tag[1]}>")
    parts.append(text[position:])
    return "".join(parts)


def _matches_with_wildcards(recorded: str, given: str) -> bool:
    """Compare texts; a redaction or truncation marker in the recorded one matches anything."""
    first, *rest = _WILDCARD.split(recorded)
    if not rest:
        return recorded == given
    if not given.startswith(first):
        return False
    last = rest.pop()
    position = len(first)
    for piece in rest:
        start = given.find(piece, position)
        if start < 0:
            return False
        position = start + len(piece)
    return given.endswith(last) and len(given) - len(last) >= position
