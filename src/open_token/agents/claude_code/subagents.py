"""Subagents of a Claude Code session, in all layouts that its versions have used.

Their lines are sidechains in the session's own file (the oldest layout), in files `agent-*.jsonl`
in the same folder, or in such files below `<session>/subagents/` (the newest). The session's own
file may repeat them in progress records, which are read where the files are missing.
"""

import glob
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import PurePath
from typing import Any

import msgspec

from open_token.agents.claude_code.record_tree import RecordTree
from open_token.agents.claude_code.records import (
    Line,
    Record,
    decode_line,
    get_text,
    to_line,
    to_text,
)
from open_token.agents.claude_code.thread import Thread
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.formats.shared.notes import note_file_faults
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

MAX_DEPTH = 16
Records = Iterable[tuple[int, Any]]
ReadRecords = Callable[[Records, Thread], None]

_AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,100}")
_PREFIX = "agent-"
_SUFFIX = ".jsonl"


class SpawnCall(msgspec.Struct):
    """A call that starts a subagent and has no result yet."""

    key: str
    arguments: Record
    actor: str
    uuid: str | None
    number: int = 0
    """Its number among all of them."""
    is_taken: bool = False

    @property
    def agent_type(self) -> str | None:
        return get_text(self.arguments, "subagent_type")


class SpawnCalls:
    """The open spawn calls, by what a subagent knows about its call: prompt, type or nothing."""

    def __init__(self) -> None:
        self._open: dict[str, SpawnCall] = {}
        self._waiting: dict[tuple[str, str | None], deque[SpawnCall]] = {}
        self._count = 0

    def __contains__(self, key: object) -> bool:
        return key in self._open

    def add(self, call: SpawnCall) -> None:
        """Add a call; a repetition replaces the first."""
        self.close(call.key)
        self._count += 1
        call.number = self._count
        self._open[call.key] = call
        for name in (
            ("prompt", get_text(call.arguments, "prompt")),
            ("type", call.agent_type),
            ("any", None),
        ):
            self._waiting.setdefault(name, deque()).append(call)

    def get(self, key: str) -> SpawnCall | None:
        """Return an open call, which then belongs to a subagent."""
        call = self._open.get(key)
        if call:
            call.is_taken = True
        return call

    def close(self, key: str) -> SpawnCall | None:
        """Remove a call that gets its result: no further subagent can belong to it."""
        call = self._open.pop(key, None)
        if call:
            call.is_taken = True
        return call

    def take(self, prompt: object, agent_type: str | None) -> SpawnCall | None:
        """Take the call that started a subagent.

        That is the one with its prompt, else the first of its type or without a type.
        """
        call = self._find_first(("prompt", prompt)) if isinstance(prompt, str) else None
        if call is None:
            names = [("type", agent_type), ("type", None)]
            if agent_type is None:
                names = [("any", None)]
            candidates = [self._find_first(name) for name in names]
            matching = [candidate for candidate in candidates if candidate]
            call = min(matching, key=lambda match: match.number, default=None)
        if call:
            call.is_taken = True
        return call

    def _find_first(self, name: tuple[str, str | None]) -> SpawnCall | None:
        waiting = self._waiting.get(name)
        while waiting and waiting[0].is_taken:
            waiting.popleft()
        return waiting[0] if waiting else None


