"""What the world gives an export: the clock, keys, policy and folders, read at the edge and passed in."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from open_token.model import Event, Record
from open_token.options import ExportOptions


@dataclass(frozen=True)
class Policy:
    """What the user's or the system's settings demand, whatever the command says."""

    forbid_internal_full: bool = False
    never_export_private_keys: bool = False
    min_redact: str = "none"


@dataclass(frozen=True)
class Measure:
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
