"""Reader of the Gemini API: the layout of its bodies, streams and library dumps."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.api_conversation import Dialect, read_source
from open_token.formats.shared.api_detection import GEMINI
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, pick_fields
from open_token.formats.shared.gemini_contents import (
    UNMERGED,
    ChunkMerger,
    add_content,
    build_comparison_keys,
    build_content,
    get_either_case,
    is_unrecognized,
    list_parts,
    parse_usage,
)
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter, add_alternatives
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_NORMAL_FINISH_REASONS = (None, "STOP", "FINISH_REASON_UNSPECIFIED")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    read_source(source, create_dialect(draft))


def create_dialect(draft: Draft) -> Dialect:
    """Return what adds bodies of this API to the draft."""
    draft.conversation.setdefault("source_runtime", "api")
    draft.conversation.setdefault("provider", "google")
    draft.without_thoughts = "unknown"
    return _GeminiDialect(draft)


class _GeminiDialect:
    """The Gemini API; see Dialect."""

    name = GEMINI

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._calls = CallMatcher(draft)
        self._model: str | None = None
        self._has_answer = False

    def create_merger(self) -> ChunkMerger:
        return ChunkMerger()

    def start_exchange(self, request: JsonObject, response: JsonObject) -> None:
        asked = as_text(request.get("model")) or ""
        answered = as_text(get_either_case(response, "modelVersion"))
        self._model = answered or asked.removeprefix("models/") or self._model

    def get_prompts(self, request: JsonObject) -> list[Any]:
        config = request.get("config")
        system = get_either_case(request, "systemInstruction")
        if not system:
            system = get_either_case(config, "systemInstruction")
        parts = list_parts(system)
        return [{"role": "system", "parts": parts}] if parts else []

    def get_history(self, request: JsonObject) -> list[Any]:
        contents = request.get("contents")
        if isinstance(contents, list):
            return contents
        return [contents] if contents else []

    def is_delta(self, request: JsonObject) -> bool:
        return False

    def list_tools(self, request: JsonObject) -> list[str]:
        tools = request.get("tools")
        config = request.get("config")
        if not tools and isinstance(config, dict):
            tools = config.get("tools")
        names: list[str] = []
        for tool in tools if isinstance(tools, list) else ():
            declarations = get_either_case(tool, "functionDeclarations")
            if isinstance(declarations, list):
                declared = [as_text(item.get("name")) for item in as_dicts(declarations)]
                names += [name for name in declared if name]
            elif isinstance(tool, dict):
                # A tool of the provider is an object under its name.
                names += [name for name, value in tool.items() if value is not None]
        return names

    def get_output(self, response: JsonObject) -> list[Any]:
        candidates = as_dicts(response.get("candidates"))
        content = candidates[0].get("content") if candidates else None
        return [{**content, "role": "model"}] if isinstance(content, dict) else []

    def build_comparison_keys(self, item: Any) -> list[Any]:
        return build_comparison_keys(item)

    def add_item(self, item: Any, place: str) -> None:
        role = item.get("role") if isinstance(item, dict) else "user"
        if isinstance(item, dict) and "parts" not in item:
            self.draft.note_omission("no-content", place, "a message without parts")
        if role == "system":
            actor = self.draft.get_actor("system", "system")
            self.draft.add_message("system", build_content(item), actor)
        elif role == "model":
            self._has_answer = True
            add_content(self._create_writer(place), item, "assistant")
        else:
            actor = self.draft.get_actor("human", "user")
            writer = MessageWriter(self.draft, actor, self._calls, place)
            add_content(writer, item, "user")

    def _create_writer(self, place: str, ts: str | None = None) -> MessageWriter:
        actor = self.draft.get_actor("model", "assistant", provider="google", model=self._model)
        return MessageWriter(self.draft, actor, self._calls, place, ts)

    def add_response(self, response: JsonObject, place: str) -> None:
        ts = to_utc(get_either_case(response, "createTime"))
        if ts and not self._has_answer:
            self.draft.conversation.setdefault("started_at", ts)
        self._has_answer = True
        writer = self._create_writer(place, ts)
        writer.usage = parse_usage(get_either_case(response, "usageMetadata"))
        if writer.usage and writer.usage.get("reasoning_tokens"):
            self.draft.without_thoughts = "unavailable"
        if isinstance(response.get("error"), dict):
            writer.add_annotation("error", error=response["error"])
        block_reason = get_either_case(get_either_case(response, "promptFeedback"), "blockReason")
        if block_reason:
            writer.add_annotation("message_facts", block_reason=block_reason)
        for _ in response.get(UNMERGED, ()):
            self.draft.note_omission("no-content", place, "a piece of a stream without parts")
        candidates = as_dicts(response.get("candidates"))
        if candidates:
            self._add_candidate(writer, candidates[0])
        writer.close()
        add_alternatives(self.draft, self._add_other_candidates(candidates[1:], place, ts))

    def _add_other_candidates(
        self, candidates: list[JsonObject], place: str, ts: str | None
    ) -> Iterator[MessageWriter]:
        for number, candidate in enumerate(candidates, 2):
            writer = self._create_writer(f"{place}, candidate {number}", ts)
            writer.calls = CallMatcher(self.draft)
            self._add_candidate(writer, candidate)
            yield writer

    def _add_candidate(self, writer: MessageWriter, candidate: JsonObject) -> None:
        content = candidate.get("content")
        if list_parts(content):
            add_content(writer, content, "assistant")
        elif is_unrecognized(candidate):
            self.draft.note_omission("no-content", writer.place, "a candidate without parts")
        facts = _build_facts(candidate)
        if facts:
            writer.add_annotation("message_facts", **facts)


def _build_facts(candidate: JsonObject) -> JsonObject:
    facts: JsonObject = {}
    reason = get_either_case(candidate, "finishReason")
    if reason not in _NORMAL_FINISH_REASONS:
        facts["finish_reason"] = reason
    citations = get_either_case(candidate, "citationMetadata")
    if isinstance(citations, dict):
        facts["citations"] = citations.get("citationSources") or citations.get("citations")
    grounding = get_either_case(candidate, "groundingMetadata")
    if isinstance(grounding, dict):
        facts["grounding"] = pick_fields(
            grounding,
            "webSearchQueries",
            "web_search_queries",
            "groundingChunks",
            "grounding_chunks",
        )
    return facts
