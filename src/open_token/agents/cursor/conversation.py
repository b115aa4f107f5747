"""What all forms of a Cursor conversation share: actors, prompts, calls paired with results."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_content, unpack_block
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.providers import ProviderTracker
from open_token.model.document import Usage, Visibility

SPAWNING_TOOLS = ("Task", "task", "task_v2", "Agent", "Subagent")
UNLISTED_BRANCH = {"kind": "abandoned_branch", "detail": "messages that are no longer listed"}
MAX_DEPTH = 8
"""How deeply subagents are read inline."""
_GENERIC_MODELS = ("default", "auto", "unknown")

_QUERY_START = "<user_query>"
_QUERY_END = "</user_query>"
_INJECTED_PREFIXES = (
    "<user_info>",
    "<system_reminder>",
    "<system-reminder>",
    "<project_layout>",
    "<git_status>",
    "<rules>",
    "<attached_files>",
    "<additional_data>",
    "<open_and_recently_viewed_files>",
    "<agent_transcripts>",
    "<agent_skills>",
    "<mcp_",
    "<timestamp>",
    "<conversation_summary>",
    "[Previous conversation summary]",
)


class Conversation:
    """Adds the events of one thread, the main one or that of a subagent."""

    def __init__(
        self,
        draft: Draft,
        *,
        asker: str,
        span: str | None = None,
        name: str = "assistant",
        bare_is_typed: bool = True,
    ) -> None:
        self.draft = draft
        self.span = span
        self.asker = asker
        self.providers = ProviderTracker()
        self.model: str | None = None
        self._name = name
        self._bare_is_typed = bare_is_typed
        self.visibility: Visibility = "internal" if span else "public"
        self._unnamed_calls: deque[str] = deque()
        """The keys of calls without an id, oldest first."""

    @property
    def client(self) -> str:
        """The actor for Cursor itself."""
        return self.draft.get_actor("system", "Cursor")

    def get_model_actor(self, model: str | None = None) -> str:
        """Return the actor for a model, by default that of the whole conversation."""
        model = model or self.model
        # These are settings, not names of models.
        if model in _GENERIC_MODELS:
            model = None
        provider = self.providers.add_model(None, model)
        return self.draft.get_actor("model", self._name, provider=provider, model=model)

    def add_prompt(self, blocks: list[Any], ts: str | None = None) -> None:
        """Add a user message, with the text that Cursor added as separate messages."""
        typed: list[Any] = []
        for block in blocks:
            if not _is_text(block):
                typed.append(unpack_block(block))
                continue
            text = block if isinstance(block, str) else get_text(block, "text")
            if text is None:
                continue
            for is_typed, section in split_prompt(text, bare_is_typed=self._bare_is_typed):
                if is_typed:
                    typed.append({"type": "text", "text": section})
                    continue
                self._add_typed_blocks(typed, ts)
                typed = []
                self.draft.add_message(
                    "user", section, self.client, ts=ts, visibility="internal", span=self.span
                )
        self._add_typed_blocks(typed, ts)

    def _add_typed_blocks(self, blocks: list[Any], ts: str | None) -> None:
        if blocks:
            self.draft.add_message(
                "user",
                parse_content(blocks),
                self.asker,
                ts=ts,
                visibility=self.visibility,
                span=self.span,
            )

    def add_response(
        self,
        content: str | list[Any],
        actor: str,
        ts: str | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Add a message of the model."""
        self.draft.add_message(
            "assistant",
            content,
            actor,
            ts=ts,
            visibility=self.visibility,
            span=self.span,
            usage=usage,
        )

    def add_call(
        self,
        call_id: str | None,
        tool: str | None,
        arguments: Any,
        actor: str,
        position: str,
        ts: str | None = None,
    ) -> str:
        """Add a tool call and return its key."""
        # Most calls in transcripts have no id, and some ids are used twice.
        is_free = call_id is not None and not self.draft.is_call_open(call_id)
        key = self.draft.add_tool_call(
            call_id if is_free else None,
            tool or "tool",
            {} if arguments is None else arguments,
            actor,
            ts=ts,
            span=self.span,
            group=position,
            extra={"native_call_id": call_id} if call_id and not is_free else None,
        )
        if not is_free:
            self._unnamed_calls.append(key)
        return key

    def add_result(
        self, call_id: str | None, output: Any, facts: JsonObject, ts: str | None = None
    ) -> None:
        """Add a result for the call of this id, or else for the oldest call without an id."""
        key = call_id
        if self._unnamed_calls and (call_id is None or not self.draft.is_call_open(call_id)):
            key = self._unnamed_calls.popleft()
            if call_id:
                facts = {**facts, "native_call_id": call_id}
        self.draft.add_tool_result(key, output, ts=ts, span=self.span, facts=facts)

    def annotate(self, data: JsonObject, ts: str | None = None) -> None:
        """Add an annotation by Cursor."""
        self.draft.add_annotation(data, actor=self.client, ts=ts, span=self.span)

    def start_subagent(
        self,
        agent_id: str,
        call: str | None,
        description: JsonObject,
        *,
        is_inline: bool,
        asker: str,
        ts: str | None = None,
    ) -> str:
        """Start the span of a subagent and return its id."""
        data: JsonObject = {"kind": "subagent", **description, "agent_id": agent_id}
        if not is_inline:
            data["reference"] = agent_id
        return self.draft.start_span(data, asker, ts=ts, call=call)


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (type(block) is dict and block.get("type") == "text")


def describe_subagent(arguments: Any) -> JsonObject:
    """Return the data of the span of a subagent, from the arguments of the call."""
    given = arguments if type(arguments) is dict else {}
    kind = get_text(given, "subagent_type") or get_text(given, "subagentType")
    data = {
        "spawn_reason": get_text(given, "description") or get_text(given, "prompt"),
        "tooling_scope": kind,
        "subagent_type": kind,
        "model": get_text(given, "model") or get_text(get_dict(given, "model"), "modelName"),
    }
    return {name: value for name, value in data.items() if value}


def note_left_out_subagent(draft: Draft, position: str) -> None:
    """Note that the work of a subagent is not exported."""
    draft.note_omission("subagent", position, "what a subagent did is left out (subagents=none)")


def split_prompt(text: str, *, bare_is_typed: bool) -> Iterator[tuple[bool, str]]:
    """Yield the sections of a prompt in order, each with whether the user typed it.

    Newer versions mark typed text with `<user_query>`; `bare_is_typed` says what text without any
    such tag is.
    """
    if _QUERY_START not in text:
        if text.strip():
            # Versions without the tag: context is known by how it begins.
            is_injected = text.lstrip().startswith(_INJECTED_PREFIXES)
            yield bare_is_typed and not is_injected, text
        return
    while text:
        before, tag, rest = text.partition(_QUERY_START)
        if before.strip():
            yield False, before.strip()
        typed, _, text = rest.partition(_QUERY_END)
        if tag and typed:
            yield True, typed.removeprefix("\n").removesuffix("\n")
