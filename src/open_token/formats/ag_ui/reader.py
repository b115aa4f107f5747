"""Tells AG-UI streams: the items of each run, and between them what only a list of all messages
shows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.ag_ui.run_items import Fold, Item
from open_token.formats.shared.fields import JsonObject, as_text
from open_token.formats.shared.messages import Message, ReasoningPart
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext, hash_part
from open_token.formats.shared.token_usage import build_usage
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Tell the events in order, run by run."""
    draft.conversation["source_runtime"] = "web"
    draft.without_thoughts = "unknown"
    stream = _Stream(draft)
    unit = "line" if source.shape in ("lines", "events") else "record"
    for number, record in source.records():
        stream.take(record, f"{unit} {number}")
    stream.flush()


@dataclass(slots=True)
class _Agent:
    """A subagent: who it is, and its span while it is open."""

    actor: str
    span: str | None
    name: str
    call: str | None = None


class _Stream:
    """Takes events one by one; a run is told when it is over."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._talk = HistoryWriter(draft)
        self._fold = Fold(draft)
        self._agents: dict[str, _Agent] = {}

    def take(self, event: Any, place: str) -> None:
        kind = event.get("type") if isinstance(event, dict) else None
        if not isinstance(kind, str):
            if isinstance(event, dict) and isinstance(event.get("messages"), list):
                self._input(event, place)
            else:
                self._draft.note_omission("unknown-event", place, f"event {format_kind(kind)}")
            return
        if kind == "RUN_STARTED":
            self._named(event)
            self.flush()
        if self._fold.take(event, kind, place):
            self.flush()

    def _named(self, event: JsonObject) -> None:
        if known := as_text(event.get("threadId")):
            self._draft.conversation.setdefault("id", known)

    def _input(self, given: JsonObject, place: str) -> None:
        """What a client sent to start the run that follows."""
        self.flush()
        self._named(given)
        self._fold.given(given, place)

    def flush(self) -> None:
        """Tell everything of the run."""
        for item in woven(self._fold.empty(), self._talk):
            self._tell(item)

    def _tell(self, item: Item) -> None:
        if item.begins is not None:
            self._begin(item, item.begins)
        elif item.ends is not None:
            self._end(item, item.ends)
        elif item.owner and self._draft.subagents != "inline":
            self._left_out(item)
        elif item.note is not None:
            self._note(item, item.note)
        elif item.part is not None:
            message = Message(item.role, [item.part], name=item.name, ts=item.ts)
            self._talk.add_message(message, self._stage(item))

    def _stage(self, item: Item) -> MessageContext:
        agent = self._agent(item) if item.owner else None
        if agent is not None:
            return MessageContext(agent.actor, item.place, span=agent.span, ts=item.ts)
        name = item.name if item.role == "assistant" else None
        return MessageContext(
            self._draft.get_actor("model", name or "assistant"), item.place, ts=item.ts
        )

    def _note(self, item: Item, data: JsonObject) -> None:
        agent = self._agents.get(item.owner) if item.owner else None
        usage = _usage(item.usage) if item.usage else None
        actor, span = (agent.actor, agent.span) if agent else (None, None)
        self._draft.add_annotation(data, actor=actor, ts=item.ts, span=span, usage=usage)

    def _agent(self, item: Item) -> _Agent:
        """The subagent that an item belongs to; one that nobody announced begins here."""
        owner = item.owner or ""
        known = self._agents.get(owner)
        if known is None or known.span is None:
            self._begin(item, {"subagentRunId": owner, "name": known.name if known else owner})
        return self._agents[owner]

    def _begin(self, item: Item, event: JsonObject) -> None:
        owner = as_text(event.get("subagentRunId")) or ""
        known = self._agents.get(owner)
        name = as_text(event.get("name")) or (known.name if known else None) or "subagent"
        if self._draft.subagents == "none":
            self._left_out(item)
            return
        actor = self._draft.get_actor("model", name, instance_id=owner or None)
        data: JsonObject = {"kind": "subagent", "name": name, "run_id": owner}
        data |= {"spawn_reason": event["description"]} if as_text(event.get("description")) else {}
        above = self._agents.get(as_text(event.get("parentSubagentRunId")) or "")
        data |= {"parent_span": above.span} if above is not None and above.span else {}
        data |= {"reference": owner} if self._draft.subagents == "reference" else {}
        call = as_text(event.get("parentToolCallId"))
        span = self._draft.start_span(data, actor, ts=item.ts, call=call)
        self._agents[owner] = _Agent(actor, span, name, call)

    def _end(self, item: Item, data: JsonObject) -> None:
        known = self._agents.get(item.owner or "")
        if known is not None and known.span is not None:
            self._draft.end_span(known.span, data, ts=item.ts, call=known.call)
            known.span = None

    def _left_out(self, item: Item) -> None:
        self._draft.note_omission(
            "subagent", item.place, f"what a subagent did (subagents={self._draft.subagents})"
        )


def _usage(entry: JsonObject) -> Any:
    """Counts of a run; the sums include cached and reasoning tokens."""
    return build_usage(
        input_tokens=entry.get("inputTokens"),
        output_tokens=entry.get("outputTokens"),
        reasoning_tokens=entry.get("reasoningTokens"),
        cache_read_tokens=entry.get("cachedInputTokens"),
        cache_write_tokens=entry.get("cacheWriteInputTokens"),
    )


def woven(items: list[Item], talk: HistoryWriter) -> Iterator[Item]:
    """The items of a run; what a snapshot shows and no event brought is put where the snapshot has
    it.

    Snapshots have new ids for old messages: a message is known by what it says, a call and a result
    by the call's id."""
    marks: list[bytes | None] = []
    places: dict[bytes, list[int]] = {}
    for number, item in enumerate(items):
        item.part = item.whole()
        marks.append(None if item.part is None else hash_part(item.role, item.part))
        if (mark := marks[-1]) is not None:
            places.setdefault(mark, []).append(number)
    before: dict[int, list[Item]] = {}
    begin = next((n for n, item in enumerate(items) if not _opens(item)), len(items))
    for number, item in enumerate(items):
        if item.snapshot is not None:
            _place(item, number, _Known(places, before, begin), talk)
    for number, item in enumerate(items):
        yield from before.get(number, ())
        if item.snapshot is None:
            yield item


