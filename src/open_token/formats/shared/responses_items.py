"""Items of the OpenAI Responses API as events: what API bodies and Codex rollouts share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    as_text,
    drop_nulls,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.responses_content import parse_content
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role, Usage, Visibility

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,47}")
_BOOKKEEPING_FIELDS = (
    "type",
    "id",
    "call_id",
    "status",
    "metadata",
    "internal_chat_message_metadata_passthrough",
    "created_by",
)


class ItemActors:
    """The actors of items; each becomes a participant when it is first used.

    `user` may be the actor_id of another model: the one that started a subagent.
    """

    def __init__(
        self,
        draft: Draft,
        *,
        name: str = "assistant",
        provider: str | None = None,
        model: str | None = None,
        instance_id: str | None = None,
        user: str | None = None,
    ) -> None:
        self._draft = draft
        self._name = name
        self._model = {"provider": provider, "model": model, "instance_id": instance_id}
        self._user = user

    @cached_property
    def user(self) -> str:
        return self._user or self._draft.get_actor("human", "user")

    @cached_property
    def assistant(self) -> str:
        return self._draft.get_actor("model", self._name, **self._model)

    @cached_property
    def system(self) -> str:
        """The actor of system and developer messages."""
        return self._draft.get_actor("system", "system")


@dataclass(slots=True)
class _ItemWriter:
    """One item that is being added to the draft."""

    draft: Draft
    item: JsonObject
    actors: ItemActors
    ts: str | None
    span: str | None
    group: object
    place: str
    visibility: Visibility | None
    actor: str | None
    facts: JsonObject | None
    usage: Usage | None

    def get_text(self, *names: str) -> str | None:
        """Return the first of these fields that is a non-empty string."""
        for name in names:
            value = self.item.get(name)
            if value and isinstance(value, str):
                return value
        return None

    def get_call_id(self) -> str | None:
        return self.get_text("call_id", "id")

    def add_call(
        self, native_id: str | None, tool: str, arguments: Any, extra: JsonObject | None = None
    ) -> tuple[str, str | None]:
        """Add a call; return its key, and its event id unless the call was open already."""
        count = self.draft.count
        key = self.draft.add_tool_call(
            native_id,
            tool,
            arguments,
            self.actors.assistant,
            ts=self.ts,
            span=self.span,
            usage=self.usage,
            group=self.group,
            extra=extra,
        )
        event_id = f"evt_{count + 1:06d}" if self.draft.count > count else None
        return key, event_id

    def add_result(
        self, native_id: str | None, output: Any, tool: str | None = None, **facts: Any
    ) -> None:
        known = drop_nulls(facts) | (self.facts or {})
        self.draft.add_tool_result(
            native_id, output, ts=self.ts, span=self.span, facts=known, tool=tool
        )

    def add_annotation(self, kind: str, **data: Any) -> None:
        annotation = {"kind": kind, **drop_nulls(data)}
        self.draft.add_annotation(annotation, ts=self.ts, span=self.span)


def add_item(
    draft: Draft,
    item: Any,
    actors: ItemActors,
    *,
    ts: str | None = None,
    span: str | None = None,
    group: object = None,
    place: str,
    visibility: Visibility | None = None,
    actor: str | None = None,
    facts: JsonObject | None = None,
    usage: Usage | None = None,
) -> str | None:
    """Add one item; return the id of the event of the model (message, reasoning, call), if any.

    `usage` goes on that event. `visibility` and `actor` override those of a message. `facts` are
    added to those of a result. Calls of one answer of the model share a `group`. `place` is where
    notes locate what was left out.
    """
    if not isinstance(item, dict):
        draft.note_omission("unknown-item", place, "an item that is not an object")
        return None
    kind = item.get("type")
    # The API takes messages without a type, as the chat API has them.
    if not isinstance(kind, str):
        kind = "message" if "role" in item else ""
    writer = _ItemWriter(
        draft, item, actors, ts, span, group, place, visibility, actor, facts, usage
    )
    add = _HANDLERS.get(kind)
    if add is None:
        return _add_unknown_item(writer, kind)
    return add(writer)


def _add_message(writer: _ItemWriter) -> str | None:
    item = writer.item
    role = item.get("role")
    content = parse_content(item.get("content"))
    if role not in ("user", "assistant", "system", "developer"):
        writer.add_annotation("message", role=as_text(role), content=content)
        return None
    actor = writer.actor
    if not actor:
        actor = getattr(writer.actors, role if role != "developer" else "system")
    event = writer.draft.add_message(
        cast(Role, role),
        content,
        actor,
        ts=writer.ts,
        visibility=writer.visibility,
        span=writer.span,
        usage=writer.usage if role == "assistant" else None,
    )
    facts = _build_message_facts(item)
    if facts:
        writer.draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=writer.ts)
    return event["id"] if role == "assistant" else None


def _build_message_facts(item: JsonObject) -> JsonObject:
    """Return citations of a message, and its status if it is not complete."""
    facts: JsonObject = {}
    citations: list[Any] = []
    for block in as_dicts(item.get("content")):
        if isinstance(block.get("annotations"), list):
            citations += block["annotations"]
    if citations:
        facts["citations"] = citations
    if item.get("status") in ("incomplete", "failed"):
        facts["status"] = item["status"]
    return facts


def _add_reasoning(writer: _ItemWriter) -> str | None:
    draft = writer.draft
    reasoning: list[tuple[str | None, bool]] = []
    # OpenAI gives a summary at most; open models behind the same API give the thought itself.
    for name, is_summary in (("summary", True), ("content", False)):
        parts = writer.item.get(name)
        if not isinstance(parts, list):
            continue
        texts: list[str] = []
        for part in as_dicts(parts):
            text = as_text(part.get("text"))
            if text:
                texts.append(text)
        if len(texts) < len(parts):
            draft.note_omission("empty-reasoning", writer.place, "reasoning without words")
        if texts:
            reasoning.append(("\n\n".join(texts), is_summary))
    # The thought itself is encrypted, for the provider to read in the next request.
    is_encrypted = as_text(writer.item.get("encrypted_content")) is not None
    if is_encrypted and reasoning:
        draft.note_omission(
            "sealed-reasoning", writer.place, "encrypted reasoning beside its summary"
        )
    elif is_encrypted:
        reasoning.append((None, False))
    if not reasoning:
        draft.note_omission("empty-reasoning", writer.place, "reasoning without words")
        return None
    last = len(reasoning) - 1
    for number, (text, is_summary) in enumerate(reasoning):
        event = draft.add_reasoning(
            text,
            writer.actors.assistant,
            ts=writer.ts,
            span=writer.span,
            usage=writer.usage if number == last else None,
            summary=is_summary,
        )
    return event["id"]


def _add_function_call(writer: _ItemWriter) -> str | None:
    _, event_id = writer.add_call(
        writer.get_call_id(),
        writer.get_text("name") or "tool",
        parse_arguments(writer.item.get("arguments")),
        pick_fields(writer.item, "namespace"),
    )
    return event_id


def _add_custom_call(writer: _ItemWriter) -> str | None:
    _, event_id = writer.add_call(
        writer.get_call_id(),
        writer.get_text("name") or "tool",
        {"input": writer.item.get("input")},
        pick_fields(writer.item, "namespace"),
    )
    return event_id


def _add_call_output(writer: _ItemWriter) -> None:
    item = writer.item
    output = item.get("output", item.get("tools"))
    facts: JsonObject = {}
    if item.get("status") in ("incomplete", "failed"):
        facts["status"] = item["status"]
    if isinstance(output, dict) and "type" not in output:
        if isinstance(output.get("content"), str):
            # Codex before 0.40 wrote {content, success}.
            facts["success"] = output.get("success")
            output = output["content"]
    else:
        output = parse_content(output)
    writer.add_result(writer.get_call_id(), output, writer.get_text("name"), **facts)


def _make_call_handler(tool: str, *names: str) -> Callable[[_ItemWriter], str | None]:
    """Return a handler for calls whose arguments are fields of the item.

    A single field that holds an object is the arguments itself.
    """

    def add_call(writer: _ItemWriter) -> str | None:
        arguments = pick_fields(writer.item, *names)
        if len(names) == 1 and isinstance(arguments.get(names[0]), dict):
            arguments = arguments[names[0]]
        _, event_id = writer.add_call(writer.get_call_id(), tool, arguments)
        return event_id

    return add_call


def _add_web_search(writer: _ItemWriter) -> str | None:
    action = writer.item.get("action")
    arguments = dict(action) if isinstance(action, dict) else {}
    sources = arguments.pop("sources", None)
    results = writer.item.get("results")
    if results is None and isinstance(sources, list):
        results = {"sources": sources}
    key, event_id = writer.add_call(writer.get_call_id(), "web_search", arguments)
    if event_id and results is not None:
        writer.add_result(key, results)
    return event_id


def _add_file_search(writer: _ItemWriter) -> str | None:
    arguments = pick_fields(writer.item, "queries")
    key, event_id = writer.add_call(writer.get_text("id"), "file_search", arguments)
    if event_id and writer.item.get("results") is not None:
        writer.add_result(key, writer.item["results"])
    return event_id


def _add_code_interpreter(writer: _ItemWriter) -> str | None:
    arguments = pick_fields(writer.item, "code", "container_id")
    key, event_id = writer.add_call(writer.get_text("id"), "code_interpreter", arguments)
    outputs = writer.item.get("outputs")
    if not event_id or not isinstance(outputs, list):
        return event_id
    output: Any = outputs
    if len(outputs) == 1 and isinstance(outputs[0], dict) and outputs[0].get("type") == "logs":
        logs = outputs[0].get("logs")
        if isinstance(logs, str):
            output = logs
    writer.add_result(key, output)
    return event_id


def _add_image_generation(writer: _ItemWriter) -> str | None:
    arguments = pick_fields(
        writer.item, "revised_prompt", "action", "background", "quality", "size"
    )
    key, event_id = writer.add_call(writer.get_text("id"), "image_generation", arguments)
    image = as_text(writer.item.get("result"))
    if event_id and image:
        media_type = f"image/{writer.get_text('output_format') or 'png'}"
        writer.add_result(key, [build_media_block(media_type, image, "image")])
    return event_id


def _add_mcp_call(writer: _ItemWriter) -> str | None:
    item = writer.item
    key, event_id = writer.add_call(
        writer.get_text("id"),
        writer.get_text("name") or "mcp",
        parse_arguments(item.get("arguments")),
        pick_fields(item, "server_label"),
    )
    output = item.get("output")
    error = item.get("error")
    if event_id and (output is not None or error is not None):
        result = parse_content(output) if output is not None else error
        writer.add_result(key, result, is_error=True if error is not None else None)
    return event_id


def _make_annotation_handler(kind: str, *names: str) -> Callable[[_ItemWriter], None]:
    """Return a handler for items that become an annotation with these fields."""

    def add_annotation(writer: _ItemWriter) -> None:
        writer.add_annotation(kind, **pick_fields(writer.item, *names))

    return add_annotation


def _add_compaction(writer: _ItemWriter) -> None:
    is_encrypted = bool(writer.item.get("encrypted_content"))
    writer.add_annotation(
        "compaction",
        encrypted=is_encrypted or None,
        **pick_fields(writer.item, "summary", "text"),
    )


def _add_unknown_item(writer: _ItemWriter, kind: str) -> str | None:
    """Add an item of an unknown type: calls and outputs are recognized by their names."""
    is_identifier = _IDENTIFIER.fullmatch(kind) is not None
    if is_identifier and kind.endswith(("_call_output", "_call_result")):
        _add_call_output(writer)
        return None
    if is_identifier and kind.endswith("_call"):
        arguments = {
            name: value for name, value in writer.item.items() if name not in _BOOKKEEPING_FIELDS
        }
        output = arguments.pop("output", None)
        key, event_id = writer.add_call(writer.get_call_id(), kind.removesuffix("_call"), arguments)
        if event_id and output is not None:
            writer.add_result(key, parse_content(output))
        return event_id
    writer.draft.note_omission("unknown-item", writer.place, f"item {format_kind(kind)}")
    return None


_HANDLERS: dict[str, Callable[[_ItemWriter], str | None]] = {
    "message": _add_message,
    "reasoning": _add_reasoning,
    "function_call": _add_function_call,
    "custom_tool_call": _add_custom_call,
    "function_call_output": _add_call_output,
    "custom_tool_call_output": _add_call_output,
    "local_shell_call": _make_call_handler("local_shell", "action"),
    "local_shell_call_output": _add_call_output,
    "shell_call": _make_call_handler("shell", "action"),
    "apply_patch_call": _make_call_handler("apply_patch", "operation"),
    "computer_call": _make_call_handler("computer", "action", "actions", "pending_safety_checks"),
    "tool_search_call": _make_call_handler("tool_search", "arguments"),
    "tool_search_output": _add_call_output,
    "web_search_call": _add_web_search,
    "file_search_call": _add_file_search,
    "code_interpreter_call": _add_code_interpreter,
    "image_generation_call": _add_image_generation,
    "mcp_call": _add_mcp_call,
    "mcp_list_tools": _make_annotation_handler("mcp_list_tools", "server_label", "tools", "error"),
    "mcp_approval_request": _make_annotation_handler(
        "mcp_approval_request", "id", "server_label", "name", "arguments"
    ),
    "mcp_approval_response": _make_annotation_handler(
        "mcp_approval_response", "approval_request_id", "approve", "reason"
    ),
    "compaction": _add_compaction,
    "compaction_summary": _add_compaction,
    "context_compaction": _add_compaction,
}
