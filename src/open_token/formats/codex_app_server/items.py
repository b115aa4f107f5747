"""The items of one thread of the Codex app server, from their start to their end."""

from collections import deque
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
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.media import build_media_url_block
from open_token.model.document import Event

_ANNOTATED_ITEMS = {
    "plan": ("plan", ("text",)),
    "hookPrompt": ("hook_prompt", ("fragments",)),
    "enteredReviewMode": ("entered_review_mode", ("review",)),
    "exitedReviewMode": ("exited_review_mode", ("review",)),
    "contextCompaction": ("compaction", ()),
    "sleep": ("sleep", ("durationMs",)),
    "subAgentActivity": ("agent_activity", ("agentThreadId", "agentPath")),
}
# The arguments of the call that an item stands for, and where its output is.
_CALL_ITEMS = {
    "commandExecution": ("shell", ("command", "cwd")),
    "fileChange": ("apply_patch", ("changes",)),
    "webSearch": ("web_search", ("query", "action")),
    "imageView": ("view_image", ("path",)),
    "imageGeneration": ("image_generation", ("revisedPrompt",)),
    "collabAgentToolCall": ("collab", ("prompt", "receiverThreadIds", "model")),
}
_GENERIC_CALLS = ("mcpToolCall", "dynamicToolCall")


