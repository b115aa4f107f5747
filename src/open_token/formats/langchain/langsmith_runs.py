"""The runs of LangSmith: what was sent at their begin and at their end merged by id, in the order
of their calls."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from open_token.formats.langchain.shapes import is_payload, is_run
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

_THREADS = ("thread_id", "session_id", "conversation_id")
_runs: WeakKeyDictionary[Source, dict[str, "Run"]] = WeakKeyDictionary()
_odd: WeakKeyDictionary[Source, list[str]] = WeakKeyDictionary()
_threads: WeakKeyDictionary[Source, dict[str, list["Run"]]] = WeakKeyDictionary()
_owners: WeakKeyDictionary[Source, dict[str, str]] = WeakKeyDictionary()


@dataclass(slots=True, eq=False)
class Run:
    """One run and the runs that it started."""

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

    def part(self, name: str) -> JsonObject:
        """An object of the run; empty when it has none."""
        value = self.body.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def metadata(self) -> JsonObject:
        value = self.part("extra").get("metadata")
        return value if isinstance(value, dict) else {}

    def time(self, name: str) -> str | None:
        """When it began or ended; LangSmith writes UTC, also where no zone stands."""
        value = self.body.get(name)
        return to_utc(value) or (to_utc(f"{value}Z") if isinstance(value, str) else None)


def _bodies(value: Any, place: str) -> Iterator[tuple[str, JsonObject | None]]:
    """Every run in a record, those inside others too; None for what stands in the place of one."""
    stack = [value]
    while stack:
        item = stack.pop()
        if is_payload(item):
            for name in ("runs", "patch", "post"):
                held = item.get(name)
                stack += reversed(held) if isinstance(held, list) else ()
        elif is_run(item):
            yield place, item
            inner = item.get("child_runs")
            stack += reversed(inner) if isinstance(inner, list) else ()
        else:
            yield place, None


def merged(source: Source) -> dict[str, Run]:
    """All runs by id, read once; what was sent later fills in what was not known."""
    if source in _runs:
        return _runs[source]
    runs: dict[str, Run] = {}
    unit = "line" if source.shape == "lines" else "record"
    for number, record in source.records():
        for place, body in _bodies(record, f"{unit} {number}"):
            if body is None:
                _odd.setdefault(source, []).append(place)
                continue
            name = (
                as_text(body.get("id"))
                or as_text(body.get("run_id"))
                or f"{place}, run {len(runs) + 1}"
            )
            known = runs.setdefault(name, Run(name, place, {}))
            known.body |= {
                key: value for key, value in body.items() if value or key not in known.body
            }
    _runs[source] = runs
    return runs


def odd_in(source: Source) -> list[str]:
    """The places of what is no run."""
    merged(source)
    return _odd.get(source, [])


def thread_of(runs: dict[str, Run]) -> dict[str, str]:
    """The thread of each trace: what its metadata says, else the trace itself."""
    threads: dict[str, str] = {}
    for run in runs.values():
        trace = _trace(run)
        named = next((name for key in _THREADS if (name := as_text(run.metadata.get(key)))), None)
        if named:
            threads[trace] = named
        else:
            threads.setdefault(trace, trace)
    return threads


def _trace(run: Run) -> str:
    return as_text(run.body.get("trace_id")) or run.id


def _grouped(source: Source) -> dict[str, list[Run]]:
    """The runs of each thread in the order in which they were called, the thread that began first
    before the others."""
    if source not in _threads:
        runs = merged(source)
        threads = thread_of(runs)
        groups: dict[str, list[Run]] = {}
        for run in sorted(runs.values(), key=_order):
            groups.setdefault(threads[_trace(run)], []).append(run)
        _threads[source] = groups
    return _threads[source]


def trees(source: Source) -> list[Run]:
    """The runs that no other started, each with its children, in the order in which they were
    called."""
    if source.conversation is None:
        chosen = sorted(merged(source).values(), key=_order)
    else:
        chosen = _grouped(source).get(source.conversation, [])
    inside = {run.id: run for run in chosen}
    for run in chosen:
        run.children = []
    roots = []
    for run in chosen:
        parent = as_text(run.body.get("parent_run_id"))
        if parent is not None and parent in inside and parent != run.id:
            inside[parent].children.append(run)
        else:
            roots.append(run)
    # Parents that go in a circle belong to no root: the first of them must do.
    met: set[str] = set()
    for run in roots:
        _reach(run, met)
    for run in chosen:
        if run.id not in met:
            roots.append(run)
            _reach(run, met)
    return roots


def _reach(top: Run, met: set[str]) -> None:
    """Walk down once, and cut what leads back up."""
    met.add(top.id)
    stack = [top]
    while stack:
        run = stack.pop()
        run.children = [child for child in run.children if child.id not in met]
        met.update(child.id for child in run.children)
        stack += run.children


def _order(run: Run) -> tuple[str, str]:
    """`dotted_order` sorts parents before children and calls by time; without it the time of the
    start must do."""
    start = str(run.body.get("start_time") or "")
    return as_text(run.body.get("dotted_order")) or "".join(
        sign for sign in start if sign.isalnum()
    ), run.place


def found(source: Source) -> list[Found]:
    """The conversations of a file: threads, or traces without one."""
    return [
        Found(name, title=runs[0].name, started_at=runs[0].time("start_time"))
        for name, runs in _grouped(source).items()
    ]


def owner(source: Source, value: Any) -> str | None:
    """The conversation that all runs of a record belong to; None when they belong to several."""
    if source not in _owners:
        _owners[source] = {run.id: name for name, runs in _grouped(source).items() for run in runs}
    owners = {
        _owners[source].get(as_text(body.get("id")) or "") for _, body in _bodies(value, "") if body
    }
    return owners.pop() if len(owners) == 1 else None
