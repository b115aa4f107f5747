"""The context of an export: options, clock, keys, policy and folders, passed in by the caller."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from open_token.model.document import Event, Record, Usage
from open_token.options import ExportOptions

ENGINES = ("auto", "hyperscan", "keywords")
"""Search engines for redaction rules."""


class Policy(msgspec.Struct, frozen=True):
    """Restrictions from the user's or the system's settings; no command overrides them."""

    forbid_internal_full: bool = False
    never_export_private_keys: bool = False
    min_redact: str = "none"


@dataclass(frozen=True)
class CustomRule:
    """A validated redaction rule from the settings of the user or the project."""

    id: str
    type: str
    level: str
    pattern: str
    keywords: tuple[str, ...] = ()
    validator: str = ""
    matches: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    file: str = ""
    """The settings file that defines it."""


@dataclass(frozen=True)
class AllowEntry:
    """An allow-list entry: a finding that matches every given field is not masked."""

    value: str = ""
    """Keyed hash of the value."""
    pattern: str = ""
    """Pattern that the whole value must match."""
    rule: str = ""
    key: str = ""
    path: str = ""
    file: str = ""
    """The settings file that defines it."""


@dataclass(frozen=True)
class RedactionOverrides:
    """What the settings and a review change about redaction."""

    rules: tuple[CustomRule, ...] = ()
    allowed: tuple[AllowEntry, ...] = ()
    kept: frozenset[str] = frozenset()
    """Values, in canonical form, that a review chose not to mask in this export."""


class SizeEstimator(msgspec.Struct, frozen=True):
    """Computes how many bytes the chosen writer needs, to fit an export into a limit."""

    frame: Callable[[Record, int], int]
    """Bytes of everything but the events, given the number of events."""
    event: Callable[[Event, int], int]
    """Bytes of one event at a position (1..N), with its separator."""


@dataclass(frozen=True)
class Selection:
    """What a person leaves out of one export, by the ids that events have before any pass."""

    dropped: frozenset[str] = frozenset()
    """Events that are left out, with what belongs to them."""
    without_media: frozenset[str] = frozenset()
    """Events whose images and files are left out."""
    first: str = ""
    """The event with which the export begins."""
    end: str = ""
    """The event before which it ends."""

    def __bool__(self) -> bool:
        return self != _EVERYTHING


_EVERYTHING = Selection()


@dataclass(frozen=True)
class Context:
    """Options and environment of one export."""

    options: ExportOptions
    measure: SizeEstimator | None = None
    now: str | None = None
    """Time of the export (RFC 3339); None: unknown."""
    key: bytes | None = None
    """Local key for the hashes in redaction markers."""
    team_key: bytes | None = None
    policy: Policy = field(default_factory=Policy)
    rule_cache: Path | None = None
    """Cache folder for compiled rules."""
    screen: RedactionOverrides = field(default_factory=RedactionOverrides)
    selection: Selection = _EVERYTHING
    source: str = ""
    """Path of the source, which allow-list entries may refer to."""
    sign: Callable[[bytes], dict[str, Any]] | None = None
    """Signs a statement; None: the export is not signed."""
    engine: str = "auto"
    """One of ENGINES."""
    estimate_cost: Callable[[str, Usage], float | None] | None = None
    """Estimates what a response of a model cost, in dollars, for pages."""
    checkpoint: Callable[[], None] | None = None
    """Called between small steps of a long search; what it raises ends the export. A server passes
    one that raises when the client has gone or the time is up."""

    def exported_at(self, previous: str | None = None, *, is_export: bool = False) -> str | None:
        """Return the time that the export states.

        `previous` is the time that the source states, if it is itself an export."""
        wanted = self.options.exported_at or ("keep" if is_export else "now")
        if wanted == "keep":
            return previous
        if wanted == "omit":
            return None
        return self.now if wanted == "now" else wanted
