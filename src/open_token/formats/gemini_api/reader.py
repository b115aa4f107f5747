"""Tells what is said in the Gemini API: where its bodies, streams and the dumps of its libraries
hold what."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.api_conversation import Teller, tell_source
from open_token.formats.shared.api_detection import GEMINI
from open_token.formats.shared.gemini_contents import either
from open_token.formats.shared.model_message import Body, Calls, Voice, alternatives
from open_token.formats.shared.responses_content import kept, word
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_USUAL_ENDS = (None, "STOP", "FINISH_REASON_UNSPECIFIED")


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    tell_source(source, teller(draft))


def teller(draft: Draft) -> Teller:
    """What tells this dialect to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "google")
    draft.without_thoughts = "unknown"
    return _Gemini(draft)


class _Gemini:
    """Where this dialect holds what; see Teller."""

    name = GEMINI

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = Calls(draft)
        self._model: str | None = None
        self._answered = False

    def stream(self) -> wire.Partials:
        return wire.Partials()

    def meet(self, request: Body, response: Body) -> None:
        asked = word(request.get("model"))
        self._model = (
            word(either(response, "modelVersion"))
            or (asked or "").removeprefix("models/")
            or self._model
        )

    def preamble(self, request: Body) -> list[Any]:
        system = either(request, "systemInstruction") or either(
            request.get("config"), "systemInstruction"
        )
        return [{"role": "system", "parts": wire.parts(system)}] if wire.parts(system) else []

    def history(self, request: Body) -> list[Any]:
        contents = request.get("contents")
        return contents if isinstance(contents, list) else [contents] if contents else []

    def is_delta(self, request: Body) -> bool:
        return False

    def tools(self, request: Body) -> list[str]:
        config = request.get("config")
        tools = request.get("tools") or (config.get("tools") if isinstance(config, dict) else None)
        names: list[str] = []
        for tool in tools if isinstance(tools, list) else ():
            declared = either(tool, "functionDeclarations")
            if isinstance(declared, list):
                made = [word(one.get("name")) for one in declared if isinstance(one, dict)]
                names += [name for name in made if name]
            elif isinstance(tool, dict):
                names += [name for name, value in tool.items() if value is not None]
        return names

    def answer(self, response: Body) -> list[Any]:
        content = next((c.get("content") for c in self._candidates(response)), None)
        return [{**content, "role": "model"}] if isinstance(content, dict) else []

    def gists(self, item: Any) -> list[Any]:
        return wire.gists(item)

    def tell(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else "user"
        if isinstance(item, dict) and "parts" not in item:
            self.draft.note_omission("no-content", place, "a message without parts")
        if role == "system":
            self.draft.add_message(
                "system", wire.prompt(item), self.draft.get_actor("system", "system")
            )
        elif role == "model":
            self._answered = True
            wire.tell(self._voice(place), item, "assistant")
        else:
            voice = Voice(self.draft, self.draft.get_actor("human", "user"), self._calls, place)
            wire.tell(voice, item, "user")

    def _voice(self, place: str, ts: str | None = None) -> Voice:
        actor = self.draft.get_actor("model", "assistant", provider="google", model=self._model)
        return Voice(self.draft, actor, self._calls, place, ts)

    def _candidates(self, response: Body) -> list[Body]:
        given = response.get("candidates")
        return (
            [candidate for candidate in given if isinstance(candidate, dict)]
            if isinstance(given, list)
            else []
        )

    def tell_answer(self, response: Body, place: str) -> None:
        ts = to_utc(either(response, "createTime"))
        if ts and not self._answered:
            self.draft.conversation.setdefault("started_at", ts)
        self._answered = True
        voice = self._voice(place, ts)
        voice.usage = wire.usage(either(response, "usageMetadata"))
        if voice.usage and voice.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        if isinstance(response.get("error"), dict):
            voice.note("error", error=response["error"])
        blocked = either(either(response, "promptFeedback"), "blockReason")
        if blocked:
            voice.note("message_facts", block_reason=blocked)
        for _ in response.get(wire.ODD, ()):
            self.draft.note_omission("no-content", place, "a piece of a stream without parts")
        candidates = self._candidates(response)
        if candidates:
            self._tell_candidate(voice, candidates[0])
        voice.close()
        alternatives(self.draft, self._others(candidates[1:], place, ts))

    def _others(self, candidates: list[Body], place: str, ts: str | None) -> Iterator[Voice]:
        for number, candidate in enumerate(candidates, 2):
            voice = self._voice(f"{place}, candidate {number}", ts)
            voice.calls = Calls(self.draft)
            self._tell_candidate(voice, candidate)
            yield voice

    def _tell_candidate(self, voice: Voice, candidate: Body) -> None:
        content = candidate.get("content")
        if wire.parts(content):
            wire.tell(voice, content, "assistant")
        elif wire.is_odd(candidate):
            self.draft.note_omission("no-content", voice.place, "a candidate without parts")
        facts: Body = {}
        reason = either(candidate, "finishReason")
        if reason not in _USUAL_ENDS:
            facts["finish_reason"] = reason
        cited = either(candidate, "citationMetadata")
        if isinstance(cited, dict):
            facts["citations"] = cited.get("citationSources") or cited.get("citations")
        found = either(candidate, "groundingMetadata")
        if isinstance(found, dict):
            facts["grounding"] = kept(
                found,
                "webSearchQueries",
                "web_search_queries",
                "groundingChunks",
                "grounding_chunks",
            )
        if facts:
            voice.note("message_facts", **facts)
