"""A conversation that is read anew whenever it changes: what of it is new, fitted to the stream
that is out already."""

import hashlib
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import orjson

from open_token.builder.draft import MISSING_RESULT
from open_token.model.document import Event, Participant, Record, Usage

_AT_THE_END = ("tool_result", "span_end")


@dataclass
class _Names:
    """What the parts of one reading are called in the stream."""

    actors: dict[str, str] = field(default_factory=dict)
    events: dict[str, str] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    spans: dict[str, str] = field(default_factory=dict)


class EventTracker:
    """Knows what a stream holds. A reading numbers from 1 on each time, so an event is known by
    what it says."""

    def __init__(self) -> None:
        self.participants: list[Participant] = []
        self._actors: dict[bytes, str] = {}
        self._told: dict[bytes, list[str]] = {}
        """The events of the stream by what they say."""
        self._says: dict[str, tuple[str, bytes]] = {}
        """For each event of the stream its kind, and what it says."""
        self._own: dict[str, str] = {}
        """The call or span that an event of the stream begins."""
        self._calls: dict[str, Event | None] = {}
        """The calls of the stream; None: it has its result."""
        self._answers: dict[str, str] = {}
        self._spans: dict[str, Event | None] = {}
        self._revised: dict[str, Event] = {}
        self._spent: dict[str, Usage] = {}
        """What the events of the stream cost, as it went out with them."""
        self._counted: dict[str, Usage] = {}
        """What they cost as the last reading has it."""
        self._highest = 0
        self._going = _Names()
        self._left: dict[bytes, deque[str]] = {}
        """For a reading that goes on: what its parts are called, and which events of the stream it
        has not told."""

    def adopt(self, told: list[Event], written: Iterable[Event], record: Record) -> bool:
        """Know the events of a stream that began earlier by those of a reading, as written now.

        What changed meanwhile, or is gone, counts as known under its own name. False when that is
        most of it."""
        reading = {event["id"]: event for event in record.events}
        people = {participant["actor_id"]: participant for participant in record.participants}
        same: dict[bytes, deque[Event]] = {}
        for event in written:
            same.setdefault(_says(event), deque()).append(reading[event["id"]])
        found, seats = 0, dict[str, Participant]()
        for event in told:
            words = _says(event)
            twin = same[words].popleft() if same.get(words) else None
            found += twin is not None
            if like := twin or reading.get(event["id"]):
                seats.setdefault(event["actor_id"], people[like["actor_id"]])
            self._enter(event, _says(twin) if twin else words)
            self._highest = max(self._highest, _number(event["id"]) + 1)
        self._seat(seats, max((_number(event["actor_id"]) for event in told), default=0))
        self._left = {words: deque(names) for words, names in self._told.items()}
        return 2 * found >= len(told)

    def more(self, events: Iterable[Event], participants: Iterable[Participant]) -> list[Event]:
        """The next events of one reading that goes on, without those that the stream holds from
        earlier on."""
        names, made = self._going, []
        names.actors |= self._meet(participants)
        for event in events:
            words = _says(event)
            if self._left.get(words):
                self._call(event, self._left[words].popleft(), names)
            elif new := self._new(event, words, names):
                made.append(new)
        return made

    def _seat(self, seats: dict[str, Participant], count: int) -> None:
        """Let participants have the names that they have in the stream."""
        for name in (f"act_{number:03d}" for number in range(1, count + 1)):
            known = seats.get(name, {"actor_id": name, "kind": "system", "name": "unknown"})
            self._actors.setdefault(_who(known), name)
            self.participants.append(cast(Participant, {**known, "actor_id": name}))

    def take(self, record: Record, *, is_end: bool = False) -> list[Event]:
        """The events of a reading that are new, as they go on with the stream; at the end all that
        is still open."""
        self._highest = max(self._highest, record.next_event_number)
        events = list(record.events)
        says = [_says(event) for event in events]
        last = len(events)
        while (
            last
            and not is_end
            and events[last - 1]["type"] in _AT_THE_END
            and _may_wait(events[last - 1])
        ):
            last -= 1
        names = _Names(actors=self._meet(record.participants))
        left = {words: deque(told) for words, told in self._told.items()}
        now = Counter(says)
        made = []
        for event, words in zip(events[:last], says, strict=False):
            if event["content"].get("data") == MISSING_RESULT:
                continue
            if not self._is_known(event, words, left, now, names) and (
                new := self._new(event, words, names)
            ):
                made.append(new)
        return [*made, *self.rest()] if is_end else made

    def _meet(self, participants: Iterable[Participant]) -> dict[str, str]:
        names = {}
        for participant in participants:
            who = _who(participant)
            if who not in self._actors:
                self._actors[who] = f"act_{len(self.participants) + 1:03d}"
                self.participants.append(
                    cast(Participant, {**participant, "actor_id": self._actors[who]})
                )
            names[participant["actor_id"]] = self._actors[who]
        return names

    def _is_known(
        self,
        event: Event,
        words: bytes,
        left: dict[bytes, deque[str]],
        now: Counter[bytes],
        names: _Names,
    ) -> bool:
        """Whether the stream holds the event already, as it is or as it was before it changed."""
        here = left[words].popleft() if left.get(words) else None
        if here is None:
            here = event["id"]
            kind, before = self._says.get(here, ("", b""))
            if kind != _kind(event) or before in now:
                return False
            self._revised[here] = event
        self._call(event, here, names)
        if "usage" in event:
            self._counted[here] = event["usage"]
        return True

    def _call(self, event: Event, here: str, names: _Names) -> None:
        """Let an event of a reading have the name that it has in the stream."""
        names.events[event["id"]] = here
        links = event.get("links", {})
        if event["type"] == "tool_use" and "call_id" in links:
            names.calls[links["call_id"]] = self._own.get(here, "")
        elif event["type"] == "span_start" and "span_id" in links:
            names.spans[links["span_id"]] = self._own.get(here, "")

    def _new(self, event: Event, words: bytes, names: _Names) -> Event | None:
        """The event under names that are free in the stream; None when there is no place for it any
        more."""
        number = event["id"] if event["id"] not in self._says else self._fresh()
        made = cast(
            Event,
            {
                **event,
                "id": number,
                "actor_id": names.actors.get(event["actor_id"], event["actor_id"]),
            },
        )
        links = self._links(event, names)
        if links is None:
            return None
        if "links" in event:
            made["links"] = cast(Any, links)
        names.events[event["id"]] = number
        self._enter(made, words)
        return made

    def _links(self, event: Event, names: _Names) -> dict[str, str] | None:
        kind = event["type"]
        links: dict[str, str] = {**cast(dict[str, str], event.get("links", {}))}
        for name in ("parent_id", "replies_to"):
            if name in links:
                links[name] = names.events.get(links[name], links[name])
        if "call_id" in links:
            given = links["call_id"]
            if kind == "tool_use" or given not in names.calls:
                names.calls[given] = self._free(given, self._calls, "call")
            links["call_id"] = names.calls[given]
            if kind == "tool_result" and links["call_id"] in self._answers:
                self._revised[self._answers[links["call_id"]]] = event
                return None
        if "span_id" in links:
            given = links["span_id"]
            if kind == "span_start":
                names.spans[given] = self._free(given, self._spans, "span")
            links["span_id"] = names.spans.get(given, "")
            if kind != "span_start" and self._spans.get(links["span_id"]) is None:
                if kind == "span_end":
                    return None
                del links["span_id"]
        return links

    def _enter(self, event: Event, words: bytes) -> None:
        name, kind, links = event["id"], event["type"], event.get("links", {})
        self._told.setdefault(words, []).append(name)
        self._says[name] = (_kind(event), words)
        if "usage" in event:
            self._spent[name] = event["usage"]
        call, span = links.get("call_id"), links.get("span_id")
        if call and kind == "tool_use":
            self._own[name], self._calls[call] = call, event
        elif call and kind == "tool_result":
            self._calls[call], self._answers[call] = None, name
        if span and kind == "span_start":
            self._own[name], self._spans[span] = span, event
        elif span and kind == "span_end":
            self._spans[span] = None

    def _free(self, name: str, taken: dict[str, Event | None], kind: str) -> str:
        number = len(taken)
        while name in taken:
            number += 1
            name = f"{kind}_{number:06d}"
        return name

    def _fresh(self) -> str:
        while True:
            name = f"evt_{self._highest:06d}"
            self._highest += 1
            if name not in self._says:
                return name

    def rest(self) -> list[Event]:
        """Results that never came, spans that never ended, and what changed after it was told."""
        made = [
            self._late("tool_result", call) for call, use in self._calls.items() if use is not None
        ]
        made += [
            self._late("span_end", span)
            for span, start in reversed(self._spans.items())
            if start is not None
        ]
        for name, event in self._revised.items():
            late = self._made(
                "annotation", event["actor_id"], {"kind": "revised", "content": event["content"]}
            )
            made.append(
                cast(Event, {**late, "visibility": "metadata", "links": {"parent_id": name}})
            )
        return [*made, *self._costs()]

    def _costs(self) -> list[Event]:
        """What events cost beside the counts that went out with them."""
        actor = (
            self._meet([{"actor_id": "", "kind": "system", "name": "runtime"}])[""]
            if self._counted
            else ""
        )
        made = []
        for name, usage in find_unreported_usage(self._counted, self._spent).items():
            late = self._made("annotation", actor, {"kind": "usage"})
            made.append(
                cast(
                    Event,
                    {
                        **late,
                        "visibility": "metadata",
                        "links": {"parent_id": name},
                        "usage": usage,
                    },
                )
            )
        return made

    def _late(self, kind: str, name: str) -> Event:
        if kind == "span_end":
            start = cast(Event, self._spans[name])
            return cast(
                Event, self._made(kind, start["actor_id"], {}) | {"links": {"span_id": name}}
            )
        use = cast(Event, self._calls[name])
        called: Any = use["content"].get("data")
        tool = called.get("tool_name") if isinstance(called, dict) else None
        actor = self._meet([{"actor_id": "", "kind": "tool", "name": str(tool or "tool")}])[""]
        span = use.get("links", {}).get("span_id")
        links = (
            {"call_id": name, "span_id": span}
            if span and self._spans.get(span)
            else {"call_id": name}
        )
        return cast(
            Event, self._made(kind, actor, dict(MISSING_RESULT)) | {"role": "tool", "links": links}
        )

    def _made(self, kind: str, actor: str, data: dict[str, Any]) -> dict[str, Any]:
        content = {"mime": "application/json", "data": data}
        return {
            "id": self._fresh(),
            "seq": 0,
            "type": kind,
            "actor_id": actor,
            "visibility": "internal",
            "content": content,
        }


