"""Subagents of a Claude Code session in all three layouts: lines in its file, files beside it,
files in its folder."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from open_token.agents.claude_code.record_tree import Tree
from open_token.agents.claude_code.records import Line, Record, as_line, decode, text, text_in
from open_token.agents.claude_code.subagent_files import AgentFiles
from open_token.agents.claude_code.thread import Thread
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

MAX_DEPTH = 16
Records = Iterable[tuple[int, Any]]
Run = Callable[[Records, Thread], None]


class Spawn(msgspec.Struct):
    """A call that starts a subagent and has no result yet."""

    key: str
    arguments: Record
    actor: str
    uuid: str | None
    number: int = 0
    """Its place among all of them."""
    taken: bool = False

    @property
    def kind(self) -> str | None:
        return text_in(self.arguments, "subagent_type")


class Sidechain(msgspec.Struct):
    """A subagent whose lines stand in the session's own file."""

    thread: Thread
    call: str | None
    agent_id: str | None
    uuids: list[str]
    closed: bool = False


class Subagents:
    """Puts what subagents did into spans, where the call that started them is answered."""

    def __init__(self, draft: Draft, tree: Tree, files: AgentFiles, run: Run) -> None:
        self._draft = draft
        self._tree = tree
        self._files = files
        self._run = run
        self.spawns = Spawns()
        self._chains: list[Sidechain] = []
        """In order of their first line; closed ones are taken out only from the end."""
        self._by_call: dict[str, list[Sidechain]] = {}
        self._by_agent: dict[str, Sidechain] = {}
        self._by_uuid: dict[str, Sidechain] = {}
        self._told: set[str] = set()
        self._deferred: list[tuple[str, Source]] = []
        """Subagents too many levels down, to be told at the end."""

    def called(self, key: str, arguments: Any, actor: str, uuid: Any) -> None:
        """A call that starts a subagent."""
        given = arguments if type(arguments) is dict else {}
        self.spawns.add(Spawn(key, given, actor, uuid if isinstance(uuid, str) else None))

    def answered(
        self, key: str | None, facts: dict[str, Any] | None, thread: Thread, uuid: Any
    ) -> None:
        """A call is about to get its result in a record: what its subagent did stands before
        that."""
        spawn = self.spawns.answer(key) if key else None
        agent_id = facts.get("agent_id") if facts else None
        if spawn is None and agent_id is None:
            return
        for side in self._by_call.pop(key or "", ()):
            self._close(side)
        if agent_id and agent_id not in self._told and (source := self._files.find(agent_id)):
            self._tell_file(agent_id, source, key, spawn, thread, text(uuid))

    def sidechain(self, line: Line, main: Thread) -> Thread:
        """The thread of a sidechain line; it is opened with its first line."""
        agent_id, uuid, parent = text(line.agent_id), text(line.uuid), text(line.parent_uuid)
        side = self._by_agent.get(agent_id) if agent_id else self._by_uuid.get(parent or "")
        if side is None and agent_id is None and parent:
            side = self._latest()
        if side is None:
            side = self._open(line, agent_id, main)
        if uuid and agent_id is None:
            self._by_uuid[uuid] = side
            side.uuids.append(uuid)
        return side.thread

    def _open(self, line: Line, agent_id: str | None, main: Thread) -> Sidechain:
        spawn = self.spawns.take(_prompt(line), None)
        call = spawn.key if spawn else None
        # Older versions gave a subagent no id: its first line tells it from others of its kind.
        thread = self._thread(agent_id or text(line.uuid), spawn, None, main, None)
        ts = to_utc(line.timestamp)
        if self._draft.subagents != "none":
            thread.span = self._draft.start_span(
                _data(agent_id, spawn, None), thread.prompter, ts=ts, call=call
            )
        side = Sidechain(thread, call, agent_id, [])
        self._chains.append(side)
        if call:
            self._by_call.setdefault(call, []).append(side)
        if agent_id:
            self._by_agent[agent_id] = side
            self._told.add(agent_id)
        return side

    def _latest(self) -> Sidechain | None:
        """The sidechain that was opened last and is still open."""
        while self._chains and self._chains[-1].closed:
            self._chains.pop()
        return self._chains[-1] if self._chains else None

    def _close(self, side: Sidechain) -> None:
        thread, draft = side.thread, self._draft
        thread.finish()
        side.closed = True
        for uuid in side.uuids:
            self._by_uuid.pop(uuid, None)
        if side.agent_id:
            self._by_agent.pop(side.agent_id, None)
        if thread.span:
            data = {"records": thread.records} if thread.muted else {}
            draft.end_span(thread.span, data, ts=thread.last_ts, call=side.call)
        else:
            self._leave_out()

    def _leave_out(self) -> None:
        self._draft.note_omission(
            "subagent",
            f"event {self._draft.count}",
            "what a subagent did is left out (subagents=none)",
        )

    def _thread(
        self,
        agent_id: str | None,
        spawn: Spawn | None,
        kind: str | None,
        parent: Thread,
        root: str | None,
    ) -> Thread:
        actor = (spawn.actor if spawn else parent.speaker) or parent.speak(None)
        return Thread(
            self._draft,
            parent.counted,
            name=kind or (spawn.kind if spawn else None) or "subagent",
            agent_id=agent_id,
            prompter=actor,
            visibility="internal",
            depth=parent.depth + 1,
            muted=self._draft.subagents != "inline",
            root=(spawn.uuid if spawn else None) or root,
        )

    def _tell_file(
        self,
        agent_id: str,
        source: Source,
        key: str | None,
        spawn: Spawn | None,
        parent: Thread,
        root: str | None = None,
    ) -> None:
        draft = self._draft
        self._told.add(agent_id)
        if draft.subagents == "none":
            self._leave_out()
            return
        if parent.depth >= MAX_DEPTH:
            self._deferred.append((agent_id, source))
            return
        meta = self._files.meta(source, draft)
        thread = self._thread(agent_id, spawn, text_in(meta, "agentType"), parent, root)
        thread.label = f"agent-{agent_id} "
        self._tree.enter(None, thread.root, "", draft.count)
        data = _data(agent_id, spawn, meta)
        if thread.muted:
            self._refer(source, data, thread, key)
        else:
            self._inline(source, data, thread, key)
        self._tree.enter(None, thread.root, "", draft.count)
        note_faults(source, thread.label, draft)

    def _inline(self, source: Source, data: Record, thread: Thread, key: str | None) -> None:
        records = source.records(decode)
        first = next(records, None)
        line = as_line(first[1]) if first else None
        ts = to_utc(line.timestamp) if type(line) is Line else None
        thread.span = self._draft.start_span(data, thread.prompter, ts=ts, call=key)
        self._run(chain([first] if first else [], records), thread)
        thread.finish()
        self._draft.end_span(thread.span, ts=thread.last_ts, call=key)

    def _refer(self, source: Source, data: Record, thread: Thread, key: str | None) -> None:
        """The span alone, with what is known of the subagent's file."""
        records, model = 0, None
        for _, line in source.records(decode, is_preview=True):
            records += 1
            if model is None and type(line) is Line and line.message is not None:
                model = text(line.message.model)
        thread.speak(model)
        data |= {"file": f"agent-{thread.agent_id}.jsonl", "records": records}
        span = self._draft.start_span(data, thread.prompter, call=key)
        self._draft.end_span(span, call=key)

    def finish(self, main: Thread, sessions: Iterable[str]) -> None:
        """The file is over: open sidechains end, and subagents that no result named stand behind
        everything."""
        for side in self._chains:
            if not side.closed:
                self._close(side)
        for agent_id, source in chain(
            self._files.rest(self._told, frozenset(sessions)), self._deferred
        ):
            meta = self._files.meta(source, self._draft)
            first = next(iter(source.records(decode, is_preview=True)), (0, None))[1]
            spawn = self.spawns.take(_prompt(first), text_in(meta, "agentType"))
            self._tell_file(agent_id, source, spawn.key if spawn else None, spawn, main)


