"""What every form of a Cursor conversation shares: who speaks, prompts in their pieces, calls
paired with results."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import parse_content, unpack_block
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.providers import ProviderTracker
from open_token.model.document import Usage, Visibility

CLIENT = "Cursor"
SPAWNING = ("Task", "task", "task_v2", "Agent", "Subagent")
LEFT = {"kind": "abandoned_branch", "detail": "messages that are no longer listed"}
_NO_MODEL = ("default", "auto", "unknown")


class Talk:
    """Tells one line of talk, the main one or a subagent's."""

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
        self._bare = bare_is_typed
        self.visibility: Visibility = "internal" if span else "public"
        self._nameless: deque[str] = deque()
        """Calls without an id, oldest first."""

    @property
    def client(self) -> str:
        """Cursor itself."""
        return self.draft.get_actor("system", CLIENT)

    def speaker(self, model: str | None = None) -> str:
        """The model that answers: as it is named here, else for the whole conversation."""
        model = model or self.model
        if model in _NO_MODEL:
            model = None
        provider = self.providers.add_model(None, model)
        return self.draft.get_actor("model", self._name, provider=provider, model=model)

    def prompt(self, blocks: list[Any], ts: str | None = None) -> None:
        """A message in the person's place."""
        typed: list[Any] = []
        for block in blocks:
            text = (
                block
                if isinstance(block, str)
                else get_text(block, "text")
                if _is_text(block)
                else None
            )
            if text is None:
                if not _is_text(block):
                    typed.append(unpack_block(block))
                continue
            for is_typed, piece in pieces(text, bare_is_typed=self._bare):
                if is_typed:
                    typed.append({"type": "text", "text": piece})
                    continue
                self._typed(typed, ts)
                typed = []
                self.draft.add_message(
                    "user", piece, self.client, ts=ts, visibility="internal", span=self.span
                )
        self._typed(typed, ts)

    def _typed(self, blocks: list[Any], ts: str | None) -> None:
        if blocks:
            content = parse_content(blocks)
            self.draft.add_message(
                "user", content, self.asker, ts=ts, visibility=self.visibility, span=self.span
            )

    def say(
        self,
        content: str | list[Any],
        actor: str,
        ts: str | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Something that the model said."""
        self.draft.add_message(
            "assistant",
            content,
            actor,
            ts=ts,
            visibility=self.visibility,
            span=self.span,
            usage=usage,
        )

    def call(
        self,
        native: str | None,
        tool: str | None,
        arguments: Any,
        actor: str,
        place: str,
        ts: str | None = None,
    ) -> str:
        """A call; in transcripts most have no id."""
        free = native if native and not self.draft.is_call_open(native) else None
        key = self.draft.add_tool_call(
            free,
            tool or "tool",
            {} if arguments is None else arguments,
            actor,
            ts=ts,
            span=self.span,
            group=place,
            extra={"native_call_id": native} if native and not free else None,
        )
        if free is None:
            self._nameless.append(key)
        return key

    def result(
        self, native: str | None, output: Any, facts: JsonObject, ts: str | None = None
    ) -> None:
        """A result, for the call with its id, else for the oldest call that has none."""
        key = native
        if self._nameless and (native is None or not self.draft.is_call_open(native)):
            key = self._nameless.popleft()
            facts = {**facts, "native_call_id": native} if native else facts
        self.draft.add_tool_result(key, output, ts=ts, span=self.span, facts=facts)

    def note(self, data: JsonObject, ts: str | None = None) -> None:
        """A fact beside the talk."""
        self.draft.add_annotation(data, actor=self.client, ts=ts, span=self.span)


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (type(block) is dict and block.get("type") == "text")


def spawned(arguments: Any) -> JsonObject:
    """What a span says of the subagent that a call starts, in the spec's words where it has
    them."""
    given = arguments if type(arguments) is dict else {}
    kind = get_text(given, "subagent_type") or get_text(given, "subagentType")
    about = {
        "spawn_reason": get_text(given, "description") or get_text(given, "prompt"),
        "tooling_scope": kind,
        "subagent_type": kind,
        "model": get_text(given, "model") or get_text(get_dict(given, "model"), "modelName"),
    }
    return {name: value for name, value in about.items() if value}


_OPEN, _CLOSE = "<user_query>", "</user_query>"
_INJECTED = (
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


def pieces(text: str, *, bare_is_typed: bool) -> Iterator[tuple[bool, str]]:
    """The text in its pieces, in order, each with whether the person typed it."""
    if _OPEN not in text:
        if text.strip():
            yield bare_is_typed and not text.lstrip().startswith(_INJECTED), text
        return
    while text:
        before, found, rest = text.partition(_OPEN)
        if before.strip():
            yield False, before.strip()
        typed, _, text = rest.partition(_CLOSE)
        if found and typed:
            yield True, typed.removeprefix("\n").removesuffix("\n")