def find_unreported_usage(usage: dict[str, Usage], spent: dict[str, Usage]) -> dict[str, Usage]:
    """What events cost beside the counts that went out with them, so that the sum is right."""
    made = {}
    for name, counted in usage.items():
        told = cast(dict[str, int], spent.get(name, {}))
        more = {
            kind: max(count - told.get(kind, 0), 0)
            for kind, count in cast(dict[str, int], counted).items()
        }
        if any(more.values()):
            made[name] = cast(Usage, more)
    return made


def has_new_reasoning(told: list[Event], written: Iterable[Event]) -> bool:
    """Whether a reading has thoughts between the events of a stream that has none: other options
    choose them.

    They would all come behind the talk that they led to."""
    if any(_is_thought(event) for event in told):
        return False
    known = {_says(event) for event in told}
    is_thinking = False
    for event in written:
        if is_thinking and _says(event) in known:
            return True
        is_thinking = is_thinking or _is_thought(event)
    return False


def _is_thought(event: Event) -> bool:
    return event.get("role") == "assistant_thought"


def _who(participant: Participant) -> bytes:
    return orjson.dumps({**participant, "actor_id": ""}, option=orjson.OPT_SORT_KEYS)


def _number(name: str) -> int:
    digits = name.rpartition("_")[2]
    return int(digits) if digits.isdecimal() and len(digits) < 18 else 0


def _may_wait(event: Event) -> bool:
    """Whether an event stands at the end only because nothing follows yet."""
    return event["type"] == "span_end" or event["content"].get("data") == MISSING_RESULT


def _kind(event: Event) -> str:
    return f"{event['type']} {event.get('role')}"


def _says(event: Event) -> bytes:
    content = orjson.dumps([_kind(event), event["content"]], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(content, digest_size=16).digest()
