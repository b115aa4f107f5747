"""Items of the OpenAI Responses API told to a draft: what the API's own bodies and Codex rollouts
have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared.responses_content import (
    IDENTIFIER,
    arguments,
    content,
    kept,
    name_of,
    word,
)
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role, Usage, Visibility

_BOOKKEEPING = (
    "type",
    "id",
    "call_id",
    "status",
    "metadata",
    "internal_chat_message_metadata_passthrough",
    "created_by",
)


class Voices:
    """Who speaks in the items; each is entered among the participants only when first heard.

    `user` may be the actor_id of someone else than a person: of the model that sent a subagent.
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
        self._model = {"provider": provider, "model": model, "instance_id": instance_id}
        self._name = name
        self._user = user

    @cached_property
    def user(self) -> str:
        return self._user or self._draft.get_actor("human", "user")

    @cached_property
    def assistant(self) -> str:
        return self._draft.get_actor("model", self._name, **self._model)

    @cached_property
    def system(self) -> str:
        """Speaks system and developer messages."""
        return self._draft.get_actor("system", "system")


@dataclass(slots=True)
class _Telling:
    """One item on its way into the draft."""

    draft: Draft
    item: dict[str, Any]
    voices: Voices
    ts: str | None
    span: str | None
    group: object
    place: str
    visibility: Visibility | None
    actor: str | None
    facts: dict[str, Any] | None
    usage: Usage | None

    def word(self, *names: str) -> str | None:
        """The first of these fields that is a text with something in it."""
        for name in names:
            if (value := self.item.get(name)) and isinstance(value, str):
                return value
        return None

    def use(
        self, native_id: str | None, tool: str, arguments: Any, extra: dict[str, Any] | None = None
    ) -> tuple[str, str | None]:
        """A call; gives its key, and the id of its event unless the call stood open already."""
        before = self.draft.count
        key = self.draft.add_tool_call(
            native_id,
            tool,
            arguments,
            self.voices.assistant,
            ts=self.ts,
            span=self.span,
            usage=self.usage,
            group=self.group,
            extra=extra,
        )
        return key, f"evt_{before + 1:06d}" if self.draft.count > before else None

    def result(
        self, native_id: str | None, output: Any, tool: str | None = None, **facts: Any
    ) -> None:
        known = {name: value for name, value in facts.items() if value is not None} | (
            self.facts or {}
        )
        self.draft.add_tool_result(
            native_id, output, ts=self.ts, span=self.span, facts=known, tool=tool
        )

    def note(self, kind: str, **data: Any) -> None:
        known = {name: value for name, value in data.items() if value is not None}
        self.draft.add_annotation({"kind": kind, **known}, ts=self.ts, span=self.span)


def item(
    draft: Draft,
    item: Any,
    voices: Voices,
    *,
    ts: str | None = None,
    span: str | None = None,
    group: object = None,
    place: str,
    visibility: Visibility | None = None,
    actor: str | None = None,
    facts: dict[str, Any] | None = None,
    usage: Usage | None = None,
) -> str | None:
    """Tell one item. Gives the id of the event in which the model speaks (message, thought, call),
    if there is one.

    `usage` goes on that event. `visibility` and `actor` override those of a message. `facts` join
    those of a result. Calls of one answer of the model get the same `group`. `place` is where notes
    say that something was left out."""
    if not isinstance(item, dict):
        draft.note_omission("unknown-item", place, "an item that is not an object")
        return None
    kind = item.get("type")
    if not isinstance(kind, str):
        kind = "message" if "role" in item else ""
    telling = _Telling(draft, item, voices, ts, span, group, place, visibility, actor, facts, usage)
    tell = _KINDS.get(kind)
    if tell is not None:
        return tell(telling)
    return _unknown(telling, kind)


def _message(telling: _Telling) -> str | None:
    item, draft = telling.item, telling.draft
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        telling.note("message", role=word(role), content=content(item.get("content")))
        return None
    speaker = telling.actor or getattr(telling.voices, role if role != "developer" else "system")
    event = draft.add_message(
        cast(Role, role),
        content(item.get("content")),
        speaker,
        ts=telling.ts,
        visibility=telling.visibility,
        span=telling.span,
        usage=telling.usage if role == "assistant" else None,
    )
    about = _about(item)
    if about:
        draft.add_annotation({"kind": "message_facts", **about}, parent=event, ts=telling.ts)
    return event["id"] if role == "assistant" else None