class SubagentFiles:
    """The subagent files around one session file."""

    def __init__(self, source: Source, is_subagent: bool) -> None:
        self._source = source
        self._is_subagent = is_subagent
        """Whether the file itself is a subagent's: then only files that it names belong to it."""
        self._stem = PurePath(source.name).name.split(".")[0]
        self._in_folder: dict[str, Source] | None = None

    def find(self, agent_id: str) -> Source | None:
        """Return the file of a subagent."""
        if not _AGENT_ID.fullmatch(agent_id):
            return None
        in_folder = self._list_folder().get(agent_id)
        return in_folder or self._source.open_sibling(f"{_PREFIX}{agent_id}{_SUFFIX}")

    def read_meta(self, source: Source, draft: Draft) -> Record:
        """Read the `.meta.json` of a subagent's file; empty if there is none."""
        name = PurePath(source.name).name.removesuffix(_SUFFIX) + ".meta.json"
        file = source.open_sibling(name)
        if file is None:
            return {}
        try:
            meta = file.document
        except InputError:
            draft.note_omission("broken-file", name, "not valid JSON")
            return {}
        return meta if type(meta) is dict else {}

    def find_remaining(
        self, known: set[str], sessions: frozenset[str]
    ) -> Iterator[tuple[str, Source]]:
        """Yield the subagents of these sessions that are not known yet.

        A file in the same folder is opened only when its turn comes.
        """
        if self._is_subagent:
            return
        for agent_id, source in self._list_folder().items():
            if agent_id not in known:
                yield agent_id, source
        for source in self._source.find_siblings(f"{_PREFIX}*{_SUFFIX}"):
            agent_id = _parse_agent_id(source)
            if agent_id in known or not _AGENT_ID.fullmatch(agent_id):
                continue
            if _read_session_id(source) in sessions:
                yield agent_id, source

    def _list_folder(self) -> dict[str, Source]:
        if self._in_folder is None:
            self._in_folder = {}
            # Workflows have further folders below `subagents`.
            pattern = f"{glob.escape(self._stem)}/subagents/**/{_PREFIX}*{_SUFFIX}"
            for source in self._source.find_siblings(pattern) if self._stem else []:
                agent_id = _parse_agent_id(source)
                if _AGENT_ID.fullmatch(agent_id):
                    self._in_folder.setdefault(agent_id, source)
        return self._in_folder


def _parse_agent_id(source: Source) -> str:
    return PurePath(source.name).name[len(_PREFIX) : -len(_SUFFIX)]


def _read_session_id(source: Source) -> str | None:
    """Return the session that a subagent's file names; None for a file that cannot be read."""
    try:
        line = _read_first_line(source)
    except InputError:
        return None
    return to_text(line.session_id) if line else None


def _read_first_line(source: Source) -> Line | None:
    for _, line in source.records(decode_line, is_preview=True):
        line = to_line(line)
        return line if type(line) is Line else None
    return None


class Sidechain(msgspec.Struct):
    """A subagent whose lines are in the session's own file."""

    thread: Thread
    call: str | None
    agent_id: str | None
    uuids: list[str]
    is_closed: bool = False


