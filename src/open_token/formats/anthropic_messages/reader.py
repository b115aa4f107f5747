"""Tells what is said in the Anthropic Messages API: where its bodies and streams hold what."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared import anthropic_api as wire
from open_token.formats.shared.anthropic_blocks import content_of, usage_of
from open_token.formats.shared.api_conversation import Teller, tell_source
from open_token.formats.shared.api_detection import ANTHROPIC
from open_token.formats.shared.model_message import Body, Calls, Voice
from open_token.formats.shared.responses_content import name_of, word
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_USUAL_ENDS = ("end_turn", "tool_use")


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    tell_source(source, teller(draft))


def teller(draft: Draft) -> Teller:
    """What tells this dialect to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "anthropic")
    draft.without_thoughts = "unknown"
    return _Messages(draft)


class _Messages:
    """Where this dialect holds what; see Teller."""

    name = ANTHROPIC

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = Calls(draft)
        self._model: str | None = None

    def stream(self) -> wire.Events:
        return wire.Events()

    def meet(self, request: Body, response: Body) -> None:
        self._model = word(response.get("model")) or word(request.get("model")) or self._model

    def preamble(self, request: Body) -> list[Any]:
        system = request.get("system")
        return [{"role": "system", "content": system}] if system else []

    def history(self, request: Body) -> list[Any]:
        messages = request.get("messages")
        return messages if isinstance(messages, list) else []

    def is_delta(self, request: Body) -> bool:
        return False

    def tools(self, request: Body) -> list[str]:
        tools = request.get("tools")
        names = (
            [word(tool.get("name")) for tool in tools if isinstance(tool, dict)]
            if isinstance(tools, list)
            else []
        )
        return [name for name in names if name]

    def answer(self, response: Body) -> list[Any]:
        return [response] if response.get("content") else []

    def gists(self, item: Any) -> list[Any]:
        return wire.gists(item)

    def tell(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role == "system":
            words = content_of(item.get("content") or "")
            self.draft.add_message("system", words, self.draft.get_actor("system", "system"))
        elif role == "user":
            voice = Voice(self.draft, self.draft.get_actor("human", "user"), self._calls, place)
            wire.Telling(voice, "user").tell(item.get("content"))
        elif role == "assistant":
            wire.Telling(self._voice(place), "assistant").tell(item.get("content"))
        else:
            self.draft.note_omission("unknown-role", place, f"role {name_of(role)}")

    def _voice(self, place: str, ts: str | None = None) -> Voice:
        actor = self.draft.get_actor("model", "assistant", provider="anthropic", model=self._model)
        return Voice(self.draft, actor, self._calls, place, ts)

    def tell_answer(self, response: Body, place: str) -> None:
        # The API gives no time; recordings put theirs here.
        voice = self._voice(place, to_utc(response.get("created_at")))
        voice.usage = usage_of(response.get("usage"))
        if voice.usage and voice.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        if isinstance(response.get("error"), dict):
            voice.note("error", error=response["error"])
        if response.get("content"):
            wire.Telling(voice, "assistant").tell(response["content"])
        if response.get("stop_reason") is None:
            voice.note("message_facts", broke_off=True)
        elif response["stop_reason"] not in _USUAL_ENDS:
            about = {
                name: response.get(name)
                for name in ("stop_reason", "stop_sequence", "stop_details")
            }
            voice.note("message_facts", **about)
        voice.close()