def _about(item: dict[str, Any]) -> dict[str, Any]:
    """Facts beside the words: where they were found, and that they broke off."""
    about: dict[str, Any] = {}
    blocks = item.get("content")
    cited = [
        mark
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, dict) and isinstance(block.get("annotations"), list)
        for mark in block["annotations"]
    ]
    if cited:
        about["citations"] = cited
    if item.get("status") in ("incomplete", "failed"):
        about["status"] = item["status"]
    return about


def _reasoning(telling: _Telling) -> str | None:
    draft, item = telling.draft, telling.item
    told: list[tuple[str | None, bool]] = []
    for name, is_summary in (("summary", True), ("content", False)):
        parts = item.get(name)
        texts = (
            [word(part.get("text")) for part in parts if isinstance(part, dict)]
            if isinstance(parts, list)
            else []
        )
        words = [text for text in texts if text]
        if isinstance(parts, list) and len(words) < len(parts):
            draft.note_omission("empty-reasoning", telling.place, "reasoning without words")
        if words:
            told.append(("\n\n".join(words), is_summary))
    sealed = word(item.get("encrypted_content"))
    if sealed and told:
        draft.note_omission(
            "sealed-reasoning", telling.place, "encrypted reasoning beside its summary"
        )
    if sealed and not told:
        told.append((None, False))
    if not told:
        draft.note_omission("empty-reasoning", telling.place, "reasoning without words")
        return None
    last = len(told) - 1
    for number, (text, is_summary) in enumerate(told):
        spent = telling.usage if number == last else None
        event = draft.add_reasoning(
            text,
            telling.voices.assistant,
            ts=telling.ts,
            span=telling.span,
            usage=spent,
            summary=is_summary,
        )
    return event["id"]


def _function_call(telling: _Telling) -> str | None:
    item = telling.item
    extra = kept(item, "namespace")
    _, event = telling.use(
        telling.word("call_id", "id"),
        telling.word("name") or "tool",
        arguments(item.get("arguments")),
        extra,
    )
    return event


def _custom_call(telling: _Telling) -> str | None:
    given = telling.item.get("input")
    _, event = telling.use(
        telling.word("call_id", "id"),
        telling.word("name") or "tool",
        {"input": given},
        kept(telling.item, "namespace"),
    )
    return event


def _call_output(telling: _Telling) -> None:
    item = telling.item
    output = item.get("output", item.get("tools"))
    facts: dict[str, Any] = {}
    if item.get("status") in ("incomplete", "failed"):
        facts["status"] = item["status"]
    if isinstance(output, dict) and isinstance(output.get("content"), str) and "type" not in output:
        # Codex before 0.40 wrote {content, success}.
        facts["success"] = output.get("success")
        output = output["content"]
    if isinstance(output, dict) and "type" not in output:
        made: Any = output
    else:
        made = content(output)
    telling.result(telling.word("call_id", "id"), made, telling.word("name"), **facts)


def _named_call(tool: str, *names: str) -> Callable[[_Telling], str | None]:
    """A call whose arguments are fields of the item; a single field that is an object is the
    arguments."""

    def tell(telling: _Telling) -> str | None:
        given = kept(telling.item, *names)
        if len(names) == 1 and isinstance(given.get(names[0]), dict):
            given = given[names[0]]
        _, event = telling.use(telling.word("call_id", "id"), tool, given)
        return event

    return tell


def _web_search(telling: _Telling) -> str | None:
    action = telling.item.get("action")
    given = dict(action) if isinstance(action, dict) else {}
    found = telling.item.get("results")
    sources = given.pop("sources", None)
    key, event = telling.use(telling.word("call_id", "id"), "web_search", given)
    if found is None and isinstance(sources, list):
        found = {"sources": sources}
    if event and found is not None:
        telling.result(key, found)
    return event


