"""The fast prefilter: hyperscan searches for all rules of a level in one scan.

Databases are compiled once and stored in the cache folder.
"""

import functools
import hashlib
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.redaction.cache_files import write_cache_file
from open_token.redaction.decoders import DECODERS
from open_token.redaction.prefilter import Window, Windows
from open_token.redaction.ruleset import Rule, RuleSet, compute_fingerprint
from open_token.storage.files import read_optional

_COMPILED: dict[str, bytes] = {}
"""Compiled databases by fingerprint, where no cache folder can be written."""
_OPENED: dict[str, Any] = {}
"""Opened databases by fingerprint; threads share them, each with its own scratch space."""
_MAX_KEPT = 12
on_compile: Callable[[], None] | None = None
"""Called before a database is compiled, which takes half a second or more, for a progress line."""


class _Scratches(threading.local):
    """The scratch space of a thread, by database: making one takes as long as a short search."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, database: Any) -> Any:
        entry = self._by_id.get(id(database))
        if entry is None:
            import hyperscan

            # The entry holds the database, so that no other object gets its id.
            entry = (database, hyperscan.Scratch(database))
            _keep(self._by_id, id(database), entry)
        return entry[1]


_SCRATCHES = _Scratches()


class Part(NamedTuple):
    """Rules that share a database, and their numbers among all rules."""

    rules: tuple[Rule, ...]
    numbers: tuple[int, ...]
    finds_lines: bool = False
    """It holds a rule with a finder once more, to find lines."""


@functools.lru_cache(maxsize=32)
def _split_rules(rules: tuple[Rule, ...]) -> list[Part]:
    """Return the rules by level, those with decoders apart: one database for all is 50 % slower."""
    groups: dict[tuple[str, bool], list[int]] = {}
    for number, rule in enumerate(rules):
        groups.setdefault((rule.level, rule.validator in DECODERS), []).append(number)
    parts = []
    for numbers in groups.values():
        parts.append(Part(RuleSet(rules[number] for number in numbers), tuple(numbers)))
    for number, rule in enumerate(rules):
        if rule.finder:
            parts.append(Part(RuleSet([_match_whole_lines(rule)]), (number,), finds_lines=True))
    return parts


def _match_whole_lines(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, gate=rf"(?:{rule.pattern})[^\n\x00]*[\n\x00]")


class HyperscanPrefilter:
    """Open the same windows as the keyword prefilter or fewer, never one too few."""

    def __init__(self, rules: tuple[Rule, ...], databases: list[Any]) -> None:
        self._rules = rules
        self._scans: list[tuple[Any, tuple[int, ...]]] = []
        self._line_databases: dict[int, Any] = {}
        for database, part in zip(databases, _split_rules(rules), strict=True):
            if part.finds_lines:
                self._line_databases[part.numbers[0]] = database
            else:
                self._scans.append((database, part.numbers))

    def __call__(self, data: bytes) -> list[Window]:
        windows = Windows(data, self._rules)
        for database, numbers in self._scans:
            on_match = _build_handler(windows, numbers)
            database.scan(data, match_event_handler=on_match, scratch=_SCRATCHES[database])
        return windows.opened

    def find_lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        """Return the lines in which the pattern of a rule matches."""
        database = self._line_databases[number]
        ends: list[int] = []

        def on_match(number: int, start: int, end: int, flags: int, context: object) -> None:
            ends.append(end - 1)

        database.scan(data, match_event_handler=on_match, scratch=_SCRATCHES[database])
        data = data.replace(b"\0", b"\n")
        return [(data.rfind(b"\n", 0, end) + 1, end) for end in ends]


def _build_handler(windows: Windows, numbers: tuple[int, ...]) -> Callable[..., None]:
    add_hit = windows.add_hit

    def on_match(number: int, start: int, end: int, flags: int, context: object) -> None:
        add_hit(numbers[number], end - 1)

    return on_match


def read_stored_databases(rules: tuple[Rule, ...], cache: Path | None) -> list[bytes] | None:
    """Return the compiled databases of these rules; None if any of them is not stored."""
    stored = []
    for part in _split_rules(rules):
        compiled = _read_stored(part.rules, cache)
        if not compiled:
            return None
        stored.append(compiled)
    return stored


def _read_stored(rules: tuple[Rule, ...], cache: Path | None) -> bytes | None:
    if cache:
        stored = read_optional(_get_path(rules, cache), private=True)
        if stored:
            return stored
    return _COMPILED.get(compute_fingerprint(rules)) if _COMPILED else None


def get_open_prefilter(rules: tuple[Rule, ...]) -> HyperscanPrefilter | None:
    """Return the fast prefilter if this process has opened all of its databases before."""
    if not _OPENED:
        return None
    databases = []
    for part in _split_rules(rules):
        database = _OPENED.get(compute_fingerprint(part.rules))
        if database is None:
            return None
        databases.append(database)
    return HyperscanPrefilter(rules, databases) if databases else None


def build_prefilter(
    rules: tuple[Rule, ...], cache: Path | None, stored: list[bytes] | None
) -> HyperscanPrefilter | None:
    """Return the fast prefilter; None where hyperscan is not installed."""
    try:
        import hyperscan
    except ImportError:
        return None
    databases = []
    for number, part in enumerate(_split_rules(rules)):
        compiled = stored[number] if stored else _read_stored(part.rules, cache)
        databases.append(_open_or_compile(hyperscan, part.rules, cache, compiled))
    return HyperscanPrefilter(rules, databases)


def _open_or_compile(
    hyperscan: Any, rules: tuple[Rule, ...], cache: Path | None, stored: bytes | None
) -> Any:
    fingerprint = compute_fingerprint(rules)
    database = _open_database(hyperscan, stored) if stored else None
    if database is None:
        if on_compile is not None:
            on_compile()
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        patterns = [rule.gate.encode() for rule in rules]
        database.compile(
            expressions=patterns,
            ids=list(range(len(patterns))),
            elements=len(patterns),
            flags=[0] * len(patterns),
        )
        compiled = hyperscan.dumpb(database)
        if not (cache and write_cache_file(_get_path(rules, cache), compiled)):
            _keep(_COMPILED, fingerprint, compiled)
    _keep(_OPENED, fingerprint, database)
    return database


def _keep(entries: dict[Any, Any], name: Any, entry: Any) -> None:
    if len(entries) >= _MAX_KEPT:
        entries.clear()
    entries[name] = entry


def compile_literals(words: list[bytes]) -> Any:
    """Return a database that finds each of many words in one scan.

    None where hyperscan is not installed, or a word is too long for it.
    """
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=words,
            ids=list(range(len(words))),
            elements=len(words),
            flags=[0] * len(words),
            literal=True,
        )
    except hyperscan.error:
        return None
    return database


def _open_database(hyperscan: Any, stored: bytes) -> Any:
    """Return a stored database; None if its version, processor or checksum does not fit."""
    try:
        database = hyperscan.loadb(stored, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        database.scan(b"-", match_event_handler=None)
    except hyperscan.error:
        return None
    return database


def _get_path(rules: tuple[Rule, ...], cache: Path) -> Path:
    target = f"{compute_fingerprint(rules)} {platform.system()} {platform.machine()}"
    return cache / f"rules-{hashlib.sha256(target.encode()).hexdigest()[:32]}.hyperscan"
