"""Read the messages of a stream: they are those of a session file, in another envelope."""

from typing import Any

from open_token.agents.claude_code.client_records import ClientRecordReader
from open_token.agents.claude_code.messages import MessageReader
from open_token.agents.claude_code.prompt_queue import PromptQueue
from open_token.agents.claude_code.record_tree import RecordTree
from open_token.agents.claude_code.records import Line, get_text, to_line, to_safe_name, to_text
from open_token.agents.claude_code.subagents import SubagentFiles, SubagentReader
from open_token.agents.claude_code.thread import Thread
from open_token.agents.claude_stream.partial_messages import PartialMessage, start_partial
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import pick_fields
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

CLIENT = "Claude Code"
# What every message has, and nobody said.
_ENVELOPE = ("type", "subtype", "uuid", "session_id", "parent_tool_use_id")
_CONTEXT_FIELDS = {"cwd": "cwd", "claude_code_version": "version", "session_id": "session_id"}
# Signs of life, of which a run prints hundreds; what they announce is in other messages.
_BOOKKEEPING = ("status", "thinking_tokens", "hook_started", "task_progress", "task_updated")
_TOTAL_FIELDS = (
    "subtype",
    "is_error",
    "duration_ms",
    "duration_api_ms",
    "num_turns",
    "stop_reason",
    "terminal_reason",
    "usage",
    "errors",
)


