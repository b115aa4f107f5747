"""Read the output of `cursor-agent --output-format stream-json`: one event a line.

With partial output an answer comes in pieces, and then once more as a whole.
"""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Usage
from open_token.sources.source import Source

_CALL_SUFFIX = "ToolCall"


def read_stream(source: Source, draft: Draft) -> None:
    """Read the stream into the draft."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    reader = _StreamReader(draft)
    for number, record in source.records():
        reader.read_event(record if isinstance(record, dict) else {}, f"line {number}")
    reader.finish()


class _StreamReader:
    """Adds the events of a stream to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._model: str | None = None
        self._role: str | None = None
        """Whose pieces are collected: `assistant` or `thinking`."""
        self._pieces: list[str] = []
        self._pieces_ts: str | None = None
        self._answers: list[str] = []
        """The answers since the last prompt, one of which the stream may repeat."""
        self._is_partial = False
        """Whether answers come in pieces and then as a whole."""
        self._last_output: str | None = None

    @property
    def _actor(self) -> str:
        return self._draft.get_actor("model", "assistant", model=self._model)

    def read_event(self, event: JsonObject, position: str) -> None:
        """Read one event."""
        kind = event.get("type")
        ts = from_epoch(event.get("timestamp_ms"), 0.001)
        if kind == "assistant":
            text = self._read_text(event, position)
            # Pieces have a time and nothing else; without it, or with the id of a call, an event
            # may repeat the pieces before it.
            is_piece = ts is not None and "model_call_id" not in event
            self._is_partial = self._is_partial or is_piece
            if is_piece or not self._is_partial or not self._is_repetition(text):
                self._add_piece("assistant", text, ts)
            return
        if kind == "thinking" and event.get("subtype") == "delta":
            self._add_piece("thinking", get_text(event, "text") or "", ts)
            return
        self.finish()
        if kind == "system":
            self._read_start(event, ts)
        elif kind == "user":
            person = self._draft.get_actor("human", "user")
            self._draft.add_message("user", self._read_text(event, position), person, ts=ts)
            self._answers = []
        elif kind == "tool_call":
            self._read_call(event, ts, position)
        elif kind == "result":
            self._read_end(event, ts)
        elif kind != "thinking":
            self._draft.note_omission("unknown-record", position, f"event {format_kind(kind)}")

    def _read_text(self, event: JsonObject, position: str) -> str:
        """Return the text of a message; blocks of other kinds are not known to occur."""
        content = get_dict(event, "message").get("content")
        if isinstance(content, str):
            return content
        texts = []
        for block in content if isinstance(content, list) else [content]:
            text = get_text(block, "text")
            if text is None:
                self._draft.note_omission("unknown-part", position, "content that is not text")
            else:
                texts.append(text)
        return "".join(texts)

    def _add_piece(self, role: str, text: str, ts: str | None) -> None:
        if role != self._role:
            self.finish()
        self._role = role
        self._pieces_ts = self._pieces_ts or ts
        self._pieces.append(text)

    def _is_repetition(self, text: str) -> bool:
        """Return whether the text repeats the last answer, or all answers since the prompt."""
        pieces = self._pieces if self._role == "assistant" else []
        # An answer comes in pieces and once more as a whole; the end repeats the whole turn.
        last_answer = "".join(pieces) or "".join(self._answers[-1:])
        whole_turn = "".join([*self._answers, *pieces])
        return text in (last_answer, whole_turn)

    def finish(self) -> None:
        """Add the message whose pieces were collected."""
        text = "".join(self._pieces)
        if text and self._role == "thinking":
            self._draft.add_reasoning(text, self._actor, ts=self._pieces_ts)
        elif text:
            message = self._draft.add_message("assistant", text, self._actor, ts=self._pieces_ts)
            self._last_output = message["id"]
            self._answers.append(text)
        self._role = None
        self._pieces = []
        self._pieces_ts = None

    def _read_start(self, event: JsonObject, ts: str | None) -> None:
        session_id = get_text(event, "session_id")
        if session_id:
            self._draft.conversation.setdefault("id", session_id)
        self._model = get_text(event, "model") or self._model
        facts = pick_fields(event, "cwd", "permissionMode")
        self._draft.add_annotation({"kind": "context", **facts}, ts=ts)

    def _read_call(self, event: JsonObject, ts: str | None, position: str) -> None:
        """Add a call when it starts, and its result when it is complete."""
        call_id = get_text(event, "call_id")
        tool, body = _unpack_call(get_dict(event, "tool_call"))
        if call_id is None or not self._draft.is_call_open(call_id):
            arguments = body.get("args", body.get("arguments"))
            call_id = self._draft.add_tool_call(
                call_id, tool, {} if arguments is None else arguments, self._actor, ts=ts
            )
            self._last_output = f"evt_{self._draft.count:06d}"
        if event.get("subtype") != "completed":
            return
        result = body.get("result")
        if result is None:
            self._draft.note_omission("no-output", position, "call that ended without a result")
            return
        outcome, output = _unpack_result(result)
        facts = {} if outcome == "success" else {"is_error": True, "status": outcome}
        self._draft.add_tool_result(call_id, output, ts=ts, facts=facts or None)

    def _read_end(self, event: JsonObject, ts: str | None) -> None:
        text = get_text(event, "result") or ""
        if text and text not in ("".join(self._answers), *self._answers[-1:]):
            self._draft.add_annotation({"kind": "final_output", "text": text}, ts=ts)
        facts = pick_fields(event, "subtype", "is_error", "duration_ms", "duration_api_ms")
        self._draft.add_annotation({"kind": "session_totals", **facts}, ts=ts)
        usage = _parse_usage(event.get("usage"))
        if usage and self._last_output:
            self._draft.set_usage(self._last_output, usage)
        elif usage:
            self._draft.add_annotation({"kind": "usage"}, ts=ts, usage=usage)


def _unpack_call(call: JsonObject) -> tuple[str, JsonObject]:
    """Return the name of a tool and what is known of its call.

    A call is an object with one key for its kind, such as `shellToolCall`.
    """
    for key, body in call.items():
        if not isinstance(body, dict):
            continue
        if key == "function":
            return get_text(body, "name") or "function", body
        if key.endswith(_CALL_SUFFIX):
            return key.removesuffix(_CALL_SUFFIX), body
    return "tool", call


def _unpack_result(result: Any) -> tuple[str, Any]:
    """Return how a call ended and what it returned: `{"success": {...}}`, `{"error": {...}}`."""
    if isinstance(result, dict) and len(result) == 1:
        outcome, output = next(iter(result.items()))
        return outcome, output
    return "success", result


def _parse_usage(usage: Any) -> Usage | None:
    """Return the counts of the run; Cursor counts cached input apart from the rest."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("inputTokens", "cacheReadTokens", "cacheWriteTokens")]
    known = [count for count in counts if type(count) is int and count >= 0]
    return build_usage(
        input_tokens=sum(known) if known else None,
        output_tokens=usage.get("outputTokens"),
        cache_read_tokens=usage.get("cacheReadTokens"),
        cache_write_tokens=usage.get("cacheWriteTokens"),
    )
