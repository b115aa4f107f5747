"""Merging of snapshots into a run: messages that no event brought, at their positions.

Snapshots give old messages new ids. A message is recognized by its content, a call or a result by
the id of the call.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from open_token.formats.ag_ui.run_items import Item
from open_token.formats.shared.messages import ReasoningPart
from open_token.formats.shared.repeated_history import HistoryWriter, hash_part

_START_ANNOTATIONS = ("run", "tools", "context")
_INPUT_ROLES = ("user", "system", "developer")


@dataclass(slots=True)
class _Run:
    """Positions of the messages of a run, and the items to insert before each position."""

    start: int
    """The first position after the annotations that describe the run."""
    positions: dict[bytes, list[int]] = field(default_factory=dict)
    insertions: dict[int, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class _Match:
    """An item of a snapshot, and its position in the run if it is known there."""

    item: Item
    digest: bytes
    position: int | None
    earliest: int
    """The position behind the known items that precede it."""


def merge_snapshots(items: list[Item], history: HistoryWriter) -> Iterator[Item]:
    """Yield the items of a run, with those that only a snapshot has."""
    start = next((n for n, item in enumerate(items) if not _describes_run(item)), len(items))
    run = _Run(start)
    for position, item in enumerate(items):
        item.part = item.join_deltas()
        if item.part is not None:
            run.positions.setdefault(hash_part(item.role, item.part), []).append(position)
    for position, item in enumerate(items):
        if item.snapshot is not None:
            _insert_new(_match_snapshot(item, run, history), position, run)
    for position, item in enumerate(items):
        yield from run.insertions.get(position, ())
        if item.snapshot is None:
            yield item


def _describes_run(item: Item) -> bool:
    return item.annotation is not None and item.annotation.get("kind") in _START_ANNOTATIONS


def _match_snapshot(snapshot: Item, run: _Run, history: HistoryWriter) -> list[_Match]:
    """Find the items of a snapshot in the run; those of earlier runs are left out."""
    matches: list[_Match] = []
    counts: Counter[bytes] = Counter()
    earliest = run.start
    for item in snapshot.snapshot or ():
        assert item.part is not None
        digest = hash_part(item.role, item.part)
        counts[digest] += 1
        earlier = 0 if snapshot.is_incremental else history.count_seen(digest)
        number = counts[digest] - earlier
        known = run.positions.get(digest, [])
        position = known[number - 1] if 0 < number <= len(known) else None
        if position is not None:
            earliest = position + 1
        if number > 0:
            matches.append(_Match(item, digest, position, earliest))
    return matches


def _insert_new(matches: list[_Match], position: int, run: _Run) -> None:
    """Insert unknown items of a snapshot before the known item that follows them."""
    insertions: dict[int, list[Item]] = {}
    for match in reversed(matches):
        if match.position is not None:
            position = match.position
            continue
        part = match.item.part
        if isinstance(part, ReasoningPart) and part.text is None:
            continue
        if match.item.role in _INPUT_ROLES:
            # Input precedes the reasoning and the steps that respond to it.
            position = min(position, match.earliest)
        insertions.setdefault(position, []).append(match.item)
        run.positions.setdefault(match.digest, []).append(position)
    for place, items in insertions.items():
        run.insertions.setdefault(place, []).extend(reversed(items))