class StreamReader:
    """Reads one stream into a draft."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", CLIENT)
        self._tree = RecordTree()
        self._main = Thread(draft, set())
        # A stream includes all of its subagents: no files belong to it.
        files = SubagentFiles(Source("stream", data=b""), is_subagent=True)
        self._subagents = SubagentReader(draft, self._tree, files, self._refuse_files)
        queue = PromptQueue(draft, self._client)
        self._messages = MessageReader(draft, self._client, self._subagents, queue)
        self._client_records = ClientRecordReader(
            draft, self._client, self._messages.add_user_content
        )
        self._partial: dict[str | None, PartialMessage] = {}
        """The answer that is arriving in parts, by the call that started its thread."""
        self._context: dict[str, Any] = {}
        self._session_id: str | None = None
        self._last_answer = ""

    @staticmethod
    def _refuse_files(records: Any, thread: Thread) -> None:
        raise AssertionError("a stream has no files")

    def read(self) -> None:
        """Read the whole stream."""
        for number, record in self._source.records():
            if isinstance(record, dict):
                self._read_record(record, number)
            else:
                self._draft.note_omission(
                    "skipped-record", f"line {number}", "record is not a JSON object"
                )
        for parent in list(self._partial):
            self._finish_partial(parent)
        self._main.finish()
        self._subagents.finish(self._main, ())
        self._describe_conversation()
        del self._subagents, self._messages, self._client_records

    def _read_record(self, record: dict[str, Any], number: int) -> None:
        kind = get_text(record, "type") or ""
        ts = to_utc(record.get("timestamp"))
        start = self._draft.count
        # The input of a stream, repeated by its output, has the same uuid.
        if kind != "stream_event" and not self._tree.add(record.get("uuid"), None, kind, start):
            self._draft.note_omission(
                "duplicate-record", f"line {number}", "repeats an earlier record"
            )
            return
        # The prompts of an input may name no session yet.
        if kind != "user":
            self._session_id = get_text(record, "session_id") or self._session_id
        if kind == "assistant" or kind == "user":
            self._read_message(record, kind, ts, number)
        elif kind == "stream_event":
            self._read_event(record)
        elif kind == "system" and record.get("subtype") not in _BOOKKEEPING:
            self._read_system(record, ts)
        elif kind == "result":
            self._read_result(record, ts)
        else:
            name = to_safe_name(record.get("subtype") if kind == "system" else kind)
            detail = f"type {name}"
            self._draft.note_omission("skipped-record", f"line {number}", detail)

    def _read_message(self, record: dict[str, Any], kind: str, ts: str | None, number: int) -> None:
        line = _to_session_line(record)
        if line.message is None or line.message.content is None:
            detail = f"type {kind} without content"
            self._draft.note_omission("no-content", f"line {number}", detail)
            return
        parent = to_text(record.get("parent_tool_use_id"))
        thread = self._get_thread(parent, line)
        if thread is not self._main:
            thread.count_record(ts)
        if kind == "user":
            # An answer is over when its results arrive.
            self._finish_partial(parent)
            if not thread.is_muted:
                self._messages.read_user(line, thread, ts)
            return
        partial = self._partial.get(parent)
        if partial is not None and partial.id != line.message.id:
            self._finish_partial(parent)
        elif partial is not None:
            content = line.message.content
            partial.whole_blocks += len(content) if isinstance(content, list) else 1
        if not thread.is_muted:
            self._messages.read_assistant(line, thread, ts)
        if thread is self._main:
            self._last_answer = _find_last_text(line.message.content) or self._last_answer

    def _get_thread(self, parent: str | None, line: Line) -> Thread:
        """Return the main thread, or that of the subagent which a call started."""
        if parent is None:
            return self._main
        return self._subagents.get_call_thread(parent, line, self._main)

    def _read_event(self, record: dict[str, Any]) -> None:
        """Read a part of an answer; the answer itself usually follows as a whole."""
        event = record.get("event")
        if not isinstance(event, dict):
            return
        parent = to_text(record.get("parent_tool_use_id"))
        if event.get("type") == "message_start":
            self._finish_partial(parent)
            self._partial[parent] = start_partial(event)
        elif parent in self._partial:
            self._partial[parent].add(event)

    def _finish_partial(self, parent: str | None) -> None:
        """Add the final usage of an answer, and whatever came of it only in parts."""
        partial = self._partial.pop(parent, None)
        if partial is None:
            return
        remaining = partial.list_remaining()
        message: dict[str, Any] = {"id": partial.id, "model": partial.model, "content": remaining}
        if partial.usage:
            message["usage"] = partial.usage
        line = to_line({"type": "assistant", "message": message})
        line.is_aborted_mid_stream = bool(remaining)
        thread = self._get_thread(parent, line)
        if not thread.is_muted and (remaining or partial.whole_blocks):
            self._messages.read_assistant(line, thread, None)

    def _read_system(self, record: dict[str, Any], ts: str | None) -> None:
        subtype = get_text(record, "subtype") or ""
        if subtype == "init":
            self._read_init(record, ts)
            return
        data: dict[str, Any] = {"kind": "notice", "subtype": to_safe_name(subtype)}
        facts = {key: value for key, value in record.items() if key not in _ENVELOPE}
        if subtype.endswith("compact_boundary"):
            data = {"kind": "compaction"}
            metadata = facts.pop("compact_metadata", None)
            facts |= metadata if isinstance(metadata, dict) else {}
        self._draft.add_annotation(data | facts, actor=self._client, ts=ts)

    def _read_init(self, record: dict[str, Any], ts: str | None) -> None:
        """Read what a run begins with; a stream with several prompts repeats it for each."""
        facts = {name: record[key] for key, name in _CONTEXT_FIELDS.items() if record.get(key)}
        settings = {
            key: value
            for key, value in record.items()
            if key not in _ENVELOPE and key not in _CONTEXT_FIELDS and key != "tools"
        }
        if facts | settings == self._context:
            return
        self._context = facts | settings
        annotate = self._draft.add_annotation
        annotate({"kind": "context"} | facts, actor=self._client, ts=ts)
        if settings:
            annotate({"kind": "settings"} | settings, actor=self._client, ts=ts)
        tools = record.get("tools")
        if isinstance(tools, list):
            named = [{"name": tool} for tool in tools if isinstance(tool, str)]
            self._client_records.read_tools(named, self._main, ts)

    def _read_result(self, record: dict[str, Any], ts: str | None) -> None:
        """Read the end of a run: its final output if nobody said it yet, totals and denials."""
        self._finish_partial(None)
        annotate = self._draft.add_annotation
        for key in ("result", "structured_output"):
            output = record.get(key)
            if output and output != self._last_answer:
                annotate({"kind": "final_output", "output": output}, actor=self._client, ts=ts)
        denials = record.get("permission_denials")
        for denial in denials if isinstance(denials, list) else []:
            if isinstance(denial, dict):
                data = {"kind": "permission_denial"} | pick_fields(
                    denial, "tool_name", "tool_use_id", "tool_input"
                )
                annotate(data, actor=self._client, ts=ts)
        totals = {"kind": "session_totals"} | pick_fields(record, *_TOTAL_FIELDS)
        annotate(totals, actor=self._client, ts=ts)
        cost = {
            "totalCostUSD": record.get("total_cost_usd"),
            "modelUsage": record.get("modelUsage"),
        }
        self._client_records.read_cost(cost, self._main)

    def _describe_conversation(self) -> None:
        conversation = self._draft.conversation
        if self._session_id:
            conversation["id"] = self._session_id
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        conversation["source_runtime"] = "api"
        conversation["provider"] = "anthropic"


def _to_session_line(record: dict[str, Any]) -> Line:
    """Return a message as a line of a session file."""
    line: Line = to_line(
        {
            "type": record.get("type"),
            "uuid": record.get("uuid"),
            "message": record.get("message"),
            "isMeta": record.get("isSynthetic") is True or record.get("isMeta") is True,
            "isApiErrorMessage": record.get("isApiErrorMessage"),
            "error": record.get("error"),
        }
    )
    side_data = record.get("tool_use_result")
    if side_data is not None:
        line.tool_use_result = side_data
    return line


def _find_last_text(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [get_text(block, "text") for block in blocks]
    return next((text for text in reversed(texts) if text), None)


def read(source: Source, draft: Draft) -> None:
    """Read the stream into the draft."""
    StreamReader(source, draft).read()
