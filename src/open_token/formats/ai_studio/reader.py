"""Reader of Google AI Studio prompts: chunks in the shape of Gemini API contents, and more."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_dicts, as_text, pick_fields
from open_token.formats.shared.gemini_contents import add_content, build_content, list_parts
from open_token.formats.shared.message_writer import CallMatcher, MessageWriter
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_FILE_REFERENCES = {
    "driveImage": "image",
    "driveVideo": "video",
    "driveAudio": "audio",
    "driveDocument": "file",
    "youtubeVideo": "video",
}
_INLINE_MEDIA = ("inlineFile", "inlineImage", "inlineAudio", "inlineVideo", "inlineData")
_ACTIONS = ("executableCode", "codeExecutionResult", "functionCall", "functionResponse")
_KNOWN_FIELDS = frozenset(
    (
        "text parts role tokenCount isThought thinkingBudget thinkingLevel thoughtSignature"
        " thoughtSignatures finishReason createTime isEdited grounding errorMessage id"
        " branchParent branchChildren isGeneratedUsingApiKey model safetyRatings"
    ).split()
)
_TEXT_FIELDS = ("text", "thought", "thoughtSignature")


def read(source: Source, draft: Draft) -> None:
    """Add the conversation to the draft, in source order."""
    draft.conversation["source_runtime"] = "web"
    draft.conversation["provider"] = "google"
    for _, record in source.records():
        if isinstance(record, dict) and isinstance(record.get("chunkedPrompt"), dict):
            _PromptReader(draft, record).read()


class _PromptReader:
    """Adds one prompt to the draft."""

    def __init__(self, draft: Draft, record: JsonObject) -> None:
        self._draft = draft
        self._record = record
        self._calls = CallMatcher(draft)
        settings = record.get("runSettings")
        self._settings: JsonObject = settings if isinstance(settings, dict) else {}
        self._reasoning_tokens = 0

    def read(self) -> None:
        record = self._record
        prompt = record["chunkedPrompt"]
        title = as_text(record.get("title")) or as_text(record.get("displayName"))
        if title:
            self._draft.conversation["title"] = title
        conversation_id = as_text(record.get("id"))
        if conversation_id:
            self._draft.conversation["id"] = conversation_id
        if self._settings:
            self._draft.add_annotation({"kind": "context", "run_settings": self._settings})
        self._add_instruction(record.get("systemInstruction"))
        chunks = prompt.get("chunks")
        for number, chunk in enumerate(chunks if isinstance(chunks, list) else (), 1):
            self._add_chunk(chunk, f"chunk {number}")
        self._add_reasoning_usage()
        if record.get("citations"):
            self._draft.add_annotation({"kind": "message_facts", "citations": record["citations"]})
        self._add_pending_inputs(prompt.get("pendingInputs"))
        self._add_pending_inputs(record.get("pendingInputs"))

    def _add_instruction(self, instruction: Any) -> None:
        parts = list_parts(instruction)
        if not parts and isinstance(instruction, dict) and as_text(instruction.get("text")):
            parts = [{"text": instruction["text"]}]
        if parts:
            actor = self._draft.get_actor("system", "system")
            self._draft.add_message("system", build_content({"parts": parts}), actor)

    def _add_chunk(self, chunk: Any, place: str) -> None:
        role = chunk.get("role") if isinstance(chunk, dict) else None
        if role not in ("user", "model"):
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
            return
        ts = to_utc(chunk.get("createTime"))
        if ts and not self._draft.first_ts:
            self._draft.conversation.setdefault("started_at", ts)
        if role == "user":
            self._add_reasoning_usage()
            actor = self._draft.get_actor("human", "user")
            usage = None
        else:
            actor = self._get_model_actor(chunk)
            usage = self._take_usage(chunk)
        writer = MessageWriter(self._draft, actor, self._calls, place, ts, usage)
        parts = self._build_parts(chunk, place)
        if parts or role == "user":
            add_content(writer, {"parts": parts}, "user" if role == "user" else "assistant")
        _add_facts(chunk, writer)
        writer.close()

    def _get_model_actor(self, chunk: JsonObject) -> str:
        model = as_text(chunk.get("model")) or as_text(self._settings.get("model")) or ""
        return self._draft.get_actor(
            "model", "assistant", provider="google", model=model.removeprefix("models/") or None
        )

    def _take_usage(self, chunk: JsonObject) -> Usage | None:
        """Return the tokens of a chunk; those of reasoning go to the answer that follows it."""
        count = chunk.get("tokenCount")
        if type(count) is not int or count < 0:
            count = 0
        if chunk.get("isThought") is True:
            self._reasoning_tokens += count
            return None
        reasoning = self._reasoning_tokens
        self._reasoning_tokens = 0
        if not count and not reasoning:
            return None
        return build_usage(output_tokens=count + reasoning, reasoning_tokens=reasoning or None)

    def _add_reasoning_usage(self) -> None:
        """Add the tokens of reasoning that no answer followed."""
        reasoning = self._reasoning_tokens
        self._reasoning_tokens = 0
        if reasoning:
            usage: Usage = {"output_tokens": reasoning, "reasoning_tokens": reasoning}
            actor = self._get_model_actor({})
            self._draft.add_annotation({"kind": "usage"}, actor=actor, usage=usage)

    def _build_parts(self, chunk: JsonObject, place: str) -> list[JsonObject]:
        """Return a chunk as parts of the API: its text or its parts, then its other fields.

        The text usually repeats the texts of the parts.
        """
        parts = [part for part in list_parts(chunk.get("parts")) if part]
        text = as_text(chunk.get("text"))
        if text:
            part_text = "".join(str(part.get("text") or "") for part in parts)
            if part_text in text and all(map(_is_text_part, parts)):
                parts = [{"text": text}]
            elif text not in part_text:
                parts = [{"text": text}, *parts]
        if chunk.get("isThought") is True:
            parts = [{**part, "thought": True} if "text" in part else part for part in parts]
        return parts + self._build_other_parts(chunk, place)

    def _build_other_parts(self, chunk: JsonObject, place: str) -> list[JsonObject]:
        parts: list[JsonObject] = []
        for name, value in chunk.items():
            if name in _ACTIONS and isinstance(value, dict):
                parts.append({name: value})
            elif name in _INLINE_MEDIA and isinstance(value, dict):
                parts.append({"inlineData": value})
            elif name in _FILE_REFERENCES:
                file = value if isinstance(value, dict) else {"id": value}
                block = {"type": _FILE_REFERENCES[name], "source": name}
                parts.append(block | pick_fields(file, "id", "name", "mimeType", "url"))
                self._draft.note_omission(
                    "missing-file",
                    place,
                    f"{name}: a file that lies elsewhere, kept as a reference",
                    what="attachment",
                )
            elif name not in _KNOWN_FIELDS and value not in (None, "", [], {}):
                self._draft.note_omission("unknown-part", place, f"part {format_kind(name)}")
        return parts

    def _add_pending_inputs(self, pending: Any) -> None:
        """Add what the person typed and did not send."""
        for item in as_dicts(pending):
            text = as_text(item.get("text"))
            if text:
                self._draft.add_annotation({"kind": "pending_input", "text": text})


def _add_facts(chunk: JsonObject, writer: MessageWriter) -> None:
    facts: JsonObject = {}
    if chunk.get("finishReason") not in (None, "STOP"):
        facts["finish_reason"] = chunk["finishReason"]
    if chunk.get("isEdited") is True:
        facts["edited"] = True
    if chunk.get("grounding"):
        facts["grounding"] = chunk["grounding"]
    if chunk.get("branchParent"):
        facts["branched_from"] = chunk["branchParent"]
    if chunk.get("role") == "user" and type(chunk.get("tokenCount")) is int:
        facts["token_count"] = chunk["tokenCount"]
    if facts:
        writer.add_annotation("message_facts", **facts)
    if as_text(chunk.get("errorMessage")):
        writer.add_annotation("error", error=chunk["errorMessage"])


def _is_text_part(part: JsonObject) -> bool:
    return all(name in _TEXT_FIELDS for name in part)
