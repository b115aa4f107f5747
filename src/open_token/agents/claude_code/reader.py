"""One Claude Code session from its first record to its last: who tells each record, and what the
whole is called."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from open_token.agents.claude_code.messages import Talk
from open_token.agents.claude_code.record_tree import Tree
from open_token.agents.claude_code.records import Line, as_line, decode, name_of, text, text_in
from open_token.agents.claude_code.side_records import Asides
from open_token.agents.claude_code.subagent_files import AgentFiles
from open_token.agents.claude_code.subagents import Subagents
from open_token.agents.claude_code.thread import Thread
from open_token.builder.draft import Draft
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

CLIENT = "Claude Code"
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_RUNTIMES = (
    ("vscode", "ide"),
    ("jetbrains", "ide"),
    ("sdk", "api"),
    ("web", "web"),
    ("remote", "web"),
)


class Session:
    """Reads a session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", CLIENT)
        self._tree = Tree()
        self._alone = _is_alone(source)
        self._main = self._main_thread()
        self._subagents = Subagents(draft, self._tree, AgentFiles(source, self._alone), self.run)
        self._talk = Talk(draft, self._client, self._subagents)
        self._asides = Asides(draft, self._client, self._talk.say)
        self._titles: dict[tuple[str, str], tuple[str, int]] = {}
        """By kind and, for a summary, the leaf it is of: the words and the line."""
        self._context: tuple[Any, ...] = ()
        self._facts: dict[str, str] = {}
        self._sessions: dict[str, None] = {}
        self._entrypoint = ""

    def _main_thread(self) -> Thread:
        """The main line of talk; in a file of a subagent alone that is the subagent's."""
        thread = Thread(self._draft, set())
        if self._alone:
            sample = self._source.sample
            thread.agent_id = next(
                (name for record in sample if (name := text_in(record, "agentId"))), None
            )
            thread.prompter = self._draft.get_actor("model", "parent agent")
            meta = AgentFiles(self._source, alone=True).meta(self._source, self._draft)
            thread.name = text_in(meta, "agentType") or thread.name
        return thread

    def read(self) -> None:
        """Tell everything."""
        self.run(self._source.records(decode), self._main)
        self._main.finish()
        self._subagents.finish(self._main, self._sessions)
        for places in self._tree.abandoned(self._draft.count):
            data = {"kind": "abandoned_branch", "detail": "a later prompt took its place"}
            self._draft.drop_branch(places.start, places.stop, data, self._client)
        self._name()
        # They refer back to this session, which would wait for a collector that the caller may have
        # turned off.
        del self._subagents, self._talk, self._asides

    def run(self, records: Iterable[tuple[int, Any]], thread: Thread) -> None:
        """Tell the records of a file."""
        draft, main, enter = self._draft, self._main, self._tree.enter
        told, splits = thread, thread is main and not self._alone
        for number, line in records:
            if type(line) is not Line and type(line := as_line(line)) is not Line:
                draft.note_omission(
                    "skipped-record", f"{thread.label}line {number}", "a line that is no object"
                )
                continue
            kind, uuid, parent, place = line.type, line.uuid, line.parent_uuid, draft.count
            if kind != "user" and kind != "assistant":
                kind = _kind(line)
                parent = parent or text_in(line.whole, "logicalParentUuid")
            if not enter(uuid, parent, kind, place):
                draft.note_omission(
                    "duplicate-record",
                    f"{thread.label}line {number}",
                    "a record that stands before already",
                )
                continue
            ts = to_utc(line.timestamp)
            if splits:
                told = (
                    self._subagents.sidechain(line, thread) if line.is_sidechain is True else thread
                )
            if told is main and uuid is not None:
                context = (line.cwd, line.git_branch, line.version, line.session_id)
                if context != self._context:
                    self._meet(context, line, place, ts)
            elif told is not main:
                told.meet(ts)
                if told.root and not parent:
                    self._tree.hang(told.root)
                if told.muted:
                    continue
            if (kind == "assistant" or kind == "user") and (
                line.message is None or line.message.content is None
            ):
                draft.note_omission(
                    "no-content", f"{thread.label}line {number}", f"type {kind} without content"
                )
            if kind == "assistant":
                self._talk.assistant(line, told, ts)
            elif kind != "user":
                self._tell_aside(line, told, ts, number)
            elif self._talk.user(line, told, ts) and told is main:
                self._tree.prompt(line.prompt_id)

    def _tell_aside(self, line: Line, thread: Thread, ts: str | None, number: int) -> None:
        """A record that is no line of talk; what is not carried over is noted."""
        kind, whole = line.type, line.whole
        if kind == "attachment" and type(whole) is dict:
            self._asides.attachment(whole, thread, ts)
        elif kind == "api-request-shape" and type(whole) is dict:
            self._asides.request(whole.get("system"), whole.get("tools"), thread, ts)
        elif kind == "cost-state" and type(whole) is dict:
            self._asides.cost(whole, thread)
        elif kind == "pr-link" and type(whole) is dict:
            self._asides.pull_request(whole, thread, ts)
        elif isinstance(kind, str) and kind in _TITLES and thread is self._main:
            if title := text_in(whole, _TITLES[kind]):
                leaf = text_in(whole, "leafUuid") or "" if kind == "summary" else ""
                self._titles.pop((kind, leaf), None)
                self._titles[kind, leaf] = title, number
        elif kind != "system" or not self._asides.system(whole, thread, ts):
            self._draft.note_omission(
                "skipped-record", f"{thread.label}line {number}", f"type {name_of(kind)}"
            )

    def _meet(self, context: tuple[Any, ...], line: Line, place: int, ts: str | None) -> None:
        """Where the session runs: an annotation when that is first seen and when it changes."""
        self._context = context
        names = ("cwd", "git_branch", "version", "session_id")
        facts = {name: value for name, value in zip(names, context, strict=True) if text(value)}
        if session := facts.get("session_id"):
            self._sessions.pop(session, None)
            self._sessions[session] = None
        self._entrypoint = self._entrypoint or text(line.entrypoint) or ""
        if facts.items() <= self._facts.items():
            return
        self._facts |= facts
        self._draft.add_annotation({"kind": "context"} | facts, actor=self._client, ts=ts)
        self._tree.insert(place, self._draft.count)

    def _name(self) -> None:
        """The facts about the whole."""
        conversation = self._draft.conversation
        if name := self._id():
            conversation["id"] = name
        if title := self._title():
            conversation["title"] = title
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        word = self._entrypoint.lower()
        conversation["source_runtime"] = next(
            (runtime for part, runtime in _RUNTIMES if part in word), "cli"
        )
        conversation["provider"] = "anthropic"

    def _id(self) -> str | None:
        """The session's own id. A resumed or forked file begins with records of older sessions, so
        the id that its name bears holds when it is among them, else the last one; a subagent shares
        the id of its session."""
        if self._main.agent_id:
            return f"agent-{self._main.agent_id}"
        stem = PurePath(self._source.name).name.split(".")[0]
        return stem if stem in self._sessions else next(reversed(self._sessions), None)

    def _title(self) -> str | None:
        """The title a person gave, else the one a model gave, else a summary that belongs to this
        very file."""
        ranks = {"summary": 0, "ai-title": 1, "custom-title": 2}
        leaves = self._tree.held(leaf for kind, leaf in self._titles if kind == "summary")
        own = [key for key in self._titles if key[0] != "summary" or key[1] in leaves]
        chosen = max(reversed(own), key=lambda key: ranks[key[0]], default=None)
        for key, (_, number) in self._titles.items():
            if key != chosen:
                self._draft.note_omission("unused-title", f"line {number}", f"type {key[0]}")
        return self._titles[chosen][0] if chosen else None


def _is_alone(source: Source) -> bool:
    """Whether the file is a subagent's own."""
    marks = [
        record["isSidechain"]
        for record in source.sample
        if isinstance(record, dict) and "isSidechain" in record
    ]
    return bool(marks) and all(mark is True for mark in marks)


def _kind(line: Line) -> str:
    """What a record is, down to its second name: two of different kinds are never the same
    record."""
    if line.type == "attachment":
        return f"attachment {text_in(line.whole, 'attachment') or name_of(_inner(line.whole))}"
    if line.type == "system":
        return f"system {text_in(line.whole, 'subtype')}"
    return line.type if isinstance(line.type, str) else "unknown"


def _inner(whole: Any) -> Any:
    attached = whole.get("attachment") if type(whole) is dict else None
    return attached.get("type") if type(attached) is dict else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    Session(source, draft).read()
