"""Read sessions of Factory Droid, and the stream that `droid exec` prints."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, cast

from open_token.agents.claude_code.user_text import split_user_text
from open_token.agents.factory_droid.detect import DEFAULT_TITLE
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import (
    add_answer,
    add_result_block,
    get_block_type,
    get_plain_text,
    parse_content,
    parse_usage,
)
from open_token.formats.shared.fields import (
    as_text,
    drop_nulls,
    get_dict,
    get_first,
    get_text,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage, subtract_usage
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

Record = dict[str, Any]
Handler = Callable[[Record, str | None, int], None]
# Versions differ in what they call the usual end of a turn; only an unusual one is worth an event.
_USUAL_OUTCOMES = ("completed", "complete", "success", "done", "stop", "end_turn")
_REASONING_TYPES = ("reasoning", "thought")
_SETTINGS = ("reasoningEffort", "autonomyMode", "autonomyLevel", "interactionMode")
_TASK_HEADING = "# Task Tool Invocation"
"""What Droid writes above the task that a model gives to a subagent."""
_LAUNCHED = re.compile(r"Task launched in background\.\ntask_id: [\w-]+\nsession_id: ")
_MESSAGE_FACTS = ("visibility", "compactionSummaryId")


class SessionReader:
    """Reads one session file, or one stream."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Factory Droid")
        self._providers = ProviderTracker()
        self._thread = Thread(draft, self._client, self._find_provider)
        self._is_context_known = False
        self._is_subagent = False
        self._last_answer = ""
        self._counted: Counter[str] = Counter()
        """The last text of the model in a stream, which its end repeats."""
        self._handlers: dict[str, Handler] = {
            # Records of a session file. "message" is in both: a stream has no inner message.
            "session_start": self._read_start,
            "message": self._read_message,
            "todo_state": self._read_todos,
            "compaction_state": self._read_compaction,
            "agent_turn_outcome": self._read_outcome,
            # Records of the stream that `droid exec --output-format stream-json` prints.
            "system": self._read_init,
            "reasoning": self._read_stream_reasoning,
            "tool_call": self._read_stream_call,
            "tool_result": self._read_stream_result,
            "completion": self._read_completion,
            "error": self._read_error,
        }

    def _find_provider(self, model: str) -> str | None:
        return self._providers.add_model(None, model or None)

    def _get_model(self) -> str:
        """Return the actor of the current model, also if no record has named it."""
        return self._thread.model_actor or self._thread.set_model(None)

    def read(self) -> None:
        """Read everything into the draft."""
        draft = self._draft
        settings = self._read_settings_file()
        # Messages need not name their model: the settings are read before the first answer.
        if as_text(settings.get("model")):
            self._thread.set_model(settings["model"])
        system_prompt = get_text(settings, "systemPrompt")
        if system_prompt:
            draft.add_message("system", system_prompt, self._client)
        for number, record in self._source.records():
            if type(record) is not dict:
                draft.note_omission("skipped-record", f"line {number}", "line is not a JSON object")
                continue
            kind = record.get("type")
            handler = self._handlers.get(kind) if isinstance(kind, str) else None
            if handler is None:
                draft.note_omission(
                    "unknown-record", f"line {number}", f"record {format_kind(kind)}"
                )
            else:
                # A session file has ISO times, a stream milliseconds since 1970.
                time = record.get("timestamp")
                ts = to_utc(time) or from_epoch(time, 0.001)
                handler(record, ts, number)
        self._add_settings(settings)
        if draft.first_ts:
            draft.conversation.setdefault("started_at", draft.first_ts)
        draft.conversation["source_runtime"] = "cli"
        self._providers.set_provider(draft.conversation)

    def _read_settings_file(self) -> Record:
        """Return what the file next to a session says about all of it: model, mode, counts."""
        stem = PurePath(self._source.name).name.removesuffix(".jsonl")
        file = self._source.open_sibling(f"{stem}.settings.json")
        if file is None:
            return {}
        try:
            settings = file.document
        except InputError:
            self._draft.note_omission("broken-file", "settings.json", "settings that are not JSON")
            return {}
        note_file_faults(file, "settings.json", self._draft)
        return settings if isinstance(settings, dict) else {}

    def _count(self, usage: Usage | None) -> Usage | None:
        """Remember the token counts of a message, which those of the session hold again."""
        self._counted.update(cast("dict[str, int]", usage or {}))
        return usage

    def _add_settings(self, settings: Record) -> None:
        facts = pick_fields(settings, "model", *_SETTINGS)
        if facts:
            self._thread.add_annotation({"kind": "settings", **facts})
        counts = get_dict(settings, "tokenUsage")
        usage = subtract_usage(_parse_session_usage(counts), self._counted)
        if usage:
            self._thread.add_annotation({"kind": "usage", "scope": "session"}, usage=usage)

    def _read_start(self, record: Record, ts: str | None, number: int) -> None:
        # Some versions put the facts of the session into an object of their own.
        details = get_dict(record, "session") or record
        conversation = self._draft.conversation
        session_id = get_text(details, "id")
        title = get_text(record, "sessionTitle") or get_text(details, "title")
        started = ts or to_utc(get_first(details, "created_at"))
        if session_id and "id" not in conversation:
            conversation["id"] = session_id
        # Until the model finds a title, Droid writes a default one, which says nothing.
        if title and title != DEFAULT_TITLE and "title" not in conversation:
            conversation["title"] = title
        if started:
            conversation.setdefault("started_at", started)
        parent_session = get_first(details, "callingSessionId", "parentSessionId")
        self._is_subagent = parent_session is not None
        facts = {
            "session_id": session_id,
            "cwd": get_text(details, "cwd") or get_text(details, "workspace_root"),
            "owner": get_text(details, "owner"),
            "format_version": details.get("version"),
            "parent_session": parent_session,
        }
        self._thread.add_annotation({"kind": "context", **drop_nulls(facts)}, ts=started)

    def _read_message(self, record: Record, ts: str | None, number: int) -> None:
        message = get_dict(record, "message")
        if not message:
            self._read_stream_message(record, ts, number)
            return
        # A hook that ran is written as a message of the user, usually without content.
        if message.get("hookEventName"):
            hook = {name: value for name, value in message.items() if name.startswith("hook")}
            self._thread.add_annotation({"kind": "notice", **hook}, ts=ts)
        role = message.get("role")
        blocks = _list_blocks(message.get("content"))
        if not blocks:
            if not message.get("hookEventName"):
                self._draft.note_omission("empty-message", f"line {number}", "message without text")
            return
        if role == "assistant":
            model = get_first(message, "model", "modelId") or record.get("model")
            if model:
                self._thread.set_model(model)
            actor = self._get_model()
            usage = self._count(parse_usage(message.get("usage")))
            add_answer(self._draft, blocks, actor, ts=ts, usage=usage, group=number)
        elif role == "system":
            self._draft.add_message("system", parse_content(blocks), self._client, ts=ts)
        elif role == "user":
            is_injected = message.get("visibility") == "llm_only" or _is_completion(record)
            self._read_user(blocks, ts, number, is_injected=is_injected)
        else:
            self._draft.note_omission("unknown-role", f"line {number}", f"role {format_kind(role)}")
            return
        facts = pick_fields(message, *_MESSAGE_FACTS)
        if facts:
            self._thread.add_annotation({"kind": "message_facts", **facts}, ts=ts)

    def _read_user(
        self, blocks: list[Any], ts: str | None, number: int, *, is_injected: bool
    ) -> None:
        """Read results, what was typed, and what the client put before and after it."""
        typed: list[Any] = []
        for block in blocks:
            # Results are sent as messages of the user, as the Anthropic API wants them.
            if get_block_type(block) == "tool_result":
                self._add_typed(typed, ts)
                typed = []
                add_result_block(self._draft, block, ts=ts, span=None)
                self._note_subagent(block, number)
                continue
            text = block if isinstance(block, str) else get_plain_text(block)
            if text is None:
                typed.append(block)
                continue
            if is_injected or (self._is_subagent and text.startswith(_TASK_HEADING)):
                self._add_typed(typed, ts)
                typed = []
                self._thread.add_injected_message(text, ts=ts)
                continue
            # Droid puts <system-reminder> blocks and notices around what was typed, in the same
            # words as Claude Code.
            for part in split_user_text(text):
                if part.origin in ("typed", "command"):
                    typed.append({"type": "text", "text": part.text})
                    continue
                self._add_typed(typed, ts)
                typed = []
                event = self._thread.add_injected_message(part.text, ts=ts)
                self._annotate_origin(part.origin, event, ts)
        self._add_typed(typed, ts)

    def _note_subagent(self, block: Record, number: int) -> None:
        """Note a subagent that runs in the background: its session is a file of its own."""
        output = block.get("content")
        if isinstance(output, str) and _LAUNCHED.match(output):
            self._draft.note_omission(
                "subagent", f"line {number}", "a subagent, whose session is in a file of its own"
            )

    def _add_typed(self, blocks: list[Any], ts: str | None) -> None:
        if blocks:
            actor = self._thread.get_user_actor()
            self._thread.add_message("user", parse_content(blocks), actor, ts=ts)

    def _annotate_origin(self, origin: str, event: Event, ts: str | None) -> None:
        if origin == "summary":
            self._thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)
        elif origin == "interrupted":
            self._thread.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)

    def _read_todos(self, record: Record, ts: str | None, number: int) -> None:
        self._thread.add_annotation({"kind": "plan_status", "todos": record.get("todos")}, ts=ts)

    def _read_compaction(self, record: Record, ts: str | None, number: int) -> None:
        summary = get_dict(record, "summary")
        body = get_text(record, "summaryText") or get_text(summary, "body")
        event = None
        if body:
            event = self._thread.add_injected_message(body, ts=ts)
        facts = {
            "title": get_text(summary, "title"),
            "trigger": get_text(record, "summaryKind"),
            "removed_count": record.get("removedCount"),
        }
        data = {"kind": "compaction", **drop_nulls(facts)}
        self._thread.add_annotation(data, parent=event, ts=ts)

    def _read_outcome(self, record: Record, ts: str | None, number: int) -> None:
        reason = record.get("reason")
        if reason in _USUAL_OUTCOMES:
            self._draft.note_omission("bookkeeping", f"line {number}", "usual end of a turn")
            return
        facts = pick_fields(record, "reason", "error", "message")
        self._thread.add_annotation({"kind": "stop", **facts}, ts=ts)

    def _read_init(self, record: Record, ts: str | None, number: int) -> None:
        """Read the first record of a stream."""
        session_id = get_text(record, "session_id") or get_text(record, "sessionId")
        if session_id:
            self._draft.conversation.setdefault("id", session_id)
        self._thread.set_model(record.get("model"))
        facts = {
            "session_id": session_id,
            **pick_fields(record, "cwd", "model", "reasoning_effort", "tools"),
        }
        # A later record of this type brings a text, and repeats facts that are known.
        if not self._is_context_known or record.get("subtype") == "init":
            self._is_context_known = True
            self._thread.add_annotation({"kind": "context", **drop_nulls(facts)}, ts=ts)
        text = get_text(record, "text")
        if text:
            self._draft.add_message("system", text, self._client, ts=ts)

    def _read_stream_message(self, record: Record, ts: str | None, number: int) -> None:
        role = record.get("role")
        content = get_first(record, "text", "content")
        if content in (None, "", []):
            self._draft.note_omission("empty-message", f"line {number}", "message without text")
        elif role == "user":
            blocks = content if isinstance(content, list) else [content]
            self._read_user(blocks, ts, number, is_injected=_is_completion(record))
        elif role == "assistant":
            self._last_answer = content if isinstance(content, str) else ""
            self._thread.add_message("assistant", parse_content(content), self._get_model(), ts=ts)
        elif role == "system":
            self._draft.add_message("system", parse_content(content), self._client, ts=ts)
        else:
            self._draft.note_omission("unknown-role", f"line {number}", f"role {format_kind(role)}")

    def _read_stream_reasoning(self, record: Record, ts: str | None, number: int) -> None:
        text = get_first(record, "text", "content", "thinking")
        self._get_model()
        self._thread.add_reasoning(as_text(text), ts=ts)

    def _read_stream_call(self, record: Record, ts: str | None, number: int) -> None:
        # `parameters` is the name of today; older streams have one of the others.
        arguments = get_first(record, "parameters", "input", "arguments")
        self._get_model()
        self._thread.add_tool_call(
            _get_call_id(record),
            get_text(record, "toolName") or get_text(record, "toolId") or "tool",
            {} if arguments is None else arguments,
            ts=ts,
            group=record.get("messageId") or number,
        )

    def _read_stream_result(self, record: Record, ts: str | None, number: int) -> None:
        # `value` is the name of today; older streams have one of the others.
        output = get_first(record, "value", "output", "content", "error")
        is_error = record.get("isError") is True or record.get("is_error") is True
        self._thread.add_tool_result(
            _get_call_id(record),
            "" if output is None else output,
            ts=ts,
            facts={"is_error": True} if is_error else None,
            tool=get_text(record, "toolName") or get_text(record, "toolId"),
        )

    def _read_completion(self, record: Record, ts: str | None, number: int) -> None:
        """Read the end of a run: the last answer once more, counts and duration."""
        text = get_text(record, "finalText")
        usage = subtract_usage(parse_usage(record.get("usage")), self._counted)
        # The end repeats the last answer, but for spaces: only another text is a message.
        if text and text.strip() != self._last_answer.strip():
            self._thread.add_message("assistant", text, self._get_model(), ts=ts)
        elif text:
            self._draft.note_omission(
                "repeated-text", f"line {number}", "the last answer, repeated at the end"
            )
        facts = pick_fields(record, "durationMs", "numTurns")
        if facts or usage:
            self._thread.add_annotation({"kind": "session_totals", **facts}, ts=ts, usage=usage)

    def _read_error(self, record: Record, ts: str | None, number: int) -> None:
        facts = pick_fields(record, "source", "message", "error", "code")
        self._thread.add_annotation({"kind": "api_error", **facts}, ts=ts)


