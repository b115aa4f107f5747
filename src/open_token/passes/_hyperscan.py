"""The fast gate: one hyperscan scan for all rules at once, from a database that is compiled once and kept."""

import hashlib
import platform
from pathlib import Path
from typing import Any

from open_token.files import make_folder, read_optional, write_private
from open_token.passes._gate import Window, Windows
from open_token.passes._rules import Rule, fingerprint

_COMPILED: dict[str, bytes] = {}
_OPENED: dict[str, Any] = {}
"""Databases as they were opened: threads may share them, each with a scratch of its own."""
_MOST_COMPILED = 8


class HyperscanGate:
    """Has the same windows as the gate of keywords, or fewer; never one less in which a rule matches."""

    def __init__(self, rules: tuple[Rule, ...], database: Any, scratch: Any) -> None:
        self._rules = rules
        self._database = database
        self._scratch = scratch

    def __call__(self, data: bytes) -> list[Window]:
        windows = Windows(data, self._rules)
        hit = windows.hit

        def on_match(number: int, start: int, end: int, flags: int, context: object) -> None:
            hit(number, end - 1)

        self._database.scan(data, match_event_handler=on_match, scratch=self._scratch)
        return windows.opened


def stored_database(rules: tuple[Rule, ...], cache: Path | None) -> bytes | None:
    """The compiled form of these rules, if the cache has it, or this process where no cache can be written."""
    stored = read_optional(_place(rules, cache), private=True) if cache else None
    return stored or (_COMPILED.get(fingerprint(rules)) if _COMPILED else None)


def opened_gate(rules: tuple[Rule, ...]) -> HyperscanGate | None:
    """The fast gate, if this process has opened its database before: a session is often one of many."""
    database = _OPENED.get(fingerprint(rules)) if _OPENED else None
    return _gate(rules, database) if database is not None else None


def _gate(rules: tuple[Rule, ...], database: Any) -> HyperscanGate:
    import hyperscan

    return HyperscanGate(rules, database, hyperscan.Scratch(database))


def hyperscan_gate(rules: tuple[Rule, ...], cache: Path | None, stored: bytes | None) -> HyperscanGate | None:
    """The fast gate; None where there is no hyperscan."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = _opened(hyperscan, stored) if stored else None
    if database is None:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        gates = [rule.gate.encode() for rule in rules]
        database.compile(expressions=gates, ids=list(range(len(gates))), elements=len(gates), flags=[0] * len(gates))
        compiled = hyperscan.dumpb(database)
        if cache and make_folder(cache):
            write_private(_place(rules, cache), compiled)
        else:
            _keep(_COMPILED, rules, compiled)
    _keep(_OPENED, rules, database)
    return _gate(rules, database)


def _keep(kept: dict[str, Any], rules: tuple[Rule, ...], made: Any) -> None:
    """Keep what was made for the next search of this process: it takes long, and an export needs it twice."""
    if len(kept) >= _MOST_COMPILED:
        kept.clear()
    kept[fingerprint(rules)] = made


def literal_database(words: list[bytes]) -> Any:
    """What finds each of many words in one scan; None where there is no hyperscan, or a word is too long for it."""
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    numbers = list(range(len(words)))
    try:
        database.compile(expressions=words, ids=numbers, elements=len(words), flags=[0] * len(words), literal=True)
    except hyperscan.error:
        return None
    return database


def _opened(hyperscan: Any, stored: bytes) -> Any:
    """A database carries its version, its processor and a checksum; one that does not fit is refused."""
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
