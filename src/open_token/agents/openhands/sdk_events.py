"""Tells the events of the OpenHands SDK, from a conversation folder, one of its files, a stream or
a list."""

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from open_token.agents.openhands.event_messages import Talk
from open_token.agents.openhands.shapes import EVENTS, flat, in_order, is_event, is_state
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.sources.source import Source

_LEFT = {"kind": "abandoned_branch", "detail": "the conversation went on from an earlier event"}


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    state, files = _parts(source)
    talk = Talk(draft)
    if state is not None:
        talk.meet(state)
    tell(draft, talk, _from_files(files, draft) if files is not None else _from(source), state)


def tell(
    draft: Draft, talk: Talk, events: Iterable[tuple[str, Any]], state: dict[str, Any] | None = None
) -> None:
    """Tell events, each with its place."""
    draft.conversation["source_runtime"] = "cli"
    branches = _Branches(state)
    for place, event in events:
        first = draft.count
        if is_event(event) or (isinstance(event, dict) and isinstance(event.get("kind"), str)):
            talk.tell(event, place)
            branches.add(event, first, draft.count)
        elif not is_state(event):
            draft.note_omission("unknown-record", place, "a record that is no event")
    talk.finish()
    for places in branches.abandoned():
        draft.drop_branch(places.start, places.stop, dict(_LEFT), talk.runtime)


def _parts(source: Source) -> tuple[dict[str, Any] | None, list[Source] | None]:
    """The state, where it is there, and the files of a folder; no files when the source holds the
    events itself."""
    if source.shape == "folder":
        found = next((files for pattern in EVENTS if (files := source.find_files(pattern))), [])
        return _state(source.find_files("base_state.json")), in_order(found)
    sample = flat(source.sample)
    if len(sample) == 1 and is_state(sample[0]):
        return source.document, in_order(source.find_siblings(EVENTS[0]))
    if len(sample) == 1 and source.shape in ("document", "lines"):
        files = in_order(source.find_siblings(EVENTS[1]))
        if any(file.path == source.path for file in files):
            own = [source if file.path == source.path else file for file in files]
            return _state(source.find_siblings("../base_state.json")), own
    beside = source.open_sibling("base_state.json")
    return _state([beside] if beside else []), None


def _state(files: list[Source]) -> dict[str, Any] | None:
    for file in files:
        if file.sample and is_state(file.sample[0]):
            document: dict[str, Any] = file.document
            return document
    return None


def _from(source: Source) -> Iterator[tuple[str, Any]]:
    unit = "record" if source.shape == "document" else "line"
    return ((f"{unit} {number}", event) for number, event in source.records())


def _from_files(files: list[Source], draft: Draft) -> Iterator[tuple[str, Any]]:
    """The event of each file; the last one may be cut, as a line is that is still being written."""
    for number, file in enumerate(files, 1):
        place = PurePath(file.name).name
        if file.shape == "empty":
            draft.note_omission("empty-file", place, "an event file without content")
            continue
        try:
            event = file.document
        except InputError as problem:
            if problem.code != "input.json" or number < len(files):
                raise
            draft.note_omission(
                "half-line", place, "the last event was not complete and is left out"
            )
            continue
        for _ in file.repaired:
            draft.note_omission(
                "lone-surrogate", place, "text that is not valid Unicode was replaced by U+FFFD"
            )
        yield place, event


class _Branches:
    """Which events the conversation left behind when it went on from an earlier one."""

    def __init__(self, state: dict[str, Any] | None) -> None:
        self._leaf = state.get("leaf_event_id") if state else None
        self._parents: dict[str, str | None] = {}
        self._places: dict[str, range] = {}

    def add(self, event: dict[str, Any], first: int, end: int) -> None:
        """An event was told at these places."""
        name, parent = event.get("id"), event.get("parent_id")
        if isinstance(name, str):
            self._parents[name] = parent if isinstance(parent, str) else None
            if first < end:
                self._places[name] = range(first, end)

    def abandoned(self) -> list[range]:
        """The places of what was left, those that follow each other as one."""
        active = self._chain(
            next((name for name, parent in reversed(self._parents.items()) if parent), None)
        )
        if isinstance(self._leaf, str) and self._leaf in self._parents and self._leaf not in active:
            active = self._chain(self._leaf)
        found: list[range] = []
        for name, places in self._places.items():
            if name in active or self._parents[name] not in self._parents or not active:
                continue
            if found and found[-1].stop == places.start:
                found[-1] = range(found[-1].start, places.stop)
            else:
                found.append(places)
        return found

    def _chain(self, name: str | None) -> set[str]:
        chain: set[str] = set()
        while name is not None and name in self._parents and name not in chain:
            chain.add(name)
            name = self._parents[name]
        return chain
