"""Read the output of `gemini --output-format stream-json`: one event a line, answers in pieces."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source


def read_stream(source: Source, draft: Draft) -> None:
    """Read the stream into the draft."""
    draft.conversation["source_runtime"] = "cli"
    draft.conversation["provider"] = "google"
    # The stream has no reasoning, whether or not there was any.
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
        self._pieces: list[str] = []
        self._pieces_ts: str | None = None
        self._last_output: str | None = None

    @property
    def _actor(self) -> str:
        return self._draft.get_actor("model", "assistant", provider="google", model=self._model)

    def read_event(self, event: JsonObject, position: str) -> None:
        """Read one event."""
        kind = event.get("type")
        ts = to_utc(event.get("timestamp"))
        # An answer comes in pieces, which end with the next event of another type.
        if kind == "message" and event.get("role") == "assistant" and event.get("delta"):
            self._pieces_ts = self._pieces_ts or ts
            self._pieces.append(get_text(event, "content") or "")
            return
        self.finish()
        if kind == "init":
            self._read_start(event, ts)
        elif kind == "message":
            self._read_message(event, ts)
        elif kind == "tool_use":
            self._draft.add_tool_call(
                get_text(event, "tool_id"),
                get_text(event, "tool_name") or "tool",
                event.get("parameters") or {},
                self._actor,
                ts=ts,
            )
            self._last_output = f"evt_{self._draft.count:06d}"
        elif kind == "tool_result":
            self._read_result(event, ts)
        elif kind == "error":
            self._annotate("error", ts, **pick_fields(event, "severity", "message"))
        elif kind == "result":
            self._read_end(event, ts)
        else:
            self._draft.note_omission("unknown-record", position, f"event {format_kind(kind)}")

    def finish(self) -> None:
        """Add the answer whose pieces were collected."""
        if self._pieces:
            text = "".join(self._pieces)
            message = self._draft.add_message("assistant", text, self._actor, ts=self._pieces_ts)
            self._last_output = message["id"]
        self._pieces = []
        self._pieces_ts = None

    def _annotate(self, kind: str, ts: str | None, **data: Any) -> None:
        self._draft.add_annotation({"kind": kind, **data}, ts=ts)

    def _read_start(self, event: JsonObject, ts: str | None) -> None:
        session_id = get_text(event, "session_id")
        if session_id:
            self._draft.conversation.setdefault("id", session_id)
        if ts:
            self._draft.conversation.setdefault("started_at", ts)
        self._model = get_text(event, "model") or self._model

    def _read_message(self, event: JsonObject, ts: str | None) -> None:
        text = get_text(event, "content") or ""
        if event.get("role") == "user":
            self._draft.add_message("user", text, self._draft.get_actor("human", "user"), ts=ts)
        else:
            message = self._draft.add_message("assistant", text, self._actor, ts=ts)
            self._last_output = message["id"]

    def _read_result(self, event: JsonObject, ts: str | None) -> None:
        """Read a result; the stream has only those outputs that are shown as text."""
        error = get_dict(event, "error")
        output = get_text(event, "output")
        facts: JsonObject = {}
        if event.get("status") == "error":
            facts["is_error"] = True
        if error:
            facts |= {"error_type": error.get("type")}
            message = get_text(error, "message")
            if output is None:
                output = message
            elif message and message not in output:
                facts["error"] = message
        if output is None:
            self._annotate("result_facts", ts, native_call_id=event.get("tool_id"), **facts)
            self._draft.note_omission("no-output", "a result", "output that the stream leaves out")
            output = ""
        self._draft.add_tool_result(get_text(event, "tool_id"), output, ts=ts, facts=facts or None)

    def _read_end(self, event: JsonObject, ts: str | None) -> None:
        error = get_dict(event, "error")
        if error:
            self._annotate("error", ts, **pick_fields(error, "type", "message"))
        stats = get_dict(event, "stats")
        facts = pick_fields(stats, "duration_ms", "tool_calls", "models")
        if facts:
            self._annotate("session_totals", ts, status=event.get("status"), **facts)
        usage = _parse_usage(stats)
        if usage and self._last_output:
            self._draft.set_usage(self._last_output, usage)
        elif usage:
            self._draft.add_annotation({"kind": "usage"}, ts=ts, usage=usage)


def _parse_usage(stats: JsonObject) -> Usage | None:
    """Return the counts of the whole run; the input includes cached tokens."""
    return build_usage(
        input_tokens=stats.get("input_tokens"),
        output_tokens=stats.get("output_tokens"),
        cache_read_tokens=stats.get("cached"),
    )
