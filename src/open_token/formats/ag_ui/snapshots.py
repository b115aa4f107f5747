"""Merging of snapshots into a run: messages that no event brought, at their positions.

Snapshots give old messages new ids. A message is recognized by its content, a call or a result by
the id of the call. Some backends give calls new ids in every snapshot, too: a call with an unknown
id is the call with the same tool and arguments that comes at the same place among those.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from open_token.formats.ag_ui.run_items import Item
from open_token.formats.shared.messages import (
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from open_token.formats.shared.repeated_history import HistoryWriter, hash_part

_START_ANNOTATIONS = ("run", "tools", "context")
_INPUT_ROLES = ("user", "system", "developer")

_CallIds = dict[bytes, list[str | None]]
"""The ids of the calls of the same tool with the same arguments, in order."""


@dataclass(slots=True)
class _Run:
    """Positions of the messages of a run, and the items to insert before each position."""

    start: int
    """The first position after the annotations that describe the run."""
    positions: dict[bytes, list[int]] = field(default_factory=dict)
    calls: _CallIds = field(default_factory=dict)
    insertions: dict[int, list[Item]] = field(default_factory=dict)


@dataclass(slots=True)
class _Match:
    """An item of a snapshot, and its position in the run if it is known there."""

    item: Item
    digest: bytes
    position: int | None
    earliest: int
    """The position behind the known items that precede it."""


class SnapshotMerger:
    """Merges the snapshots of the runs of a stream, and remembers the calls of earlier runs."""

    def __init__(self, history: HistoryWriter) -> None:
        self._history = history
        self._earlier_calls: _CallIds = {}

    def merge(self, items: list[Item]) -> list[Item]:
        """Return the items of a run, with those that only a snapshot has."""
        merged = _move_calls(list(_merge(items, self._history, self._earlier_calls)))
        for item in merged:
            if isinstance(item.part, ToolCallPart):
                ids = self._earlier_calls.setdefault(_hash_call(item.part), [])
                ids.append(item.part.id)
        return merged


def _move_calls(items: list[Item]) -> list[Item]:
    """Return the items with calls before their results: LangGraph joins the arguments of parallel
    calls, so that only a snapshot, after the results, has the second call."""
    calls: dict[str, Item] = {}
    for item in items:
        if isinstance(item.part, ToolCallPart) and item.part.id:
            calls.setdefault(item.part.id, item)
    ordered: list[Item] = []
    added: set[int] = set()
    for item in items:
        if isinstance(item.part, ToolResultPart):
            call = calls.get(item.part.id or "")
            if call is not None and id(call) not in added:
                added.add(id(call))
                ordered.append(call)
        if id(item) not in added:
            added.add(id(item))
            ordered.append(item)
    return ordered


def _hash_call(part: ToolCallPart) -> bytes:
    return hash_part("assistant", part._replace(id=None))


def _merge(items: list[Item], history: HistoryWriter, earlier_calls: _CallIds) -> Iterator[Item]:
    start = next((n for n, item in enumerate(items) if not _describes_run(item)), len(items))
    run = _Run(start)
    for position, item in enumerate(items):
        item.part = item.join_deltas()
        if item.part is not None:
            run.positions.setdefault(hash_part(item.role, item.part), []).append(position)
            _remember_call(item.part, run)
    for position, item in enumerate(items):
        if item.snapshot is not None:
            _complete_text(items, position, run)
            _restore_call_ids(item, run, history, earlier_calls)
            _insert_new(_match_snapshot(item, run, history), position, run)
    for position, item in enumerate(items):
        yield from run.insertions.get(position, ())
        if item.snapshot is None:
            yield item


def _complete_text(items: list[Item], position: int, run: _Run) -> None:
    """Give a text that broke off in the stream the whole text of the snapshot.

    That is the last answer before the snapshot, if the snapshot does not have it as it is and its
    own last answer begins with it.
    """
    answers = [item for item in items[position].snapshot or () if _get_answer(item)]
    streamed = position - 1
    while streamed >= 0 and items[streamed].snapshot is None and not _get_answer(items[streamed]):
        streamed -= 1
    text = _get_answer(items[streamed]) if streamed >= 0 else ""
    if not text or not answers or any(_get_answer(item) == text for item in answers):
        return
    whole = _get_answer(answers[-1])
    digest = hash_part("assistant", TextPart(whole))
    if whole.startswith(text) and digest not in run.positions:
        run.positions[hash_part("assistant", TextPart(text))].remove(streamed)
        run.positions[digest] = [streamed]
        items[streamed].part = answers[-1].part


def _get_answer(item: Item) -> str:
    """Return the text of an answer in the main thread; an empty one if it is something else."""
    if item.role != "assistant" or item.subagent is not None or not isinstance(item.part, TextPart):
        return ""
    return item.part.content if isinstance(item.part.content, str) else ""


def _describes_run(item: Item) -> bool:
    return item.annotation is not None and item.annotation.get("kind") in _START_ANNOTATIONS


def _remember_call(part: Part, run: _Run) -> None:
    if isinstance(part, ToolCallPart):
        run.calls.setdefault(_hash_call(part), []).append(part.id)


def _restore_call_ids(
    snapshot: Item, run: _Run, history: HistoryWriter, earlier_calls: _CallIds
) -> None:
    """Give calls of a snapshot, and their results, the ids that the calls have in the run."""
    original_ids: dict[str, str] = {}
    counts: Counter[bytes] = Counter()
    for item in snapshot.snapshot or ():
        part = item.part
        if isinstance(part, ToolResultPart) and part.id in original_ids:
            item.part = part._replace(id=original_ids[part.id])
        if not isinstance(part, ToolCallPart) or not part.id:
            continue
        call = _hash_call(part)
        counts[call] += 1
        digest = hash_part(item.role, part)
        if digest in run.positions or history.count_seen(digest):
            continue
        number = counts[call] - 1
        known = [] if snapshot.is_incremental else earlier_calls.get(call, [])
        if number >= len(known):
            number -= len(known)
            known = run.calls.get(call, [])
        original = known[number] if number < len(known) else None
        if original:
            original_ids[part.id] = original
            item.part = part._replace(id=original)


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
        if part is not None:
            _remember_call(part, run)
    for place, items in insertions.items():
        run.insertions.setdefault(place, []).extend(reversed(items))