class SubagentReader:
    """Puts the events of subagents into spans, before the result of the call that started them."""

    def __init__(
        self, draft: Draft, tree: RecordTree, files: SubagentFiles, read_records: ReadRecords
    ) -> None:
        self._draft = draft
        self._tree = tree
        self._files = files
        self._read_records = read_records
        self.calls = SpawnCalls()
        self._sidechains: list[Sidechain] = []
        """In order of their first line; closed ones are removed only from the end."""
        self._by_call: dict[str, list[Sidechain]] = {}
        self._by_agent: dict[str, Sidechain] = {}
        self._by_uuid: dict[str, Sidechain] = {}
        self._read_agents: set[str] = set()
        self._has_file: dict[str, bool] = {}
        """By the id of a subagent that progress records are about."""
        self._deferred: list[tuple[str, Source]] = []
        """Subagents below the maximal depth, read at the end."""

    def add_call(self, key: str, arguments: Any, actor: str, uuid: Any) -> None:
        """Add a call that starts a subagent."""
        given = arguments if type(arguments) is dict else {}
        known_uuid = uuid if isinstance(uuid, str) else None
        self.calls.add(SpawnCall(key, given, actor, known_uuid))

    def finish_call(
        self, key: str | None, facts: dict[str, Any] | None, thread: Thread, uuid: Any
    ) -> None:
        """Add what the subagent of a call did, right before the result of the call is added."""
        call = self.calls.close(key) if key else None
        agent_id = facts.get("agent_id") if facts else None
        if call is None and agent_id is None:
            return
        for sidechain in self._by_call.pop(key or "", ()):
            self._close(sidechain)
        if agent_id and agent_id not in self._read_agents:
            source = self._files.find(agent_id)
            if source:
                self._read_file(agent_id, source, key, call, thread, to_text(uuid))

    def get_sidechain_thread(self, line: Line, main: Thread) -> Thread:
        """Return the thread of a sidechain line; its first line opens it.

        Older versions gave subagents no id: there the chain of uuids decides.
        """
        agent_id = to_text(line.agent_id)
        uuid = to_text(line.uuid)
        parent = to_text(line.parent_uuid)
        if agent_id:
            sidechain = self._by_agent.get(agent_id)
        else:
            sidechain = self._by_uuid.get(parent or "")
            # The parent is in no sidechain: a line between them is missing.
            if sidechain is None and parent:
                sidechain = self._get_latest()
        if sidechain is None:
            call = self.calls.take(_read_prompt(line), None)
            sidechain = self._open(line, agent_id, call, main)
        if uuid and agent_id is None:
            self._by_uuid[uuid] = sidechain
            sidechain.uuids.append(uuid)
        return sidechain.thread

    def get_progress_thread(
        self, agent_id: str, line: Line, first: Line, main: Thread
    ) -> Thread | None:
        """Return the thread of a subagent that a progress record is about.

        `first` is the first message in the record. None if the subagent has a file of its own: it
        holds more than the records do.
        """
        sidechain = self._by_agent.get(agent_id)
        if sidechain:
            return sidechain.thread
        if agent_id not in self._has_file:
            self._has_file[agent_id] = self._files.find(agent_id) is not None
        if self._has_file[agent_id]:
            return None
        call = self._get_call(to_text(line.parent_tool_use_id), main)
        return self._open(first, agent_id, call, main).thread

    def get_call_thread(self, key: str, line: Line, main: Thread) -> Thread:
        """Return the thread of the subagent that a call started; its first line opens it."""
        sidechains = self._by_call.get(key)
        if sidechains:
            return sidechains[-1].thread
        sidechain = self._open(line, None, self._get_call(key, main), main)
        # Also of a call that is not in the source, or has its result: further lines follow.
        self._by_call.setdefault(key, [sidechain])
        return sidechain.thread

    def _get_call(self, key: str | None, main: Thread) -> SpawnCall | None:
        if key is None:
            return None
        # Any tool can start a subagent: one that runs a skill, for example.
        if key not in self.calls and self._draft.is_call_open(key):
            self.add_call(key, None, main.speaker, None)
        return self.calls.get(key)

    def _open(
        self, line: Line, agent_id: str | None, call: SpawnCall | None, main: Thread
    ) -> Sidechain:
        key = call.key if call else None
        # Without an id, the first line distinguishes subagents of one type.
        thread = self._build_thread(agent_id or to_text(line.uuid), call, None, main, None)
        if self._draft.subagents != "none":
            thread.span = self._draft.start_span(
                _describe_subagent(agent_id, call, {}),
                thread.prompter,
                ts=to_utc(line.timestamp),
                call=key,
            )
        sidechain = Sidechain(thread, key, agent_id, [])
        self._sidechains.append(sidechain)
        if key:
            self._by_call.setdefault(key, []).append(sidechain)
        if agent_id:
            self._by_agent[agent_id] = sidechain
            self._read_agents.add(agent_id)
        return sidechain

    def _get_latest(self) -> Sidechain | None:
        """Return the sidechain that was opened last and is still open."""
        while self._sidechains and self._sidechains[-1].is_closed:
            self._sidechains.pop()
        return self._sidechains[-1] if self._sidechains else None

    def _close(self, sidechain: Sidechain) -> None:
        thread = sidechain.thread
        thread.finish()
        sidechain.is_closed = True
        for uuid in sidechain.uuids:
            self._by_uuid.pop(uuid, None)
        if sidechain.agent_id:
            self._by_agent.pop(sidechain.agent_id, None)
        if thread.span:
            data = {"records": thread.records} if thread.is_muted else {}
            self._draft.end_span(thread.span, data, ts=thread.last_ts, call=sidechain.call)
        else:
            self._note_omitted()

    def _note_omitted(self) -> None:
        self._draft.note_omission(
            "subagent",
            f"event {self._draft.count}",
            "what a subagent did is left out (subagents=none)",
        )

    def _build_thread(
        self,
        agent_id: str | None,
        call: SpawnCall | None,
        agent_type: str | None,
        parent: Thread,
        root: str | None,
    ) -> Thread:
        actor = parent.speaker
        if call:
            actor = call.actor
            agent_type = agent_type or call.agent_type
            root = call.uuid or root
        return Thread(
            self._draft,
            parent.counted_messages,
            name=agent_type or "subagent",
            agent_id=agent_id,
            prompter=actor or parent.set_model(None),
            visibility="internal",
            depth=parent.depth + 1,
            is_muted=self._draft.subagents != "inline",
            root=root,
        )

    def _read_file(
        self,
        agent_id: str,
        source: Source,
        key: str | None,
        call: SpawnCall | None,
        parent: Thread,
        root: str | None = None,
    ) -> None:
        draft = self._draft
        self._read_agents.add(agent_id)
        if draft.subagents == "none":
            self._note_omitted()
            return
        # Deeper ones are read at the end, so that no recursion can exhaust the stack.
        if parent.depth >= MAX_DEPTH:
            self._deferred.append((agent_id, source))
            return
        meta = self._files.read_meta(source, draft)
        thread = self._build_thread(agent_id, call, get_text(meta, "agentType"), parent, root)
        thread.label = f"{_PREFIX}{agent_id} "
        # The span's own events belong to the call: they go when its branch is abandoned.
        self._tree.add(None, thread.root, "", draft.count)
        data = _describe_subagent(agent_id, call, meta)
        if thread.is_muted:
            self._add_reference(source, data, thread, key)
        else:
            self._add_inline(source, data, thread, key)
        self._tree.add(None, thread.root, "", draft.count)
        note_file_faults(source, f"{_PREFIX}{agent_id}", draft)

    def _add_inline(self, source: Source, data: Record, thread: Thread, key: str | None) -> None:
        records = source.records(decode_line)
        first = next(records, None)
        ts = None
        if first is not None:
            line = to_line(first[1])
            if type(line) is Line:
                ts = to_utc(line.timestamp)
            records = chain([first], records)
        thread.span = self._draft.start_span(data, thread.prompter, ts=ts, call=key)
        self._read_records(records, thread)
        thread.finish()
        self._draft.end_span(thread.span, ts=thread.last_ts, call=key)

    def _add_reference(self, source: Source, data: Record, thread: Thread, key: str | None) -> None:
        """Add a span without content, with the file name and the number of records."""
        count = 0
        model = None
        for _, line in source.records(decode_line, is_preview=True):
            count += 1
            if model is None and type(line) is Line and line.message is not None:
                model = to_text(line.message.model)
        thread.set_model(model)
        data |= {"file": f"{_PREFIX}{thread.agent_id}{_SUFFIX}", "records": count}
        span = self._draft.start_span(data, thread.prompter, call=key)
        self._draft.end_span(span, call=key)

    def finish(self, main: Thread, sessions: Iterable[str]) -> None:
        """Close open sidechains and add the subagents that no result named, at the end."""
        for sidechain in self._sidechains:
            if not sidechain.is_closed:
                self._close(sidechain)
        remaining = self._files.find_remaining(self._read_agents, frozenset(sessions))
        for agent_id, source in chain(remaining, self._deferred):
            meta = self._files.read_meta(source, self._draft)
            line = _read_first_line(source)
            prompt = _read_prompt(line) if line else None
            call = self.calls.take(prompt, get_text(meta, "agentType"))
            self._read_file(agent_id, source, call.key if call else None, call, main)


def _read_prompt(line: Line) -> object:
    return parse_content(line.message.content) if line.message is not None else None


def _describe_subagent(agent_id: str | None, call: SpawnCall | None, meta: Record) -> Record:
    """Return the data of a subagent's span."""
    arguments = call.arguments if call else {}
    reason = (
        get_text(arguments, "description")
        or get_text(meta, "description")
        or get_text(arguments, "prompt")
    )
    agent_type = get_text(meta, "agentType") or get_text(arguments, "subagent_type")
    fields = {
        "spawn_reason": reason,
        "tooling_scope": agent_type,
        "subagent_type": agent_type,
        "model": get_text(arguments, "model"),
        "agent_id": agent_id,
    }
    data: Record = {"kind": "subagent"}
    data |= {name: value for name, value in fields.items() if value}
    depth = meta.get("spawnDepth")
    if type(depth) is int:
        data["spawn_depth"] = depth
    return data
