"""Read a Claude Code session from its first record to its last, with its subagents."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from open_token.agents.claude_code.client_records import ClientRecordReader
from open_token.agents.claude_code.messages import MessageReader
from open_token.agents.claude_code.prompt_queue import PromptQueue
from open_token.agents.claude_code.record_tree import RecordTree
from open_token.agents.claude_code.records import (
    Line,
    decode_line,
    get_text,
    parse_agent_progress,
    to_line,
    to_safe_name,
    to_text,
)
from open_token.agents.claude_code.subagents import SubagentFiles, SubagentReader
from open_token.agents.claude_code.thread import Thread
from open_token.builder.draft import Draft
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

CLIENT = "Claude Code"
_TITLE_FIELDS = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
_TITLE_RANKS = {"summary": 0, "ai-title": 1, "custom-title": 2}
_CONTEXT_FIELDS = ("cwd", "git_branch", "version", "session_id")
_RUNTIMES = (
    ("vscode", "ide"),
    ("jetbrains", "ide"),
    ("sdk", "api"),
    ("web", "web"),
    ("remote", "web"),
)


class SessionReader:
    """Reads one session file with all that belongs to it."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", CLIENT)
        self._tree = RecordTree()
        self._is_subagent = _is_subagent_file(source)
        files = SubagentFiles(source, self._is_subagent)
        self._main = self._build_main_thread(files)
        self._subagents = SubagentReader(draft, self._tree, files, self.read_records)
        self._queue = PromptQueue(draft, self._client)
        self._messages = MessageReader(draft, self._client, self._subagents, self._queue)
        self._client_records = ClientRecordReader(
            draft, self._client, self._messages.add_user_content
        )
        self._titles: dict[tuple[str, str], str] = {}
        """Titles by record type and, for a summary, the uuid of its last record."""
        self._context: tuple[Any, ...] = ()
        self._facts: dict[str, str] = {}
        self._sessions: dict[str, None] = {}
        """The session ids in the order of their last appearance."""
        self._entrypoint = ""

    def _build_main_thread(self, files: SubagentFiles) -> Thread:
        """Return the main thread; in the file of a subagent that is the subagent's."""
        thread = Thread(self._draft, set())
        if self._is_subagent:
            ids = (get_text(record, "agentId") for record in self._source.sample)
            thread.agent_id = next(filter(None, ids), None)
            thread.prompter = self._draft.get_actor("model", "parent agent")
            meta = files.read_meta(self._source, self._draft)
            thread.name = get_text(meta, "agentType") or thread.name
        return thread

    def read(self) -> None:
        """Read the whole session into the draft."""
        self.read_records(self._source.records(decode_line), self._main)
        self._messages.finish()
        self._main.finish()
        self._subagents.finish(self._main, self._sessions)
        for positions in self._tree.find_abandoned(self._draft.count):
            data = {"kind": "abandoned_branch", "detail": "superseded by a later prompt"}
            self._draft.drop_branch(positions.start, positions.stop, data, self._client)
        self._queue.finish(self._main.get_prompter)
        self._describe_conversation()
        # They refer back to this reader: without this, the cycle would wait for the garbage
        # collector, which the caller may have turned off.
        del self._subagents, self._messages, self._client_records

    def read_records(self, records: Iterable[tuple[int, Any]], file_thread: Thread) -> None:
        """Read the records of a file, which is the session's own or a subagent's."""
        # The hot loop of the reader: one pass of it for each record, so it is not split up.
        draft = self._draft
        main = self._main
        add_to_tree = self._tree.add
        thread = file_thread
        has_sidechains = file_thread is main and not self._is_subagent
        for number, line in records:
            if type(line) is not Line:
                line = to_line(line)
                if type(line) is not Line:
                    position = f"{file_thread.label}line {number}"
                    draft.note_omission("skipped-record", position, "line is not a JSON object")
                    continue
            kind = line.type
            uuid = line.uuid
            parent = line.parent_uuid
            start = draft.count
            if kind != "user" and kind != "assistant":
                # A compact boundary has no parentUuid, only a logicalParentUuid.
                kind = _get_full_kind(line)
                parent = parent or get_text(line.record, "logicalParentUuid")
            # A resumed or forked session repeats the records of its history.
            if not add_to_tree(uuid, parent, kind, start):
                position = f"{file_thread.label}line {number}"
                draft.note_omission("duplicate-record", position, "repeats an earlier record")
                continue
            ts = to_utc(line.timestamp)
            if has_sidechains:
                thread = file_thread
                # Lines of subagents are interleaved with those of the main thread.
                if line.is_sidechain is True:
                    thread = self._subagents.get_sidechain_thread(line, file_thread)
            if thread is not main:
                thread.count_record(ts)
                # The first line of a subagent names no parent: its root is the call.
                if thread.root and not parent:
                    self._tree.set_parent(thread.root)
                if thread.is_muted:
                    continue
            elif uuid is not None:
                # Usually unchanged: one comparison of tuples instead of four of fields.
                context = (line.cwd, line.git_branch, line.version, line.session_id)
                if context != self._context:
                    self._update_context(context, line, start, ts)
            if (kind == "assistant" or kind == "user") and (
                line.message is None or line.message.content is None
            ):
                position = f"{file_thread.label}line {number}"
                draft.note_omission("no-content", position, f"type {kind} without content")
            if kind == "assistant":
                self._messages.read_assistant(line, thread, ts)
            elif kind != "user":
                self._read_client_record(line, thread, ts, number)
            # Only a typed prompt supersedes another: parallel results also share a parent.
            elif self._messages.read_user(line, thread, ts) and thread is main:
                self._tree.add_prompt(line.prompt_id)

    def _read_client_record(self, line: Line, thread: Thread, ts: str | None, number: int) -> None:
        """Read a record that is no message; note it if nothing of it is exported."""
        kind = line.type
        record = line.record
        if kind == "progress" and self._read_progress(line, thread, number):
            return
        if type(record) is dict:
            if kind == "attachment":
                self._client_records.read_attachment(record, thread, ts)
                return
            # Since 2.1.325 the client logs what it sends: system prompt, tools, and the cost.
            if kind == "api-request-shape":
                system = record.get("system")
                self._client_records.read_request(system, record.get("tools"), thread, ts)
                return
            if kind == "cost-state":
                self._client_records.read_cost(record, thread)
                return
            # A prompt typed while the model works may be in the queue and nowhere else.
            if kind == "queue-operation" and thread is self._main:
                if not self._queue.read(record, thread.get_prompter, ts):
                    position = f"{thread.label}line {number}"
                    self._draft.note_omission(
                        "duplicate-record", position, "repeats an earlier record"
                    )
                return
            if kind == "pr-link":
                self._client_records.read_pull_request(record, ts)
                return
            if kind == "system" and self._client_records.read_system(record, thread, ts):
                return
        if isinstance(kind, str) and kind in _TITLE_FIELDS and thread is self._main:
            self._add_title(kind, record)
            return
        self._draft.note_omission(
            "skipped-record", f"{thread.label}line {number}", f"type {to_safe_name(kind)}"
        )

    def _read_progress(self, line: Line, thread: Thread, number: int) -> bool:
        """Read what a progress record says about a subagent; return False if nothing."""
        progress = parse_agent_progress(line.data)
        agent_id = to_text(progress.agent_id) if progress else None
        if progress is None or agent_id is None:
            return self._messages.keep_progress(line)
        # Older versions repeated all messages so far, some of them never alone. Messages that were
        # read before are recognized by their uuids.
        messages = progress.normalized_messages
        messages = list(messages) if type(messages) is list else []
        if progress.message not in messages[-1:]:
            messages.append(progress.message)
        lines = [to_line(message) for message in messages if type(message) is dict]
        lines = [line for line in lines if not self._tree.has(line.uuid, _get_full_kind(line))]
        if not lines:
            return True
        subagent = self._subagents.get_progress_thread(agent_id, line, lines[0], thread)
        if subagent is None:
            return False
        self.read_records([(number, line) for line in lines], subagent)
        return True

    def _add_title(self, kind: str, record: Any) -> None:
        title = get_text(record, _TITLE_FIELDS[kind])
        if not title:
            return
        leaf = ""
        if kind == "summary":
            leaf = get_text(record, "leafUuid") or ""
        # Remove and insert: the last title of a kind comes last.
        self._titles.pop((kind, leaf), None)
        self._titles[kind, leaf] = title

    def _update_context(
        self, context: tuple[Any, ...], line: Line, start: int, ts: str | None
    ) -> None:
        """Annotate where the session runs, when that is first seen and when it changes."""
        self._context = context
        fields = zip(_CONTEXT_FIELDS, context, strict=True)
        facts = {name: value for name, value in fields if to_text(value)}
        session_id = facts.get("session_id")
        if session_id:
            # Remove and insert: the order is that of the last appearance.
            self._sessions.pop(session_id, None)
            self._sessions[session_id] = None
        self._entrypoint = self._entrypoint or to_text(line.entrypoint) or ""
        if facts.items() <= self._facts.items():
            return
        self._facts |= facts
        self._draft.add_annotation({"kind": "context"} | facts, actor=self._client, ts=ts)
        # The context stays, even if the branch of the record is abandoned.
        self._tree.insert_unowned(start, self._draft.count)

    def _describe_conversation(self) -> None:
        conversation = self._draft.conversation
        conversation_id = self._find_id()
        if conversation_id:
            conversation["id"] = conversation_id
        title = self._select_title()
        if title:
            conversation["title"] = title
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        entrypoint = self._entrypoint.lower()
        runtimes = (runtime for part, runtime in _RUNTIMES if part in entrypoint)
        conversation["source_runtime"] = next(runtimes, "cli")
        conversation["provider"] = "anthropic"

    def _find_id(self) -> str | None:
        """Return the session's id.

        A resumed or forked file begins with records of older sessions: the id in the file name is
        right if it is among those of the records, else the last one is. A subagent shares the id of
        its session.
        """
        if self._main.agent_id:
            return f"agent-{self._main.agent_id}"
        stem = PurePath(self._source.name).name.split(".")[0]
        return stem if stem in self._sessions else next(reversed(self._sessions), None)

    def _select_title(self) -> str | None:
        """Return the title a person gave, else the model's, else a summary of this very file.

        Older versions also wrote summaries of other sessions into a file.
        """
        leaves = [leaf for kind, leaf in self._titles if kind == "summary"]
        own_leaves = self._tree.find_known(leaves)
        candidates = [key for key in self._titles if key[0] != "summary" or key[1] in own_leaves]
        selected = max(reversed(candidates), key=lambda key: _TITLE_RANKS[key[0]], default=None)
        for key, title in self._titles.items():
            if key != selected:
                data = {"kind": "other_title", "title": title, "source": key[0]}
                self._draft.add_annotation(data, actor=self._client)
        return self._titles[selected] if selected else None


def _is_subagent_file(source: Source) -> bool:
    """Return whether the file is a subagent's own: all records in it are sidechain records."""
    has_flag = False
    for record in source.iter_sample():
        if isinstance(record, dict) and "isSidechain" in record:
            if record["isSidechain"] is not True:
                return False
            has_flag = True
    return has_flag


def _get_full_kind(line: Line) -> str:
    """Return type and subtype: records that differ in them never repeat each other."""
    if line.type == "attachment":
        attachment = line.record.get("attachment") if type(line.record) is dict else None
        if isinstance(attachment, str) and attachment:
            return f"attachment {attachment}"
        kind = attachment.get("type") if type(attachment) is dict else None
        return f"attachment {to_safe_name(kind)}"
    if line.type == "system":
        return f"system {get_text(line.record, 'subtype')}"
    return line.type if isinstance(line.type, str) else "unknown"


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
