"""What the world gives an export: the clock, keys, policy and folders, read at the edge and passed
in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from open_token.model import Event, Record
from open_token.options import ExportOptions

ENGINES = ("auto", "hyperscan", "keywords")
"""How redaction rules are searched for."""


class Policy(msgspec.Struct, frozen=True):
    """What the user's or the system's settings demand, whatever the command says."""

    forbid_internal_full: bool = False
    never_export_private_keys: bool = False
    min_redact: str = "none"


@dataclass(frozen=True)
class OwnRule:
    """A redaction rule of the user or the project, checked."""

    id: str
    type: str
    level: str
    pattern: str
    keywords: tuple[str, ...] = ()
    validator: str = ""
    matches: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    file: str = ""
    """Where it stands."""


@dataclass(frozen=True)
class Allowance:
    """What is not masked: all that is said here must hold of a finding."""

    value: str = ""
    """The keyed hash of the value."""
    pattern: str = ""
    """What the whole value looks like."""
    rule: str = ""
    key: str = ""
    path: str = ""
    file: str = ""
    """Where it stands."""


@dataclass(frozen=True)
class Screen:
    """What this user and this project add to redaction, and what they leave alone."""

    rules: tuple[OwnRule, ...] = ()
    allowed: tuple[Allowance, ...] = ()
    kept: frozenset[str] = frozenset()
    """Values, in their canonical form, that a person chose to keep in this one export."""


class Measure(msgspec.Struct, frozen=True):
    """How many bytes the chosen writer needs, so that a pass can fit an export into a limit."""

    frame: Callable[[Record, int], int]
    """Everything around the events, for a record with that many events."""
    event: Callable[[Event, int], int]
    """One event at a place (1..N), with its separator."""


@dataclass(frozen=True)
class Context:
    """Options and surroundings of one export."""

    options: ExportOptions
    measure: Measure | None = None
    now: str | None = None
    """The time of the export in RFC 3339; None: unknown."""
    key: bytes | None = None
    """The local key behind the hashes in redaction marks."""
    team_key: bytes | None = None
    policy: Policy = field(default_factory=Policy)
    rule_cache: Path | None = None
    """A folder for compiled rules."""
    screen: Screen = field(default_factory=Screen)
    source: str = ""
    """The path of what is exported; allow-lists may name it."""
    sign: Callable[[bytes], dict[str, Any]] | None = None
    """Makes the signature of a statement, where the export is to be signed."""
    engine: str = "auto"
    """How rules are searched for: auto, hyperscan or keywords."""

    def exported_at(self, kept: str | None = None, *, is_export: bool = False) -> str | None:
        """The time that the export names: as was asked; else of the export that it is made from, or
        now."""
        wish = self.options.exported_at or ("keep" if is_export else "now")
        if wish == "keep":
            return kept
        return {"now": self.now, "omit": None}.get(wish, wish)
