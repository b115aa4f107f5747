"""A conversation as other formats tell it: the runs of agents, and in each what was heard and what
was answered."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from open_token.model.document import Event, Note, Participant, Record

Body = dict[str, Any]
_DEEPEST = 16


class Losses:
    """What the other format has no place for: each kind once, with its first place and how
    often."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._notes: dict[str, Note] = {}

    def lost(self, code: str, event: Event | None, what: str) -> None:
        """Something is not there."""
        self._add(code, event, f"not in {self._title}: {what}")

    def changed(self, code: str, event: Event, what: str) -> None:
        """Something stands there otherwise."""
        self._add(code, event, f"otherwise in {self._title}: {what}")

    def _add(self, code: str, event: Event | None, detail: str) -> None:
        known = self._notes.get(code)
        place = known.place if known else str(event.get("id") if event else "conversation")
        self._notes[code] = Note(code, place, detail, known.count + 1 if known else 1)

    @property
    def notes(self) -> list[Note]:
        """All of them."""
        return list(self._notes.values())


@dataclass(slots=True)
class Call:
    """A call with all that came of it."""

    event: Event
    id: str
    """The runtime's own id of it where that is the only one of this name, else the record's."""
    tool: str
    arguments: Any
    result: Event | None = None
    facts: Body = field(default_factory=dict)
    runs: list["Run"] = field(default_factory=list)
    """The subagents that served it."""


@dataclass(slots=True)
class Heard:
    """A message that no model of this run made, or a result whose call is not in the record."""

    event: Event
    facts: Body = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """What a model thought, said and called at once."""

    actor: str
    events: list[Event] = field(default_factory=list)
    thoughts: list[Event] = field(default_factory=list)
    words: Event | None = None
    calls: list[Call] = field(default_factory=list)
    usage: dict[str, int] = field(default_factory=dict)
    facts: Body = field(default_factory=dict)
    is_answered: bool = False
    """One of its calls has its result."""

    @property
    def is_empty(self) -> bool:
        """Whether it is only tokens that were counted."""
        return not (self.thoughts or self.words or self.calls)

    def goes_on(self, event: Event, actor: str) -> bool:
        """Whether an event is a further part of it."""
        if self.is_answered or (self.actor and actor and self.actor != actor):
            return False
        if event.get("usage") and self.usage:
            return False
        return event.get("type") != "message" or not (self.words or self.calls)


@dataclass(slots=True)
class Run:
    """One agent's part, in its order: that of the conversation, or of a subagent."""

    id: str = ""
    start: Event | None = None
    end: Event | None = None
    about: Body = field(default_factory=dict)
    items: list["Heard | Answer | Run"] = field(default_factory=list)
    """A subagent that serves no call stands in here."""
    tools: list[Body] = field(default_factory=list)
    context: Body = field(default_factory=dict)
    cost: float = 0.0
    depth: int = 0

    @property
    def answers(self) -> Iterator[Answer]:
        """What the models of this run answered."""
        return (item for item in self.items if isinstance(item, Answer))

    @property
    def inner(self) -> Iterator["Run"]:
        """The subagents of this run, in the order of their places."""
        for item in self.items:
            if isinstance(item, Run):
                yield item
            elif isinstance(item, Answer):
                yield from (run for call in item.calls for run in call.runs)


def runs_of(record: Record, losses: Losses) -> Run:
    """The run of the conversation itself, with its subagents in it."""
    return _Gathering(losses).all(record.events)


def speakers(record: Record) -> dict[str, Participant]:
    """Participants by their ids."""
    return {person["actor_id"]: person for person in record.participants}


def data_of(event: Event) -> Body:
    """The data of an event; what a stranger's file may hold in its place is nothing."""
    return _object(_object(event.get("content")).get("data"))


def text_of(event: Event) -> str | None:
    """The text of an event, where it is one."""
    text = _object(event.get("content")).get("text")
    return text if isinstance(text, str) else None


def blocks_of(event: Event) -> list[Any]:
    """What an event holds that is no single text, block by block."""
    data = _object(event.get("content")).get("data")
    return data if isinstance(data, list) else [] if data is None else [data]


def link_of(event: Event, name: str) -> str:
    """One of the links of an event, or nothing."""
    value = _object(event.get("links")).get(name)
    return value if isinstance(value, str) else ""


def first_word(body: Body, *names: str) -> str | None:
    """The first of these fields that is a text with something in it."""
    return next(
        (value for name in names if isinstance(value := body.get(name), str) and value), None
    )