def _list_blocks(content: Any) -> list[Any]:
    """Return the blocks of a message; its content is a list, or one text in older versions."""
    blocks = content if isinstance(content, list) else [content]
    return [_rename_reasoning(block) for block in blocks if block not in (None, "")]


def _is_completion(record: Record) -> bool:
    """Return whether a message of the user is Droid's report on a task in the background."""
    return (get_text(record, "id") or "").startswith("task-completion:")


def _rename_reasoning(block: Any) -> Any:
    """Return a block of reasoning under the usual name for it."""
    if get_block_type(block) in _REASONING_TYPES:
        return {"type": "thinking", "thinking": get_first(block, "thinking", "text", "content")}
    return block


def _get_call_id(record: Record) -> str | None:
    return get_text(record, "toolCallId") or get_text(record, "id")


def _parse_session_usage(counts: Record) -> Usage | None:
    """Return the counts of a whole session; Droid counts cached input apart."""
    if not counts:
        return None
    fresh = _to_count(counts.get("inputTokens"))
    read = _to_count(counts.get("cacheReadTokens"))
    written = _to_count(counts.get("cacheCreationTokens"))
    return build_usage(
        input_tokens=fresh + read + written,
        output_tokens=counts.get("outputTokens"),
        reasoning_tokens=counts.get("thinkingTokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _to_count(value: Any) -> int:
    return value if type(value) is int else 0


def read(source: Source, draft: Draft) -> None:
    """Read the session or the stream into the draft."""
    SessionReader(source, draft).read()