class ThreadItems:
    """Adds the items of a thread to the draft, each once: complete, or as far as it came."""

    def __init__(self, draft: Draft, name: str = "assistant", *, is_subagent: bool = False) -> None:
        self._draft = draft
        self._name = name
        self.is_subagent = is_subagent
        self.span: str | None = None
        """The span of a subagent."""
        self.is_described = False
        self._model: str | None = None
        self._done: set[str] = set()
        """The ids of complete items: a resumed thread sends them again."""
        self._prompt: tuple[list[JsonObject], str | None] | None = None
        self._deltas: dict[str, dict[str, tuple[list[str], str | None]]] = {}
        """The text of unfinished items and its time, by item and method."""
        self._last_output: str | None = None
        """The id of the last event of the model, which the next counts belong to."""
        self.spawns: deque[str] = deque()
        """The calls that started subagents of which nothing has come yet."""
        self._total: Any = None
        """The counts so far, to recognize a report that is repeated."""

    def set_model(self, model: str | None) -> None:
        """Switch to another model."""
        self._model = model or self._model

    @property
    def count(self) -> int:
        """How many events its draft has."""
        return self._draft.count

    @property
    def actor(self) -> str:
        """The model of the thread."""
        return self._draft.get_actor("model", self._name, provider="openai", model=self._model)

    def annotate(self, kind: str, ts: str | None, **data: Any) -> None:
        """Add an annotation with those of the data that are not None."""
        body = {"kind": kind, **drop_nulls(data)}
        self._draft.add_annotation(body, ts=ts, span=self.span)

    def hold_prompt(self, blocks: list[JsonObject], ts: str | None) -> None:
        """Hold the prompt of a request until it is known whether an item repeats it."""
        self._flush_prompt()
        self._prompt = (blocks, ts)

    def _flush_prompt(self) -> None:
        if self._prompt is None:
            return
        blocks, ts = self._prompt
        self._prompt = None
        self._add_prompt(blocks, ts)

    def _drop_repeated_prompt(self, blocks: list[JsonObject]) -> None:
        """Forget the prompt of the request if an item holds all of it."""
        held = self._prompt[0] if self._prompt else []
        repeated = [_parse_input(block) for block in blocks]
        if all(_parse_input(block) in repeated for block in held):
            self._prompt = None

    def _add_prompt(self, blocks: list[JsonObject], ts: str | None) -> None:
        if not self.is_subagent:
            speaker = self._draft.get_actor("human", "user")
        else:
            speaker = self._draft.get_actor("model", "parent agent")
        content = [_parse_input(block) for block in blocks]
        is_text = len(content) == 1 and content[0].keys() == {"type", "text"}
        self._draft.add_message(
            "user",
            content[0]["text"] if is_text else content,
            speaker,
            ts=ts,
            span=self.span,
            visibility="internal" if self.is_subagent else "public",
        )

    def add_delta(self, method: str, item_id: str, delta: str, ts: str | None) -> None:
        """Collect a piece of an item, in case that the item is never completed."""
        if item_id not in self._done:
            pieces, _ = self._deltas.setdefault(item_id, {}).setdefault(method, ([], ts))
            pieces.append(delta)

    def read_item(self, item: JsonObject, is_complete: bool, ts: str | None, place: str) -> None:
        """Read an item that starts or is complete."""
        kind = get_text(item, "type") or ""
        item_id = get_text(item, "id") or ""
        if item_id in self._done:
            return
        if kind == "userMessage":
            self._drop_repeated_prompt(get_dicts(item, "content"))
        else:
            self._flush_prompt()
        if is_complete and item_id:
            self._done.add(item_id)
            self._deltas.pop(item_id, None)
        if kind in _CALL_ITEMS or kind in _GENERIC_CALLS:
            self._read_call(kind, item, item_id, is_complete, ts)
        elif is_complete:
            self._read_text_item(kind, item, ts, place)

    def _read_text_item(self, kind: str, item: JsonObject, ts: str | None, place: str) -> None:
        if kind == "userMessage":
            self._add_prompt(get_dicts(item, "content"), ts)
        elif kind == "agentMessage":
            self._add_answer(get_text(item, "text") or "", ts)
        elif kind == "reasoning":
            self._add_reasoning(item, ts)
        elif kind in _ANNOTATED_ITEMS:
            name, fields = _ANNOTATED_ITEMS[kind]
            self.annotate(name, ts, activity=item.get("kind"), **pick_fields(item, *fields))
        else:
            self._draft.note_omission("unknown-item", place, f"item {format_kind(kind)}")

    def _add_answer(self, text: str, ts: str | None) -> Event:
        event = self._draft.add_message(
            "assistant",
            text,
            self.actor,
            ts=ts,
            span=self.span,
            visibility="internal" if self.is_subagent else "public",
        )
        self._last_output = event["id"]
        return event

    def _add_reasoning(self, item: JsonObject, ts: str | None) -> None:
        """Add the summary of a thought, and the thought itself, which only open models give."""
        for name, is_summary in (("summary", True), ("content", False)):
            parts = item.get(name)
            if not isinstance(parts, list):
                continue
            text = "\n\n".join(part for part in parts if isinstance(part, str))
            if text:
                self._draft.add_reasoning(
                    text, self.actor, ts=ts, span=self.span, summary=is_summary
                )

    def _read_call(
        self, kind: str, item: JsonObject, item_id: str, is_complete: bool, ts: str | None
    ) -> None:
        """Add a call when its item starts, and its result when the item is complete."""
        key = item_id or None
        # An item that is complete at once, as in a resumed thread, never started.
        if key is None or not self._draft.is_call_open(key):
            key = self._add_call(kind, item, key, ts)
        if not is_complete:
            return
        facts = pick_fields(item, "success")
        for name, field in (("exit_code", "exitCode"), ("duration_ms", "durationMs")):
            if item.get(field) is not None:
                facts[name] = item[field]
        if item.get("status") not in (None, "completed"):
            facts["status"] = item["status"]
        output = _get_output(kind, item)
        if get_dict(item, "error"):
            facts["is_error"] = True
        if output is not None:
            self._draft.add_tool_result(key, output, ts=ts, span=self.span, facts=facts or None)
        elif facts:
            self.annotate("result_facts", ts, native_call_id=item_id, **facts)

    def _add_call(self, kind: str, item: JsonObject, key: str | None, ts: str | None) -> str:
        # Tools of MCP servers and of the client have names of their own; other items stand for
        # one tool of Codex each, whose arguments are fields of the item.
        if kind in _GENERIC_CALLS:
            tool = get_text(item, "tool") or "tool"
            given = item.get("arguments")
            arguments: Any = {} if given is None else given
        else:
            tool, fields = _CALL_ITEMS[kind]
            arguments = pick_fields(item, *fields)
            if kind == "collabAgentToolCall":
                tool = get_text(item, "tool") or tool
        extra = pick_fields(item, "server", "namespace") or None
        new_key = self._draft.add_tool_call(
            key, tool, arguments, self.actor, ts=ts, span=self.span, extra=extra
        )
        self._last_output = f"evt_{self._draft.count:06d}"
        if tool == "spawnAgent":
            self.spawns.append(new_key)
        return new_key

    def set_usage(self, usage: JsonObject) -> None:
        """Assign the counts of the last request to the last event of the model."""
        total = usage.get("total")
        last = get_dict(usage, "last")
        # The server reports the same counts again when nothing was requested in between.
        if total == self._total or self._last_output is None:
            return
        self._total = total
        counts = build_usage(
            input_tokens=last.get("inputTokens"),
            output_tokens=last.get("outputTokens"),
            cache_read_tokens=last.get("cachedInputTokens"),
            reasoning_tokens=last.get("reasoningOutputTokens"),
        )
        if counts and any(counts.values()):
            self._draft.set_usage(self._last_output, counts)

    def end_turn(self, turn: JsonObject, ts: str | None) -> None:
        """End a turn: what is not complete by now broke off."""
        self.finish()
        status = turn.get("status")
        if status == "interrupted":
            self.annotate("interrupted", ts)
        elif status == "failed":
            self.annotate("turn_failed", ts, **pick_fields(get_dict(turn, "error"), "message"))

    def finish(self) -> None:
        """Add the prompt that no item repeated, and what came of unfinished items."""
        self._flush_prompt()
        for item_id, methods in self._deltas.items():
            for method, (pieces, ts) in methods.items():
                self._add_broken_item(item_id, method, "".join(pieces), ts)
        self._deltas.clear()

    def _add_broken_item(self, item_id: str, method: str, text: str, ts: str | None) -> None:
        event: Event | None = None
        if method == "item/agentMessage/delta":
            event = self._add_answer(text, ts)
        elif method.startswith("item/reasoning/"):
            event = self._draft.add_reasoning(text, self.actor, ts=ts, span=self.span)
        elif self._draft.is_call_open(item_id):
            event = self._draft.add_tool_result(item_id, text, ts=ts, span=self.span)
        data = {"kind": "interrupted"}
        if event is None:
            data["text"] = text
        self._draft.add_annotation(data, parent=event, ts=ts, span=self.span)


def _parse_input(block: JsonObject) -> JsonObject:
    """Return a block of a prompt as the document has it."""
    if block.get("type") == "text":
        return {"type": "text", "text": get_text(block, "text") or ""}
    url = get_text(block, "url")
    if block.get("type") in ("image", "audio") and url:
        return build_media_url_block(url, str(block["type"]))
    return dict(block)


def _get_output(kind: str, item: JsonObject) -> Any:
    """Return what a call returned; None if the item does not say."""
    if kind == "commandExecution":
        return get_text(item, "aggregatedOutput") or ""
    if kind == "mcpToolCall":
        result = get_dict(item, "result")
        if result:
            return parse_content(result.get("content")) or result
        return get_text(get_dict(item, "error"), "message")
    if kind == "dynamicToolCall":
        return item.get("contentItems")
    if kind == "fileChange":
        return pick_fields(item, "status")
    if kind == "collabAgentToolCall":
        return pick_fields(item, "agentsStates")
    if kind == "imageGeneration":
        return pick_fields(item, "result", "savedPath") or None
    return item.get("results")
