"""Tool calls of the Agent Client Protocol, which are reported piece by piece."""

import json
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    drop_nulls,
    get_dict,
    get_dicts,
    get_text,
    pick_fields,
)
from open_token.jsontools.media import build_media_block

_FINAL_STATES = ("completed", "failed")


class _Call:
    """What is known about a call so far."""

    def __init__(self, ts: str | None) -> None:
        self.facts: JsonObject = {}
        self.ts = ts
        self.last_ts = ts
        self.description = ""
        """What it showed before its result, in place of arguments."""
        self.is_added = False
        self.has_result = False


class ToolCalls:
    """Adds calls as soon as they are known well enough, and results when they end.

    An agent may report a call before it knows its arguments: such a call waits until the arguments
    come, it ends, or something else happens.
    """

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._calls: dict[str, _Call] = {}
        self._waiting: dict[str, _Call] = {}
        """Calls that were reported without their arguments, in order."""
        self._terminals: dict[str, JsonObject] = {}
        self.last_event: str | None = None
        """The id of the last call."""

    def update(self, update: JsonObject, actor: str, ts: str | None) -> None:
        """Take a report on a call: what it says replaces what was known."""
        call_id = get_text(update, "toolCallId") or f"call without an id {len(self._calls)}"
        call = self._calls.setdefault(call_id, _Call(ts))
        if call.has_result:
            return
        shown = call.facts.get("content")
        call.facts |= drop_nulls(update)
        call.last_ts = ts
        self._keep_replaced(call, shown, call.facts.get("content"))
        is_final = call.facts.get("status") in _FINAL_STATES
        if is_final or call.facts.get("rawInput"):
            self._add(call_id, call, actor)
        elif not call.is_added:
            self._waiting[call_id] = call
        if is_final:
            self._add_result(call_id, call)

    def _keep_replaced(self, call: _Call, before: Any, after: Any) -> None:
        """Keep what a call showed and shows no longer: Gemini CLI describes it until it ends."""
        if not before or before == after:
            return
        later = json.dumps(after, ensure_ascii=False)
        for item in before if isinstance(before, list) else [before]:
            text = get_text(get_dict(item, "content"), "text")
            shown = json.dumps(text or item, ensure_ascii=False)
            if shown.strip('"') in later:
                continue
            if text and not call.is_added:
                call.description += text
                continue
            self._draft.note_omission(
                "replaced-content",
                f"event {self._draft.count}",
                "what a call showed before its result",
                what="result",
                size=len(text or ""),
            )

    def emit_pending(self, actor: str) -> None:
        """Add the calls that waited for their arguments."""
        while self._waiting:
            call_id, call = next(iter(self._waiting.items()))
            self._add(call_id, call, actor)

    def set_terminal_output(self, terminal_id: str, output: JsonObject) -> None:
        """Remember what a terminal showed, for the result of the call that it belongs to."""
        self._terminals[terminal_id] = output

    def finish(self, actor: str) -> None:
        """Add what is known of calls that never ended."""
        for call_id, call in self._calls.items():
            self._add(call_id, call, actor)
            has_output = call.facts.get("content") or call.facts.get("rawOutput") is not None
            if has_output and not call.has_result:
                self._add_result(call_id, call)

    def _add(self, call_id: str, call: _Call, actor: str) -> None:
        if call.is_added:
            return
        call.is_added = True
        self._waiting.pop(call_id, None)
        facts = call.facts
        # Qwen Code and the adapter of Claude Code name the tool; otherwise its kind is known.
        meta = get_dict(facts, "_meta")
        tool = get_text(get_dict(meta, "claudeCode"), "toolName") or get_text(meta, "toolName")
        arguments = facts.get("rawInput")
        extra = pick_fields(facts, "title", "kind", "locations")
        if call.description:
            extra["description"] = call.description
        self._draft.add_tool_call(
            call_id,
            tool or get_text(facts, "kind") or "tool",
            {} if arguments is None else arguments,
            actor,
            ts=call.ts,
            extra=extra or None,
        )
        self.last_event = f"evt_{self._draft.count:06d}"

    def _add_result(self, call_id: str, call: _Call) -> None:
        call.has_result = True
        blocks = [self._parse_content(item) for item in get_dicts(call.facts, "content")]
        raw_output = call.facts.get("rawOutput")
        output: Any = blocks
        if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
            output = blocks[0]["text"]
        facts: JsonObject = {}
        status = call.facts.get("status")
        if status == "failed":
            facts["is_error"] = True
        elif status != "completed":
            facts["status"] = status
        if not blocks:
            output = raw_output
        elif raw_output is not None and raw_output != output:
            facts["raw_output"] = raw_output
        self._draft.add_tool_result(
            call_id, "" if output is None else output, ts=call.last_ts, facts=facts or None
        )

    def _parse_content(self, item: JsonObject) -> JsonObject:
        """Return what a call shows: content, a diff, or the output of a terminal."""
        kind = item.get("type")
        if kind == "content":
            return parse_block(item.get("content"))
        terminal = self._terminals.get(get_text(item, "terminalId") or "")
        if kind == "terminal" and terminal:
            return {**item, **pick_fields(terminal, "output", "truncated", "exitStatus")}
        return dict(item)


def parse_block(block: Any) -> JsonObject:
    """Return a content block as the document has it; images and sounds with their size and hash."""
    if not isinstance(block, dict):
        return {"type": "text", "text": "" if block is None else str(block)}
    kind = block.get("type")
    data = get_text(block, "data")
    if kind in ("image", "audio") and data:
        return build_media_block(get_text(block, "mimeType"), data, str(kind))
    if kind == "text":
        return {"type": "text", "text": get_text(block, "text") or ""}
    return dict(block)
