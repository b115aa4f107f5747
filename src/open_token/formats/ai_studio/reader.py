"""Tells a prompt of Google AI Studio: its chunks as contents of the Gemini API, with what a chunk
alone can hold."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.model_message import Body, Calls, Voice, counts
from open_token.formats.shared.responses_content import kept, name_of, word
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source

_FILES = {
    "driveImage": "image",
    "driveVideo": "video",
    "driveAudio": "audio",
    "driveDocument": "file",
    "youtubeVideo": "video",
}
_INLINE = ("inlineFile", "inlineImage", "inlineAudio", "inlineVideo", "inlineData")
_DONE = ("executableCode", "codeExecutionResult", "functionCall", "functionResponse")
_KNOWN = frozenset(
    "text parts role tokenCount isThought thinkingBudget thinkingLevel thoughtSignature thoughtSignatures finishReason"
    " createTime isEdited grounding errorMessage id branchParent branchChildren isGeneratedUsingApiKey model"
    " safetyRatings".split()
)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    draft.conversation["source_runtime"] = "web"
    draft.conversation["provider"] = "google"
    for _, record in source.records():
        if isinstance(record, dict) and isinstance(record.get("chunkedPrompt"), dict):
            _Prompt(draft, record).tell()


class _Prompt:
    """One prompt on its way into the draft."""

    def __init__(self, draft: Draft, record: Body) -> None:
        self._draft = draft
        self._record = record
        self._calls = Calls(draft)
        settings = record.get("runSettings")
        self._settings: Body = settings if isinstance(settings, dict) else {}
        self._thinking = 0

    def tell(self) -> None:
        prompt = self._record["chunkedPrompt"]
        if title := word(self._record.get("title")) or word(self._record.get("displayName")):
            self._draft.conversation["title"] = title
        if name := word(self._record.get("id")):
            self._draft.conversation["id"] = name
        if self._settings:
            self._draft.add_annotation({"kind": "context", "run_settings": self._settings})
        self._tell_instruction(self._record.get("systemInstruction"))
        chunks = prompt.get("chunks")
        for number, chunk in enumerate(chunks if isinstance(chunks, list) else (), 1):
            self._tell_chunk(chunk, f"chunk {number}")
        self._spend_thoughts()
        if cited := self._record.get("citations"):
            self._draft.add_annotation({"kind": "message_facts", "citations": cited})
        self._tell_pending(prompt.get("pendingInputs"))
        self._tell_pending(self._record.get("pendingInputs"))

    def _tell_instruction(self, instruction: Any) -> None:
        parts = wire.parts(instruction)
        if not parts and isinstance(instruction, dict) and word(instruction.get("text")):
            parts = [{"text": instruction["text"]}]
        if parts:
            self._draft.add_message(
                "system", wire.prompt({"parts": parts}), self._draft.get_actor("system", "system")
            )

    def _tell_chunk(self, chunk: Any, place: str) -> None:
        role = chunk.get("role") if isinstance(chunk, dict) else None
        if role not in ("user", "model"):
            self._draft.note_omission("unknown-role", place, f"role {name_of(role)}")
            return
        ts = to_utc(chunk.get("createTime"))
        if ts and not self._draft.first_ts:
            self._draft.conversation.setdefault("started_at", ts)
        if role == "user":
            self._spend_thoughts()
            voice = Voice(
                self._draft, self._draft.get_actor("human", "user"), self._calls, place, ts
            )
        else:
            voice = Voice(
                self._draft, self._model(chunk), self._calls, place, ts, self._usage(chunk)
            )
        parts = self._parts(chunk, place)
        if parts or role == "user":
            wire.tell(voice, {"parts": parts}, "user" if role == "user" else "assistant")
        self._note(chunk, voice)
        voice.close()

    def _model(self, chunk: Body) -> str:
        model = word(chunk.get("model")) or word(self._settings.get("model")) or ""
        return self._draft.get_actor(
            "model", "assistant", provider="google", model=model.removeprefix("models/") or None
        )

    def _usage(self, chunk: Body) -> Usage | None:
        """The tokens of a chunk; those of thoughts are told with the answer that they led to."""
        count = chunk.get("tokenCount")
        count = count if type(count) is int and count >= 0 else 0
        if chunk.get("isThought") is True:
            self._thinking += count
            return None
        thinking, self._thinking = self._thinking, 0
        if not count and not thinking:
            return None
        return counts(output_tokens=count + thinking, reasoning_tokens=thinking or None)

    def _spend_thoughts(self) -> None:
        """Thoughts without an answer: their tokens are told alone."""
        thinking, self._thinking = self._thinking, 0
        if thinking:
            usage: Usage = {"output_tokens": thinking, "reasoning_tokens": thinking}
            self._draft.add_annotation({"kind": "usage"}, actor=self._model({}), usage=usage)

    def _parts(self, chunk: Body, place: str) -> list[Body]:
        """What a chunk holds, as parts of the API: its text, else its parts, then what stands
        beside them."""
        is_thought = chunk.get("isThought") is True
        given = [part for part in wire.parts(chunk.get("parts")) if part]
        text = chunk.get("text")
        pieces = "".join(str(part.get("text") or "") for part in given)
        if (
            isinstance(text, str)
            and text
            and (pieces in text or not given)
            and not any(map(_is_more, given))
        ):
            given = [{"text": text}]
        elif isinstance(text, str) and text and text not in pieces:
            given = [{"text": text}, *given]
        if is_thought:
            given = [{**part, "thought": True} if "text" in part else part for part in given]
        return given + self._beside(chunk, place)

    def _beside(self, chunk: Body, place: str) -> list[Body]:
        made: list[Body] = []
        for name, value in chunk.items():
            if name in _DONE and isinstance(value, dict):
                made.append({name: value})
            elif name in _INLINE and isinstance(value, dict):
                made.append({"inlineData": value})
            elif name in _FILES:
                about = value if isinstance(value, dict) else {"id": value}
                made.append(
                    {
                        "type": _FILES[name],
                        "source": name,
                        **kept(about, "id", "name", "mimeType", "url"),
                    }
                )
                self._draft.note_omission(
                    "missing-file",
                    place,
                    f"{name}: a file that lies elsewhere, kept as a reference",
                )
            elif name not in _KNOWN and value not in (None, "", [], {}):
                self._draft.note_omission("unknown-part", place, f"part {name_of(name)}")
        return made

    def _note(self, chunk: Body, voice: Voice) -> None:
        facts: Body = {}
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
            voice.note("message_facts", **facts)
        if word(chunk.get("errorMessage")):
            voice.note("error", error=chunk["errorMessage"])

    def _tell_pending(self, pending: Any) -> None:
        """What the person typed and did not send."""
        for item in pending if isinstance(pending, list) else ():
            text = item.get("text") if isinstance(item, dict) else None
            if isinstance(text, str) and text:
                self._draft.add_annotation({"kind": "pending_input", "text": text})


def _is_more(part: Body) -> bool:
    """Whether a part is more than words."""
    return any(name not in ("text", "thought", "thoughtSignature") for name in part)