def _opens(item: Item) -> bool:
    """Whether an item only says that a run begins, and with what."""
    return item.note is not None and item.note.get("kind") in ("run", "tools", "context")


@dataclass(slots=True)
class _Known:
    """Where the pieces of a run stand, what is put before them, and where the talk begins."""

    places: dict[bytes, list[int]]
    before: dict[int, list[Item]]
    begin: int


def _place(item: Item, at: int, run: _Known, talk: HistoryWriter) -> None:
    """Find for each piece of a snapshot whether it is known, and for a new one the piece that it
    stands before.

    What a person says stands right behind what was known before it: reasoning and steps that answer
    it come later."""
    met: Counter[bytes] = Counter()
    found: list[tuple[Item, bytes, int | None, int]] = []
    after = run.begin
    for piece in item.snapshot or ():
        assert piece.part is not None
        mark = hash_part(piece.role, piece.part)
        met[mark] += 1
        nth = met[mark] - (0 if item.is_delta else talk.count_seen(mark))
        known = run.places.get(mark, [])
        place = known[nth - 1] if 0 < nth <= len(known) else None
        after = after if place is None else place + 1
        if nth > 0:
            found.append((piece, mark, place, after))
    new: dict[int, list[Item]] = {}
    for piece, mark, place, after in reversed(found):
        if place is not None:
            at = place
        elif not (isinstance(piece.part, ReasoningPart) and piece.part.text is None):
            at = min(at, after) if piece.role in ("user", "system", "developer") else at
            new.setdefault(at, []).append(piece)
            run.places.setdefault(mark, []).append(at)
    for place, pieces in new.items():
        run.before.setdefault(place, []).extend(reversed(pieces))