def note_faults(source: Source, label: str, draft: Draft) -> None:
    """What a subagent's file shows of a writer that stopped: half a line, broken characters."""
    if source.half_line is not None:
        draft.note_omission(
            "half-line",
            f"{label}line {source.half_line}",
            "the last line was not complete and is left out",
        )
    for number in source.repaired:
        draft.note_omission(
            "lone-surrogate",
            f"{label}line {number}",
            "text that is not valid Unicode was replaced by U+FFFD",
        )


def _prompt(line: Any) -> object:
    line = as_line(line)
    return (
        parse_content(line.message.content)
        if type(line) is Line and line.message is not None
        else None
    )


def _data(agent_id: str | None, spawn: Spawn | None, meta: Record | None) -> Record:
    """What a span says of the subagent in it, in the spec's words where it has them."""
    return dict(_facts(agent_id, spawn.arguments if spawn else {}, meta or {}))


def _facts(agent_id: str | None, arguments: Record, meta: Record) -> Iterator[tuple[str, Any]]:
    yield "kind", "subagent"
    reason = (
        text_in(arguments, "description")
        or text_in(meta, "description")
        or text_in(arguments, "prompt")
    )
    kind = text_in(meta, "agentType") or text_in(arguments, "subagent_type")
    for name, value in (
        ("spawn_reason", reason),
        ("tooling_scope", kind),
        ("subagent_type", kind),
        ("model", text_in(arguments, "model")),
        ("agent_id", agent_id),
    ):
        if value:
            yield name, value
    depth = meta.get("spawnDepth")
    if type(depth) is int:
        yield "spawn_depth", depth


class Spawns:
    """Those calls by what a subagent may know of its own: the prompt, the kind, nothing."""

    def __init__(self) -> None:
        self._open: dict[str, Spawn] = {}
        self._waiting: dict[tuple[str, str | None], deque[Spawn]] = {}
        self._count = 0

    def __contains__(self, key: object) -> bool:
        return key in self._open

    def add(self, spawn: Spawn) -> None:
        """One more call; the same one told again takes the place of the first."""
        self.answer(spawn.key)
        self._count += 1
        spawn.number = self._count
        self._open[spawn.key] = spawn
        for name in (
            ("prompt", text_in(spawn.arguments, "prompt")),
            ("kind", spawn.kind),
            ("any", None),
        ):
            self._waiting.setdefault(name, deque()).append(spawn)

    def answer(self, key: str) -> Spawn | None:
        """The call gets its result: no subagent can be its own any more."""
        spawn = self._open.pop(key, None)
        if spawn:
            spawn.taken = True
        return spawn

    def take(self, prompt: object, kind: str | None) -> Spawn | None:
        """The call that started a subagent: the one with its prompt, else the first of its kind
        that has none."""
        found = self._first(("prompt", prompt)) if isinstance(prompt, str) else None
        if found is None:
            names = [("any", None)] if kind is None else [("kind", kind), ("kind", None)]
            alike = [spawn for name in names if (spawn := self._first(name))]
            found = min(alike, key=lambda spawn: spawn.number, default=None)
        if found:
            found.taken = True
        return found

    def _first(self, name: tuple[str, str | None]) -> Spawn | None:
        waiting = self._waiting.get(name)
        while waiting and waiting[0].taken:
            waiting.popleft()
        return waiting[0] if waiting else None
