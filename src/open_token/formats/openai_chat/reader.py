"""Tells what is said in the OpenAI chat completions dialect: where its bodies and streams hold
what."""

from collections.abc import Iterator
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.shared import chat_messages as wire
from open_token.formats.shared.api_conversation import Teller, tell_source
from open_token.formats.shared.api_detection import CHAT
from open_token.formats.shared.model_message import Body, Calls, Voice, alternatives, prompts
from open_token.formats.shared.responses_content import name_of, word
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Role
from open_token.sources.source import Source

_OWN_MODELS = ("gpt", "o1", "o3", "o4", "chatgpt", "codex", "ft:gpt", "computer-use")
_USUAL_ENDS = ("", "stop", "tool_calls", "function_call")


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    tell_source(source, teller(draft))


def teller(draft: Draft) -> Teller:
    """What tells this dialect to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.without_thoughts = "unknown"
    return _Chat(draft)


def _provider(model: str | None) -> str | None:
    if model is None:
        return None
    return "openai" if model.rpartition("/")[2].lower().startswith(_OWN_MODELS) else "other"


class _Chat:
    """Where this dialect holds what; see Teller."""

    name = CHAT

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = Calls(draft)
        self._model: str | None = None
        self._answered = False

    def stream(self) -> wire.Chunks:
        return wire.Chunks()

    def meet(self, request: Body, response: Body) -> None:
        self._model = word(response.get("model")) or word(request.get("model")) or self._model
        if provider := _provider(self._model):
            self.draft.conversation.setdefault("provider", provider)

    def preamble(self, request: Body) -> list[Any]:
        messages = self._messages(request)
        return messages[: prompts(messages)]

    def history(self, request: Body) -> list[Any]:
        messages = self._messages(request)
        return messages[prompts(messages) :]

    def _messages(self, request: Body) -> list[Any]:
        messages = request.get("messages")
        return messages if isinstance(messages, list) else []

    def is_delta(self, request: Body) -> bool:
        return False

    def tools(self, request: Body) -> list[str]:
        functions = [
            tool.get("function", tool.get("custom", tool))
            for tool in wire.objects(request.get("tools"))
        ]
        functions += wire.objects(request.get("functions"))
        names = [
            word(made.get("name")) or word(made.get("type"))
            for made in functions
            if isinstance(made, dict)
        ]
        return [name for name in names if name]

    def answer(self, response: Body) -> list[Any]:
        choices = wire.objects(response.get("choices"))
        return [choices[0].get("message")] if choices else []

    def gists(self, item: Any) -> list[Any]:
        return wire.gists(item)

    def tell(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else None
        if role in ("tool", "function"):
            wire.tell_result(self.draft, self._calls, item, place)
        elif role == "assistant":
            self._answered = True
            voice = self._voice(item, place)
            wire.tell_assistant(voice, item)
        elif role in ("system", "developer", "user"):
            self._tell_words(role, item, place)
        else:
            self.draft.note_omission("unknown-role", place, f"role {name_of(role)}")

    def _tell_words(self, role: str, message: Body, place: str) -> None:
        name = word(message.get("name"))
        actor = (
            self.draft.get_actor("human", name or "user")
            if role == "user"
            else self.draft.get_actor("system", name or "system")
        )
        if "content" not in message:
            self.draft.note_omission("no-content", place, f"a message of {role} without content")
        words = wire.content(self.draft, message.get("content"), place)
        self.draft.add_message(
            cast(Role, role), "" if words is None else words, actor, ts=_time(message)
        )

    def _voice(self, message: Body, place: str, ts: str | None = None) -> Voice:
        model = word(message.get("model")) or self._model
        name = word(message.get("name")) or "assistant"
        actor = self.draft.get_actor("model", name, provider=_provider(model), model=model)
        return Voice(self.draft, actor, self._calls, place, ts or _time(message))

    def tell_answer(self, response: Body, place: str) -> None:
        if isinstance(response.get("error"), dict):
            self.draft.add_annotation({"kind": "error", "error": response["error"]})
        ts = from_epoch(response.get("created"))
        if ts and not self._answered:
            self.draft.conversation.setdefault("started_at", ts)
        self._answered = True
        choices = wire.objects(response.get("choices"))
        if not choices:
            return
        voice = self._voice({}, place, ts)
        voice.usage = wire.usage(response.get("usage"))
        if voice.usage and voice.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        self._tell_choice(voice, choices[0])
        voice.close()
        alternatives(self.draft, self._others(choices[1:], place, ts))

    def _others(self, choices: list[Body], place: str, ts: str | None) -> Iterator[Voice]:
        for number, choice in enumerate(choices, 2):
            voice = self._voice({}, f"{place}, choice {number}", ts)
            voice.calls = Calls(self.draft)
            self._tell_choice(voice, choice)
            yield voice

    def _tell_choice(self, voice: Voice, choice: Body) -> None:
        message = choice.get("message")
        wire.tell_assistant(voice, message if isinstance(message, dict) else {})
        reason = choice.get("finish_reason", "")
        if reason is None:
            voice.note("message_facts", broke_off=True)
        elif reason not in _USUAL_ENDS:
            voice.note("message_facts", finish_reason=reason)


def _time(message: Body) -> str | None:
    """A time that whoever kept the messages wrote on them."""
    return to_utc(message.get("timestamp")) or to_utc(message.get("created_at"))
