"""Read a chat of Grok CLI with the files in its folder.

`summary.json` describes the session; `updates.jsonl` has times and failures of tools and the usage
of turns, which the chat itself does not record.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import (
    as_text,
    get_dict,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_QUERY = re.compile(r"<user_query>\n?(.*?)\n?</user_query>", re.DOTALL)
# A `synthetic_reason` usually marks injected text; with these values a person wrote it.
_TYPED_REASONS = ("interjection", "human")
# Prefixes of injected user messages in older files, which have no `synthetic_reason`.
_INJECTED_PREFIXES = (
    "<user_info>",
    "<system-reminder>",
    "<git_status>",
    "<agent_skills>",
    "<mcp_servers>",
)
_CHAT_FILE = "chat_history.jsonl"
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_FINAL_STATUSES = ("completed", "failed")
Body = dict[str, Any]


@dataclass(slots=True)
class ToolRun:
    """One run of a tool: when it was called, when it ended, and how."""

    called: str | None = None
    ended: str | None = None
    status: str | None = None


@dataclass(slots=True)
class Updates:
    """What is read of the log of updates."""

    runs: dict[str, ToolRun] = field(default_factory=dict)
    """By the ids of the calls."""
    usages: dict[int, list[tuple[Usage, str | None]]] = field(default_factory=dict)
    """Usage and end of turns, subagents included, by the number of their prompt."""
    prompt: int = 0
    """The number of the last prompt."""


class SessionReader:
    """Reads one chat with the files in its folder."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._thread = Thread(draft, draft.get_actor("system", "Grok CLI"), _find_provider)
        self._summary = _read_summary(source, draft)
        updates = _read_updates(source, draft)
        self._runs = updates.runs
        self._usages = updates.usages
        self._model = as_text(self._summary.get("current_model_id"))
        self._settings: Body = {}
        self._searches: set[str] = set()
        self._pending: list[tuple[Body, str]] = []
        """Reasoning and searches that wait for their answer, which names the model."""

    def read(self) -> None:
        """Read the whole chat into the draft."""
        self._describe_conversation()
        for number, record in self._source.records():
            kind = record.get("type") if isinstance(record, dict) else None
            # Only an answer names its model, and what led to it is written before it.
            if kind in ("reasoning", "backend_tool_call"):
                self._pending.append((record, f"line {number}"))
                continue
            if kind == "assistant":
                self._model = as_text(record.get("model_id")) or self._model
            self._flush_pending()
            self._read_record(record, f"line {number}")
        self._flush_pending()
        self._add_turn_usages(None)

    def _add_turn_usages(self, prompt: int | None) -> None:
        """Add the usage of the turns before a prompt, or of all remaining ones."""
        for number in sorted(self._usages):
            if prompt is not None and number >= prompt:
                break
            for usage, ts in self._usages.pop(number):
                self._thread.add_annotation({"kind": "turn_usage"}, ts=ts, usage=usage)

    def _flush_pending(self) -> None:
        for record, position in self._pending:
            self._read_record(record, position)
        self._pending = []

    def _describe_conversation(self) -> None:
        summary = self._summary
        info = summary.get("info")
        if not isinstance(info, dict):
            info = {}
        conversation = self._draft.conversation
        session_id = as_text(info.get("id")) or self._find_folder_id()
        if session_id:
            conversation["id"] = session_id
        # A session that got no title of its own has a summary.
        title = as_text(summary.get("generated_title")) or as_text(summary.get("session_summary"))
        if title:
            conversation["title"] = title
        started = to_utc(summary.get("created_at"))
        if started:
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        conversation["provider"] = "other"
        facts = pick_fields(info, "cwd")
        facts |= pick_fields(
            summary, "head_branch", "parent_session_id", "session_kind", "git_root_dir"
        )
        if facts:
            self._thread.add_annotation({"kind": "context", **facts})

    def _find_folder_id(self) -> str | None:
        """Return the name of the chat's folder, if that is a session id."""
        parts = PurePath(self._source.name).parts
        if len(parts) < 2 or parts[-1] != _CHAT_FILE:
            return None
        return parts[-2] if _UUID.fullmatch(parts[-2]) else None

    def _read_record(self, record: Any, position: str) -> None:
        kind = record.get("type") if isinstance(record, dict) else None
        if kind in ("system", "user", "tool_result") and "content" not in record:
            self._thread.note_omission("no-content", position, f"type {kind} without content")
        if kind == "system":
            content = _build_content(record.get("content"))
            if content != "":
                self._thread.add_message("system", content, self._thread.client)
        elif kind == "user":
            self._read_user(record)
        elif kind == "assistant":
            self._read_assistant(record, position)
        elif kind == "reasoning":
            self._thread.set_model(self._model)
            self._read_reasoning(record, position)
        elif kind == "tool_result":
            self._read_result(record)
        elif kind == "backend_tool_call":
            self._thread.set_model(self._model)
            self._read_search(record.get("kind"), position)
        else:
            self._thread.note_omission("skipped-record", position, f"type {format_kind(kind)}")

    def _read_user(self, record: Body) -> None:
        """Read a user message; it was typed unless something says otherwise."""
        thread = self._thread
        prompt = record.get("prompt_index")
        if type(prompt) is int:
            self._add_turn_usages(prompt)
        interrupt = as_text(record.get("prior_turn_interrupt"))
        if interrupt:
            thread.add_annotation({"kind": "interrupted", "reason": interrupt})
        reason = as_text(record.get("synthetic_reason"))
        content = _build_content(record.get("content"))
        is_injected = reason is not None and reason not in _TYPED_REASONS
        # A typed prompt may begin with such a tag too, but then it is numbered.
        if isinstance(content, str) and "prompt_index" not in record:
            is_injected = is_injected or content.lstrip().startswith(_INJECTED_PREFIXES)
        if is_injected:
            event = thread.add_injected_message(content)
            if reason == "compaction_meta":
                thread.add_annotation({"kind": "compaction_summary"}, parent=event)
        elif isinstance(content, str):
            self._add_typed_text(content)
        elif content:
            blocks = [_unwrap_query(block) for block in content]
            thread.add_message("user", blocks, thread.get_user_actor())

    def _add_typed_text(self, text: str) -> None:
        """Add what was typed, and what Grok put around it."""
        before = ""
        typed = text
        after = ""
        match = _QUERY.search(text)
        if match:
            before = text[: match.start()]
            typed = match[1]
            after = text[match.end() :]
        if before.strip():
            self._thread.add_injected_message(before)
        if typed:
            self._thread.add_message("user", typed, self._thread.get_user_actor())
        if after.strip():
            self._thread.add_injected_message(after)

    def _read_assistant(self, record: Body, position: str) -> None:
        thread = self._thread
        thread.set_model(self._model)
        settings = pick_fields(record, "reasoning_effort")
        if settings and settings != self._settings:
            self._settings = settings
            thread.add_annotation({"kind": "context", **settings})
        self._read_embedded_items(record, position)
        content = _build_content(record.get("content"))
        if content != "":
            thread.add_message("assistant", content, thread.model_actor)
        calls = record.get("tool_calls")
        if not isinstance(calls, list):
            return
        for call in calls:
            if _is_call(call):
                self._read_call(call, position)
            else:
                thread.note_omission("unknown-part", position, "call with neither id nor name")

    def _read_embedded_items(self, record: Body, position: str) -> None:
        """Read reasoning and searches that older files have inside the answer."""
        inner_text = get_text(record.get("reasoning"), "text")
        plain_text = get_text(record, "reasoning_content")
        for text in (inner_text, plain_text):
            if text:
                self._thread.add_reasoning(text)
        items = record.get("raw_output")
        if not isinstance(items, list):
            return
        for item in items:
            kind = item.get("type") if isinstance(item, dict) else None
            if kind == "reasoning":
                self._read_reasoning(item, position)
            elif isinstance(kind, str) and kind.endswith("_call"):
                # A search may also have a record of its own before the answer.
                if as_text(item.get("id")) in self._searches:
                    continue
                tool_type = kind.removesuffix("_call")
                self._read_search({"tool_type": tool_type, **item}, position)
            elif kind != "message":
                # A message repeats the content of the answer; anything else is new.
                self._thread.note_omission("unknown-part", position, f"item {format_kind(kind)}")

    def _read_reasoning(self, record: Body, position: str) -> None:
        """Read reasoning: its text, else its summary; without both it is encrypted."""
        content = record.get("content")
        summary = record.get("summary")
        full_texts = _get_texts(content)
        texts = full_texts or _get_texts(summary)
        for text in texts:
            self._thread.add_reasoning(text, summary=not full_texts)
        if not texts:
            self._thread.add_reasoning(None)
        parts = content if full_texts else summary or content
        part_count = len(parts) if isinstance(parts, list) else 1
        if parts and len(texts) < part_count:
            self._thread.note_omission("empty-reasoning", position, "reasoning without words")

    def _read_call(self, call: Body, position: str) -> None:
        call_id = as_text(call.get("id"))
        function = call.get("function")
        if not isinstance(function, dict):
            function = call
        tool = as_text(function.get("name")) or "tool"
        given = parse_arguments(function.get("arguments"))
        run = self._runs.get(call_id or "", ToolRun())
        self._thread.add_tool_call(call_id, tool, given, ts=run.called, group=position)

    def _read_result(self, record: Body) -> None:
        call_id = as_text(record.get("tool_call_id"))
        output = _build_content(record.get("content"))
        # Images of a result are in a field of their own, beside its text.
        images = record.get("images")
        if isinstance(images, list) and images:
            blocks: list[Any] = output if isinstance(output, list) else []
            if isinstance(output, str) and output:
                blocks = [{"type": "text", "text": output}]
            output = blocks + [_build_block(image) for image in images]
        run = self._runs.get(call_id or "", ToolRun())
        facts = {"is_error": True} if run.status == "failed" else None
        self._thread.add_tool_result(call_id, output, ts=run.ended, facts=facts)

    def _read_search(self, call: Any, position: str) -> None:
        """Read a tool that ran at the provider, with its results if they are recorded."""
        if not isinstance(call, dict):
            self._thread.note_omission("skipped-record", position, "type backend_tool_call")
            return
        call_id = as_text(call.get("id"))
        self._searches.add(call_id or "")
        action = call.get("action")
        given = dict(action) if isinstance(action, dict) else {}
        for name in call:
            if name in ("input", "code", "arguments", "query"):
                given[name] = call[name]
        # The action of a search holds its query and its sources.
        results = {name: given.pop(name) for name in ("sources", "results") if name in given}
        results |= pick_fields(call, "output", "outputs", "results", "sources")
        extra = {"native_type": "backend_tool_call"}
        status = as_text(call.get("status"))
        if status and status != "completed":
            extra["status"] = status
        tool = as_text(call.get("tool_type")) or "backend_tool"
        key = self._thread.add_tool_call(call_id, tool, given, group=position, extra=extra)
        if results:
            self._thread.add_tool_result(key, results)