def _file_search(telling: _Telling) -> str | None:
    key, event = telling.use(telling.word("id"), "file_search", kept(telling.item, "queries"))
    if event and telling.item.get("results") is not None:
        telling.result(key, telling.item["results"])
    return event


def _code_interpreter(telling: _Telling) -> str | None:
    key, event = telling.use(
        telling.word("id"), "code_interpreter", kept(telling.item, "code", "container_id")
    )
    outputs = telling.item.get("outputs")
    if event and isinstance(outputs, list):
        logs = [
            part.get("logs")
            for part in outputs
            if isinstance(part, dict) and part.get("type") == "logs"
        ]
        only = logs[0] if len(logs) == len(outputs) == 1 else None
        telling.result(key, only if isinstance(only, str) else outputs)
    return event


def _image_generation(telling: _Telling) -> str | None:
    item = telling.item
    given = kept(item, "revised_prompt", "action", "background", "quality", "size")
    key, event = telling.use(telling.word("id"), "image_generation", given)
    image = item.get("result")
    if event and isinstance(image, str) and image:
        telling.result(
            key,
            [build_media_block(f"image/{telling.word('output_format') or 'png'}", image, "image")],
        )
    return event


def _mcp_call(telling: _Telling) -> str | None:
    item = telling.item
    key, event = telling.use(
        telling.word("id"),
        telling.word("name") or "mcp",
        arguments(item.get("arguments")),
        kept(item, "server_label"),
    )
    error = item.get("error")
    if event and (item.get("output") is not None or error is not None):
        output = content(item["output"]) if item.get("output") is not None else error
        telling.result(key, output, is_error=True if error is not None else None)
    return event


def _beside(kind: str, *names: str) -> Callable[[_Telling], None]:
    """An item that is no turn: an annotation with these fields."""

    def tell(telling: _Telling) -> None:
        telling.note(kind, **kept(telling.item, *names))

    return tell


def _compaction(telling: _Telling) -> None:
    sealed = bool(telling.item.get("encrypted_content"))
    telling.note("compaction", encrypted=sealed or None, **kept(telling.item, "summary", "text"))


def _unknown(telling: _Telling, kind: str) -> str | None:
    """Kinds of tomorrow: a call or an output can be told by its shape; the rest is noted."""
    if kind.endswith(("_call_output", "_call_result")) and IDENTIFIER.fullmatch(kind):
        _call_output(telling)
        return None
    if kind.endswith("_call") and IDENTIFIER.fullmatch(kind):
        rest = {name: value for name, value in telling.item.items() if name not in _BOOKKEEPING}
        output = rest.pop("output", None)
        key, event = telling.use(telling.word("call_id", "id"), kind.removesuffix("_call"), rest)
        if event and output is not None:
            telling.result(key, content(output))
        return event
    telling.draft.note_omission("unknown-item", telling.place, f"item {name_of(kind)}")
    return None


_KINDS: dict[str, Callable[[_Telling], str | None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "function_call_output": _call_output,
    "custom_tool_call_output": _call_output,
    "local_shell_call": _named_call("local_shell", "action"),
    "local_shell_call_output": _call_output,
    "shell_call": _named_call("shell", "action"),
    "apply_patch_call": _named_call("apply_patch", "operation"),
    "computer_call": _named_call("computer", "action", "actions", "pending_safety_checks"),
    "tool_search_call": _named_call("tool_search", "arguments"),
    "tool_search_output": _call_output,
    "web_search_call": _web_search,
    "file_search_call": _file_search,
    "code_interpreter_call": _code_interpreter,
    "image_generation_call": _image_generation,
    "mcp_call": _mcp_call,
    "mcp_list_tools": _beside("mcp_list_tools", "server_label", "tools", "error"),
    "mcp_approval_request": _beside(
        "mcp_approval_request", "id", "server_label", "name", "arguments"
    ),
    "mcp_approval_response": _beside(
        "mcp_approval_response", "approval_request_id", "approve", "reason"
    ),
    "compaction": _compaction,
    "compaction_summary": _compaction,
    "context_compaction": _compaction,
}
