"""Runs of LangSmith: merged by id from what was sent at start and end, and grouped by thread."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from open_token.formats.langchain.detect import is_payload, is_run
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

_THREAD_IDS = ("thread_id", "session_id", "conversation_id")


@dataclass(slots=True, eq=False)
class Run:
    """One run, and the runs that it started."""

    id: str
    place: str
    body: JsonObject
    children: list["Run"] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return as_text(self.body.get("run_type")) or "chain"

    @property
    def name(self) -> str:
        return as_text(self.body.get("name")) or self.kind

    @property
    def trace_id(self) -> str:
        return as_text(self.body.get("trace_id")) or self.id

    @property
    def metadata(self) -> JsonObject:
        value = self.get_object("extra").get("metadata")
        return value if isinstance(value, dict) else {}

    def get_object(self, name: str) -> JsonObject:
        """Return an object of the run, empty when it has none."""
        value = self.body.get(name)
        return value if isinstance(value, dict) else {}

    def get_time(self, name: str) -> str | None:
        """Return a time; LangSmith writes UTC, also where no time zone is given."""
        value = self.body.get(name)
        timestamp = to_utc(value)
        if timestamp is None and isinstance(value, str):
            return to_utc(f"{value}Z")
        return timestamp


@dataclass(slots=True)
class _Index:
    """All runs of a source, parsed once."""

    runs: dict[str, Run] = field(default_factory=dict)
    """By id, in calling order."""
    unknown: list[str] = field(default_factory=list)
    """The positions of what is no run."""
    threads: dict[str, list[Run]] = field(default_factory=dict)
    """The runs of each thread in calling order; the thread that started first comes first."""
    owners: dict[str, str] = field(default_factory=dict)
    """The thread of each run."""


_cache: WeakKeyDictionary[Source, _Index] = WeakKeyDictionary()


def _load_index(source: Source) -> _Index:
    if source in _cache:
        return _cache[source]
    index = _Index()
    unit = "line" if source.shape == "lines" else "record"
    for number, record in source.records():
        place = f"{unit} {number}"
        for body in _find_runs(record):
            if body is None:
                index.unknown.append(place)
            else:
                _merge_run(index.runs, body, place)
    threads = _assign_threads(index.runs)
    index.runs = {run.id: run for run in sorted(index.runs.values(), key=_get_order)}
    for run in index.runs.values():
        thread = threads[run.trace_id]
        index.threads.setdefault(thread, []).append(run)
        index.owners[run.id] = thread
    _cache[source] = index
    return index


def _find_runs(value: Any) -> Iterator[JsonObject | None]:
    """Yield every run in a record, nested ones too; None for what is no run."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_payload(item):
            for name in ("runs", "patch", "post"):
                runs = item.get(name)
                if isinstance(runs, list):
                    stack += reversed(runs)
        elif is_run(item):
            yield item
            children = item.get("child_runs")
            if isinstance(children, list):
                stack += reversed(children)
        else:
            yield None


def _merge_run(runs: dict[str, Run], body: JsonObject, place: str) -> None:
    """Merge a run with what is known of it; what is sent later may leave fields empty."""
    run_id = (
        as_text(body.get("id")) or as_text(body.get("run_id")) or f"{place}, run {len(runs) + 1}"
    )
    run = runs.setdefault(run_id, Run(run_id, place, {}))
    for name, value in body.items():
        if value or name not in run.body:
            run.body[name] = value


def _assign_threads(runs: dict[str, Run]) -> dict[str, str]:
    """Return the thread of each trace: the one its metadata names, else the trace itself."""
    threads: dict[str, str] = {}
    for run in runs.values():
        metadata = run.metadata
        names = [as_text(metadata.get(key)) for key in _THREAD_IDS]
        name = next(filter(None, names), None)
        if name:
            threads[run.trace_id] = name
        else:
            threads.setdefault(run.trace_id, run.trace_id)
    return threads


def _get_order(run: Run) -> tuple[str, str]:
    """Return the sort key of a run.

    `dotted_order` sorts parents before children and calls by time; without it, the start counts.
    """
    order = as_text(run.body.get("dotted_order"))
    if not order:
        start = str(run.body.get("start_time") or "")
        order = "".join(character for character in start if character.isalnum())
    return order, run.place


def get_unknown_places(source: Source) -> list[str]:
    """Return the positions of what is no run."""
    return _load_index(source).unknown


def build_trees(source: Source) -> list[Run]:
    """Return the runs without a parent, each with its children, in calling order."""
    index = _load_index(source)
    if source.conversation is None:
        runs = list(index.runs.values())
    else:
        runs = index.threads.get(source.conversation, [])
    by_id = {run.id: run for run in runs}
    for run in runs:
        run.children = []
    roots = []
    for run in runs:
        parent_id = as_text(run.body.get("parent_run_id"))
        if parent_id is not None and parent_id in by_id and parent_id != run.id:
            by_id[parent_id].children.append(run)
        else:
            roots.append(run)
    visited: set[str] = set()
    for run in roots:
        _cut_cycles(run, visited)
    for run in runs:
        # Runs whose parents form a cycle are reachable from no root.
        if run.id not in visited:
            roots.append(run)
            _cut_cycles(run, visited)
    return roots


def _cut_cycles(root: Run, visited: set[str]) -> None:
    visited.add(root.id)
    stack = [root]
    while stack:
        run = stack.pop()
        run.children = [child for child in run.children if child.id not in visited]
        visited.update(child.id for child in run.children)
        stack += run.children


def list_threads(source: Source) -> list[Found]:
    """List the conversations of a source: threads, or traces without one."""
    return [
        Found(name, title=runs[0].name, started_at=runs[0].get_time("start_time"))
        for name, runs in _load_index(source).threads.items()
    ]


def find_owner(source: Source, value: Any) -> str | None:
    """Return the thread that all runs of a record belong to; None when they belong to several."""
    owners = _load_index(source).owners
    threads = {owners.get(as_text(body.get("id")) or "") for body in _find_runs(value) if body}
    return threads.pop() if len(threads) == 1 else None