def _object(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


class _Gathering:
    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._main = Run()
        self._runs: dict[str, Run | None] = {"": self._main}
        """By span; None for one that is left out."""
        self._calls: dict[str, tuple[Call, Answer, Run]] = {}
        self._ids: set[str] = set()
        self._answered: dict[str, Call] = {}
        """By the id of a result."""
        self._told: dict[str, Heard | Answer] = {}
        """By the id of an event."""

    def all(self, events: Iterable[Event]) -> Run:
        for event in events:
            kind, span = event.get("type"), link_of(event, "span_id")
            if kind == "span_start":
                self._start(event, span)
                continue
            run = self._runs.get(span, self._main)
            if run is None:
                continue
            if kind == "span_end":
                run.end = event
            else:
                self._take(event, str(kind), run)
        return self._main

    def _start(self, event: Event, span: str) -> None:
        about = data_of(event)
        call, _, around = self._calls.get(link_of(event, "call_id"), (None, None, None))
        parent = around or self._runs.get(str(about.get("parent_span") or ""), self._main)
        if about.get("kind", "subagent") != "subagent" or "branch" in about:
            self._losses.lost("branch", event, "a branch or a scorer with all that is in it")
            parent = None
        elif parent is not None and parent.depth >= _DEEPEST:
            self._losses.lost(
                "deep-subagent", event, f"a subagent more than {_DEEPEST} levels down"
            )
            parent = None
        if parent is None:
            self._runs[span] = None
            return
        run = self._runs[span] = Run(span, event, about=about, depth=parent.depth + 1)
        (call.runs if call else parent.items).append(run)

    def _take(self, event: Event, kind: str, run: Run) -> None:
        role = event.get("role")
        if data_of(event).get("truncated") is True and text_of(event) is not None:
            self._losses.lost(
                "truncated", event, "how long a text was before it was cut; the text shows where"
            )
        if kind == "message" and role == "assistant_thought":
            self._thought(event, run)
        elif kind == "message" and role == "assistant":
            self._answer(event, run).words = event
        elif kind == "tool_use":
            self._call(event, run)
        elif kind == "tool_result":
            self._result(event, run)
        elif kind == "message":
            heard = Heard(event)
            run.items.append(heard)
            self._told[str(event.get("id"))] = heard
        else:
            self._annotation(event, run)

    def _thought(self, event: Event, run: Run) -> None:
        if text_of(event):
            self._answer(event, run).thoughts.append(event)
        else:
            self._losses.lost("thought", event, "a thought without its words")
            if event.get("usage"):
                self._answer(event, run)

    def _answer(self, event: Event, run: Run) -> Answer:
        """The answer that an event is a part of."""
        actor = "" if event.get("type") == "annotation" else str(event.get("actor_id") or "")
        last = run.items[-1] if run.items else None
        if not isinstance(last, Answer) or not last.goes_on(event, actor):
            last = Answer(actor)
            run.items.append(last)
        last.actor = last.actor or actor
        last.events.append(event)
        usage = _object(event.get("usage"))
        last.usage |= {
            name: count for name, count in usage.items() if type(count) is int and count >= 0
        }
        self._told[str(event.get("id"))] = last
        return last

    def _call(self, event: Event, run: Run) -> None:
        data, known = data_of(event), link_of(event, "call_id")
        native = first_word(data, "native_call_id")
        name = native if native and native not in self._ids else known or str(event.get("id"))
        self._ids.add(name)
        call = Call(event, name, str(data.get("tool_name") or "tool"), data.get("arguments", {}))
        answer = self._answer(event, run)
        answer.calls.append(call)
        self._calls[known] = call, answer, run

    def _result(self, event: Event, run: Run) -> None:
        call, answer, _ = self._calls.get(link_of(event, "call_id"), (None, None, None))
        if data_of(event).get("missing_result") is True:
            return
        if call is None or answer is None or call.result is not None:
            run.items.append(Heard(event))
            return
        call.result, answer.is_answered = event, True
        self._answered[str(event.get("id"))] = call

    def _annotation(self, event: Event, run: Run) -> None:
        data, parent = data_of(event), link_of(event, "parent_id")
        kind, facts = (
            data.get("kind"),
            {name: value for name, value in data.items() if name != "kind"},
        )
        cost = data.get("cost_usd")
        if event.get("usage"):
            self._answer(event, run)
        if kind == "result_facts" and parent in self._answered:
            self._answered[parent].facts |= facts
        elif kind == "message_facts" and parent in self._told:
            self._told[parent].facts |= facts
        elif kind == "context":
            run.context = facts | run.context
        elif kind == "tools" and (offered := _offered(data)):
            known = {tool["name"] for tool in run.tools}
            run.tools += [tool for tool in offered if tool["name"] not in known]
        elif kind == "cost" and isinstance(cost, int | float) and 0 <= cost < 1e9:
            run.cost += cost
        elif kind not in ("usage", "orphan_result"):
            self._losses.lost("annotation", event, "a fact beside the talk")


def _offered(data: Body) -> list[Body]:
    """The tools that a model was offered, as far as the record names them."""
    names, about = data.get("names"), _object(data.get("descriptions"))
    found = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    return [
        {"name": name} | ({"description": about[name]} if name in about else {}) for name in found
    ]