def _read_summary(source: Source, draft: Draft) -> Body:
    """Read `summary.json`; empty if there is none."""
    file = source.open_sibling("summary.json")
    if file is None:
        return {}
    try:
        summary = file.document
    except InputError:
        draft.note_omission("broken-file", "summary.json", "not valid JSON")
        return {}
    return summary if isinstance(summary, dict) else {}


def _read_updates(source: Source, draft: Draft) -> Updates:
    """Read `updates.jsonl`, if there is one."""
    updates = Updates()
    file = source.open_sibling("updates.jsonl")
    if file is None:
        return updates
    try:
        for number, record in file.records():
            if not _read_update(updates, record):
                draft.note_omission(
                    "unknown-record", f"updates.jsonl line {number}", "line is not an update"
                )
    except InputError:
        draft.note_omission("broken-file", "updates.jsonl", "a line is not valid JSON")
    note_file_faults(file, "updates.jsonl", draft)
    return updates


def _read_update(updates: Updates, record: Any) -> bool:
    """Read an update about a tool or a turn; return whether it is an update at all."""
    params = record.get("params") if isinstance(record, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(update, dict):
        return False
    kind = update.get("sessionUpdate")
    # The agent's own clock is in milliseconds; the line has the time of writing, in seconds.
    agent_time = get_dict(params, "_meta").get("agentTimestampMs")
    ts = from_epoch(agent_time, 0.001) or from_epoch(record.get("timestamp"))
    call_id = as_text(update.get("toolCallId"))
    if call_id:
        run = updates.runs.setdefault(call_id, ToolRun())
        if kind == "tool_call":
            run.called = run.called or ts
        status = as_text(update.get("status"))
        if status in _FINAL_STATUSES:
            run.ended = ts
            run.status = status
    elif kind == "user_message_chunk":
        # The usage of a turn names no prompt: it belongs to the last one before it.
        index = get_dict(update, "_meta").get("promptIndex")
        if type(index) is int:
            updates.prompt = index
    elif kind == "turn_completed":
        usage = _parse_usage(update.get("usage"))
        if usage:
            updates.usages.setdefault(updates.prompt, []).append((usage, ts))
    return True


def _parse_usage(usage: Any) -> Usage | None:
    """Return the usage of a turn, which 1.0.41 records; its input includes cached tokens."""
    if not isinstance(usage, dict):
        usage = {}
    return build_usage(
        input_tokens=usage.get("inputTokens"),
        output_tokens=usage.get("outputTokens"),
        reasoning_tokens=usage.get("reasoningTokens"),
        cache_read_tokens=usage.get("cachedReadTokens"),
        cache_write_tokens=usage.get("cacheCreationTokens"),
    )


def _is_call(call: Any) -> bool:
    return isinstance(call, dict) and bool(
        call.get("id") or call.get("function") or call.get("name")
    )


def _get_texts(value: Any) -> list[str]:
    """Return the texts of reasoning: one text, or a list of texts or of objects with a text."""
    texts: list[str] = []
    for part in value if isinstance(value, list) else [value]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str) and text:
            texts.append(text)
    return texts


def _build_content(value: Any) -> str | list[Any]:
    """Return a single text as it is, anything else as a list of blocks."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    parts = value if isinstance(value, list) else [value]
    blocks = [_build_block(part) for part in parts]
    if len(blocks) == 1 and isinstance(blocks[0], dict) and blocks[0].keys() == {"type", "text"}:
        return str(blocks[0]["text"])
    return blocks or ""


def _build_block(part: Any) -> Any:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if isinstance(part, dict) and part.get("type") == "image" and isinstance(part.get("url"), str):
        return build_media_url_block(part["url"], "image")
    return part


def _unwrap_query(block: Any) -> Any:
    """Return a text block without the tags around it, if they enclose all of it."""
    text = get_text(block, "text")
    if text is None:
        return block
    match = _QUERY.fullmatch(text.strip())
    if match is None:
        return block
    return {**block, "text": match[1]}


def _find_provider(model: str) -> str | None:
    return "other" if "grok" in model else None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
