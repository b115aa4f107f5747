"""The fast gate: hyperscan scans for all rules of a level at once, from databases that are compiled
once and kept."""

import functools
import hashlib
import platform
import threading
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.passes._gate import Window, Windows
from open_token.passes._hidden import DISGUISES
from open_token.passes._keeping import keep
from open_token.passes._rules import Rule, Rules, fingerprint
from open_token.storage.files import read_optional

_COMPILED: dict[str, bytes] = {}
_OPENED: dict[str, Any] = {}
"""Databases as they were opened: threads may share them, each with a scratch of its own."""
_MOST_COMPILED = 12


class _Scratches(threading.local):
    """What a thread needs to scan, by database; to make one takes as long as to search a short
    conversation."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}

    def __getitem__(self, database: Any) -> Any:
        found = self._made.get(id(database))
        if found is None:
            import hyperscan

            # With the database, so that no other gets its id.
            found = _keep(self._made, id(database), (database, hyperscan.Scratch(database)))
        return found[1]


_SCRATCHES = _Scratches()


class Part(NamedTuple):
    """Rules that have a database of their own, and their numbers among all."""

    rules: tuple[Rule, ...]
    numbers: tuple[int, ...]


@functools.lru_cache(maxsize=32)
def _parts(rules: tuple[Rule, ...]) -> list[Part]:
    """The rules by level, those that look behind a disguise apart: one database for all takes half
    as long again.

    At the end come those with a finder, as rules that match up to the end of each line."""
    numbers: dict[tuple[str, bool], list[int]] = {}
    for number, rule in enumerate(rules):
        numbers.setdefault((rule.level, rule.validator in DISGUISES), []).append(number)
    parts = [
        Part(Rules(rules[number] for number in some), tuple(some)) for some in numbers.values()
    ]
    return parts + [
        Part(Rules([_of_lines(rule)]), (number,))
        for number, rule in enumerate(rules)
        if rule.finder
    ]


def _of_lines(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, gate=rf"(?:{rule.pattern})[^\n\x00]*[\n\x00]")


class HyperscanGate:
    """Has the same windows as the gate of keywords, or fewer; never one less in which a rule
    matches."""

    def __init__(self, rules: tuple[Rule, ...], databases: list[Any]) -> None:
        self._rules = rules
        scans = [
            (database, part.numbers)
            for database, part in zip(databases, _parts(rules), strict=True)
        ]
        finders = sum(bool(rule.finder) for rule in rules)
        self._scans = scans[: len(scans) - finders]
        self._of_lines = {numbers[0]: database for database, numbers in scans[len(self._scans) :]}

    def __call__(self, data: bytes) -> list[Window]:
        windows = Windows(data, self._rules)
        for database, numbers in self._scans:
            database.scan(
                data, match_event_handler=_hits(windows, numbers), scratch=_SCRATCHES[database]
            )
        return windows.opened

    def lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        database = self._of_lines[number]
        ends: list[int] = []
        database.scan(
            data,
            match_event_handler=lambda *told: ends.append(told[2] - 1),
            scratch=_SCRATCHES[database],
        )
        data = data.replace(b"\0", b"\n")
        return [(data.rfind(b"\n", 0, end) + 1, end) for end in ends]


def _hits(windows: Windows, numbers: tuple[int, ...]) -> Any:
    hit = windows.hit

    def on_match(number: int, start: int, end: int, flags: int, context: object) -> None:
        hit(numbers[number], end - 1)

    return on_match


def stored_databases(rules: tuple[Rule, ...], cache: Path | None) -> list[bytes] | None:
    """The compiled form of these rules, if the cache has it, or this process where no cache can be
    written."""
    stored = [found for part in _parts(rules) if (found := _stored(part.rules, cache))]
    return stored if len(stored) == len(_parts(rules)) else None


def _stored(rules: tuple[Rule, ...], cache: Path | None) -> bytes | None:
    stored = read_optional(_place(rules, cache), private=True) if cache else None
    return stored or (_COMPILED.get(fingerprint(rules)) if _COMPILED else None)


def opened_gate(rules: tuple[Rule, ...]) -> HyperscanGate | None:
    """The fast gate, if this process has opened its databases before: a session is often one of
    many."""
    parts = _parts(rules) if _OPENED else []
    databases = [
        found for part in parts if (found := _OPENED.get(fingerprint(part.rules))) is not None
    ]
    return HyperscanGate(rules, databases) if databases and len(databases) == len(parts) else None


def hyperscan_gate(
    rules: tuple[Rule, ...], cache: Path | None, stored: list[bytes] | None
) -> HyperscanGate | None:
    """The fast gate; None where there is no hyperscan."""
    try:
        import hyperscan
    except ImportError:
        return None
    parts = _parts(rules)
    kept: list[bytes | None] = (
        [*stored] if stored else [_stored(part.rules, cache) for part in parts]
    )
    databases = [
        _database(hyperscan, part.rules, cache, found)
        for part, found in zip(parts, kept, strict=True)
    ]
    return HyperscanGate(rules, databases)


def _database(
    hyperscan: Any, rules: tuple[Rule, ...], cache: Path | None, stored: bytes | None
) -> Any:
    database = _opened(hyperscan, stored) if stored else None
    if database is None:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        gates = [rule.gate.encode() for rule in rules]
        database.compile(
            expressions=gates,
            ids=list(range(len(gates))),
            elements=len(gates),
            flags=[0] * len(gates),
        )
        compiled = hyperscan.dumpb(database)
        if not (cache and keep(_place(rules, cache), compiled)):
            _keep(_COMPILED, fingerprint(rules), compiled)
    return _keep(_OPENED, fingerprint(rules), database)


def _keep(kept: dict[Any, Any], name: Any, made: Any) -> Any:
    """Keep what was made for the next search of this process: it takes long, and an export needs it
    twice."""
    if len(kept) >= _MOST_COMPILED:
        kept.clear()
    kept[name] = made
    return made


def literal_database(words: list[bytes]) -> Any:
    """What finds each of many words in one scan; None where there is no hyperscan, or a word is too
    long for it."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = list(range(len(words)))
    try:
        database.compile(
            expressions=words,
            ids=numbers,
            elements=len(words),
            flags=[0] * len(words),
            literal=True,
        )
    except hyperscan.error:
        return None
    return database


def _opened(hyperscan: Any, stored: bytes) -> Any:
    """A database carries its version, its processor and a checksum; one that does not fit is
    refused."""
    try:
        database = hyperscan.loadb(stored, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        database.scan(b"-", match_event_handler=None)
    except hyperscan.error:
        return None
    return database


def _place(rules: tuple[Rule, ...], cache: Path) -> Path:
    made_for = f"{fingerprint(rules)} {platform.system()} {platform.machine()}"
    return cache / f"rules-{hashlib.sha256(made_for.encode()).hexdigest()[:32]}.hyperscan"
