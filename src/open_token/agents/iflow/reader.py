"""Read an iFlow CLI session: snapshots of streamed answers once, results without their wrapper."""

from typing import Any

import msgspec

from open_token.agents.claude_code.user_text import split_user_text
from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import (
    THINKING_TYPES,
    get_block_type,
    get_plain_text,
    parse_content,
    parse_usage,
)
from open_token.formats.shared.anthropic_blocks import parse_output as blocks_of
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_response,
    list_content_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.record_context import RecordContext
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

Body = dict[str, Any]


class SessionReader:
    """Reads one session file."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._thread = Thread(draft, draft.get_actor("system", "iFlow CLI"), _find_provider)
        self._context = RecordContext()
        self._calls: dict[str, int] = {}
        """The hash of the arguments of each call, by its id."""
        self._answer_parent: Any = None
        """The record that the snapshots of the current answer follow."""
        self._answer_texts: set[str] = set()
        """The texts of the current answer."""
        self._last_usage: Usage | None = None

    def read(self) -> None:
        """Read the whole session into the draft."""
        for number, record in self._source.records():
            if isinstance(record, dict):
                self._read_record(record, f"line {number}")
            else:
                self._draft.note_omission(
                    "skipped-record", f"line {number}", "line is not a JSON object"
                )
        conversation = self._draft.conversation
        session_id = self._context.facts.get("session_id")
        if session_id:
            conversation["id"] = session_id
        if self._draft.first_ts:
            conversation["started_at"] = self._draft.first_ts
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"

    def _read_record(self, record: Body, position: str) -> None:
        kind = record.get("type")
        message = record.get("message")
        if kind not in ("user", "assistant") or not isinstance(message, dict):
            self._draft.note_omission("skipped-record", position, f"type {format_kind(kind)}")
            return
        ts = to_utc(record.get("timestamp"))
        self._update_context(record, ts)
        content = message.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if content is None:
            blocks = []
            self._draft.note_omission(
                "no-content", position, f"type {format_kind(kind)} without content"
            )
        if kind == "user":
            self._answer_parent = None
            self._answer_texts = set()
            self._read_user(record, blocks, ts)
        else:
            self._read_snapshot(record, message, blocks, ts, position)

    def _update_context(self, record: Body, ts: str | None) -> None:
        """Annotate where the session runs, when that is first seen and when it changes."""
        facts = self._context.update(record)
        if facts:
            self._thread.add_annotation({"kind": "context", **facts}, ts=ts)

    def _read_snapshot(
        self, record: Body, message: Body, blocks: list[Any], ts: str | None, position: str
    ) -> None:
        """Read a snapshot of an answer; snapshots with the same parent repeat parts of it."""
        thread = self._thread
        thread.set_model(message.get("model"))
        parent = record.get("parentUuid")
        if self._answer_parent != parent:
            self._answer_parent = parent
            self._answer_texts = set()
            self._last_usage = None
        counted = _parse_usage(message.get("usage"))
        # Snapshots of one answer repeat its usage.
        usage = None if counted == self._last_usage else counted
        self._last_usage = counted
        reasoning = None
        for block in blocks:
            if get_block_type(block) in THINKING_TYPES:
                event = thread.add_reasoning(as_text(block.get("thinking")), ts=ts)
                reasoning = reasoning or event
                continue
            start = self._draft.count
            self._read_block(block, ts, usage, str(message.get("id")), position)
            if self._draft.count > start:
                usage = None
        if usage and reasoning is not None:
            self._draft.set_usage(reasoning, usage)
        elif usage:
            thread.add_annotation({"kind": "usage"}, ts=ts, usage=usage)

    def _read_block(
        self, block: Any, ts: str | None, usage: Usage | None, group: str, position: str
    ) -> None:
        thread = self._thread
        if get_block_type(block) == "tool_use":
            self._read_call(block, ts, usage, group, position)
            return
        text = block if isinstance(block, str) else get_plain_text(block)
        if text is not None and text in self._answer_texts:
            self._draft.note_omission(
                "repeated-text", position, "text of an earlier snapshot of the same answer"
            )
        elif text != "":
            self._answer_texts.add(text or "")
            thread.add_message(
                "assistant", parse_content([block]), thread.model_actor, ts=ts, usage=usage
            )

    def _read_call(
        self, block: Body, ts: str | None, usage: Usage | None, group: str, position: str
    ) -> None:
        """Read a call when its id is first seen."""
        call_id = as_text(block.get("id"))
        arguments = block.get("input")
        arguments_hash = _hash_json(arguments)
        # Each snapshot repeats the calls before it.
        if call_id and call_id in self._calls:
            if self._calls[call_id] != arguments_hash:
                self._draft.note_omission(
                    "changed-call", position, "other arguments in a later snapshot of a call"
                )
            return
        if call_id:
            self._calls[call_id] = arguments_hash
        tool = as_text(block.get("name")) or "tool"
        if arguments is None:
            arguments = {}
        self._thread.add_tool_call(call_id, tool, arguments, ts=ts, usage=usage, group=group)

    def _read_user(self, record: Body, blocks: list[Any], ts: str | None) -> None:
        pending: list[Any] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._add_user_content(pending, record, ts)
                pending = []
                self._read_result(block, record.get("toolUseResult"), ts)
            else:
                pending.append(block)
        self._add_user_content(pending, record, ts)

    def _add_user_content(self, blocks: list[Any], record: Body, ts: str | None) -> None:
        """Add a user message; what was typed is separated from what was injected."""
        if not blocks:
            return
        thread = self._thread
        content = parse_content(blocks)
        if record.get("isCompactSummary") is True:
            event = thread.add_injected_message(content, ts=ts)
            thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)
            return
        if record.get("isMeta") is True:
            thread.add_injected_message(content, ts=ts)
            return
        if not isinstance(content, str):
            thread.add_message("user", content, thread.get_user_actor(), ts=ts)
            return
        for origin, text in split_user_text(content):
            if origin == "typed":
                thread.add_message("user", text, thread.get_user_actor(), ts=ts)
                continue
            event = thread.add_injected_message(text, ts=ts)
            if origin == "summary":
                thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)
            elif origin == "interrupted":
                thread.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)

    def _read_result(self, block: Body, result_data: Any, ts: str | None) -> None:
        """Read a result: a Gemini response, with or without a wrapper, or Anthropic blocks."""
        content = block.get("content")
        wrapper = content if isinstance(content, dict) else {}
        parts = list_content_parts(wrapper.get("responseParts"))
        if not parts and get_function_response(wrapper):
            parts = [wrapper]
        has_failed = block.get("is_error") is True
        tool = None
        if parts:
            responses = [get_function_response(part) for part in parts]
            response: Body = next(filter(None, responses), {})
            others = [part for part in parts if get_function_response(part) is None]
            output, is_error = unwrap_output(response, others)
            has_failed = has_failed or is_error
            tool = as_text(response.get("name"))
        else:
            output = blocks_of(content)
        call_id = as_text(block.get("tool_use_id")) or as_text(wrapper.get("callId"))
        status = result_data.get("status") if isinstance(result_data, dict) else None
        self._thread.add_tool_result(
            call_id, output, ts=ts, facts=build_result_facts(status, has_failed), tool=tool
        )


def _hash_json(value: Any) -> int:
    try:
        return hash(msgspec.json.encode(value))
    except RecursionError:
        return 0


def _parse_usage(usage: Any) -> Usage | None:
    """Return token counts; iFlow writes zeros where it has none."""
    counted = parse_usage(usage)
    if counted and (counted.get("input_tokens") or counted.get("output_tokens")):
        return counted
    return None


def _find_provider(model: str) -> str | None:
    """Return `other`: iFlow serves models of many providers, none of which the spec names."""
    return "other" if model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
