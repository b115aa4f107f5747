"""Read the messages of the model in an OpenCode session: text, reasoning, tool calls, usage."""

from typing import TYPE_CHECKING, Any

from open_token.agents.opencode.parts import (
    build_file_block,
    get_subsession_id,
    get_tool_facts,
    get_tool_output,
    parse_time,
    parse_usage,
)
from open_token.formats.shared.fields import JsonObject, drop_nulls, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.model.document import Usage

if TYPE_CHECKING:
    from open_token.agents.opencode.session import SessionReader, Thread

_NORMAL_FINISH = (None, "", "stop", "tool-calls", "unknown")
_ABORT_ERRORS = ("MessageAbortedError", "aborted")
_ENCRYPTED_FIELDS = ("redactedData", "signature", "thoughtSignature")
"""Provider metadata that holds encrypted reasoning; the first is Anthropic's name."""


class ModelMessageReader:
    """Reads the messages of the model in one session."""

    def __init__(self, session_reader: "SessionReader", thread: "Thread") -> None:
        self._session_reader = session_reader
        self._draft = session_reader.draft
        self._thread = thread
        self._actor = ""
        self._provider: str | None = None
        self._message: JsonObject = {}
        self._position = ""
        self._last_event: str | None = None
        """The event that the next token counts belong to."""
        self._has_usage = False

    def read(
        self, message: JsonObject, parts: list[JsonObject], position: str, cut: str | None
    ) -> None:
        """Read one message; `cut` is the id of the part from which on it was reverted."""
        self._message = message
        self._position = position
        self._provider = get_text(message, "providerID")
        model = get_text(message, "modelID")
        provider = self._session_reader.providers.add_model(self._provider, model)
        self._actor = self._draft.get_actor(
            "model", self._thread.name, provider=provider, model=model
        )
        self._last_event = None
        self._has_usage = False
        for part in parts:
            if cut and part.get("id") == cut and self._thread.cut is None:
                self._thread.cut = self._draft.count
            self._read_part(part)
        self._read_message_end()

    def _read_part(self, part: JsonObject) -> None:
        kind = part.get("type")
        if kind == "text":
            self._read_text(part)
        elif kind == "tool":
            self._read_tool_call(part)
        elif kind == "reasoning":
            self._read_reasoning(part)
        elif kind == "step-finish":
            # The end of a request. The message repeats the tokens of the last one.
            if self._add_usage(parse_usage(part.get("tokens"), self._provider)):
                self._has_usage = True
        # Snapshots are hashes of git trees; the files are not in the session.
        elif kind in ("step-start", "snapshot"):
            self._draft.note_omission("bookkeeping", self._position, f"part {kind}")
        elif kind == "patch":
            self._annotate({"kind": "patch", **pick_fields(part, "hash", "files")})
        elif kind == "file":
            self._add_message([build_file_block(part)], part)
        elif kind == "retry":
            error = self._parse_error(part.get("error"))
            data = {"kind": "api_error", **pick_fields(part, "attempt"), **error}
            self._annotate(data, parse_time(part, "created"))
        else:
            self._draft.note_omission("unknown-part", self._position, f"part {format_kind(kind)}")

    def _read_text(self, part: JsonObject) -> None:
        text = part.get("text")
        if not isinstance(text, str) or not text:
            return
        # OpenCode puts its own messages in the place of a response.
        if part.get("synthetic") is True:
            data = {"kind": "client_message", "text": text}
            self._annotate(data, self._get_time(part))
        else:
            self._add_message(text, part)

    def _add_message(self, content: str | list[Any], part: JsonObject) -> None:
        thread = self._thread
        event = self._draft.add_message(
            "assistant",
            content,
            self._actor,
            ts=self._get_time(part),
            visibility=thread.visibility,
            span=thread.span,
        )
        self._last_event = event["id"]
        if part.get("ignored") is True:
            self._draft.add_annotation({"kind": "message_facts", "ignored": True}, parent=event)
        if self._message.get("summary") is True:
            self._draft.add_annotation({"kind": "compaction_summary"}, parent=event)

    def _read_reasoning(self, part: JsonObject) -> None:
        text = get_text(part, "text")
        metadata = get_dict(part, "metadata")
        # OpenAI returns a summary and the reasoning itself encrypted.
        openai = get_dict(metadata, "openai")
        is_encrypted = bool(openai.get("reasoningEncryptedContent"))
        if text is None and not is_encrypted and not _has_encrypted_reasoning(metadata):
            self._draft.note_omission("empty-reasoning", self._position, "reasoning without text")
            return
        event = self._draft.add_reasoning(
            text,
            self._actor,
            ts=self._get_time(part),
            span=self._thread.span,
            summary=bool(text and openai),
        )
        self._last_event = event["id"]
        if text and is_encrypted:
            self._draft.note_omission(
                "sealed-reasoning", self._position, "encrypted reasoning next to its summary"
            )

    def _read_tool_call(self, part: JsonObject) -> None:
        """Read a call with its result; a pending or running call has no result."""
        draft = self._draft
        span = self._thread.span
        state = get_dict(part, "state")
        call_id = get_text(part, "callID")
        arguments = state.get("input")
        if not arguments and state.get("raw"):
            arguments = state["raw"]
        # An id may be repeated while its call is open: then the draft generates a key.
        is_free = call_id is not None and not draft.is_call_open(call_id)
        message_id = self._message.get("id")
        key = draft.add_tool_call(
            call_id if is_free else None,
            get_text(part, "tool") or "tool",
            {} if arguments is None else arguments,
            self._actor,
            ts=parse_time(state, "start") or self._get_time({}),
            span=span,
            group=message_id if isinstance(message_id, str) else None,
            extra=_build_call_facts(part, None if is_free else call_id),
        )
        self._last_event = f"evt_{draft.count:06d}"
        subsession = get_subsession_id(state)
        if subsession:
            data = _describe_subagent(state)
            self._session_reader.read_subsession(self._thread, subsession, key, data, self._actor)
        output = get_tool_output(state)
        facts, has_bulk = get_tool_facts(state)
        if part.get("tool") == "invalid":
            # OpenCode redirects a malformed call to a tool of this name, which reports success.
            facts = {"is_error": True} | facts
        if has_bulk:
            draft.note_omission(
                "tool-metadata", self._position, "metadata of a result that the model did not see"
            )
        if output is not None:
            draft.add_tool_result(key, output, ts=parse_time(state, "end"), span=span, facts=facts)

    def _add_usage(self, usage: Usage | None) -> bool:
        """Add token counts to the last event; return whether there were any."""
        if usage is None:
            return False
        if self._last_event is not None:
            self._draft.set_usage(self._last_event, usage)
        else:
            self._annotate({"kind": "usage"}, usage=usage)
        self._last_event = None
        return True

    def _read_message_end(self) -> None:
        message = self._message
        if not self._has_usage:
            self._add_usage(parse_usage(message.get("tokens"), self._provider))
        finish = message.get("finish")
        if isinstance(finish, str) and finish not in _NORMAL_FINISH:
            self._annotate({"kind": "stop", "reason": finish})
        error = message.get("error")
        if error is not None:
            kind = "aborted" if get_text(error, "name") in _ABORT_ERRORS else "error"
            self._annotate({"kind": kind, **self._parse_error(error)})
        if message.get("structured") is not None:
            self._annotate({"kind": "message_facts", "structured": message["structured"]})
        cost = message.get("cost")
        if type(cost) in (int, float) and cost:
            self._annotate({"kind": "cost", "cost_usd": cost})
        elif type(cost) is dict and cost:
            self._annotate({"kind": "cost", "cost": cost})

    def _annotate(
        self, data: JsonObject, ts: str | None = None, usage: Usage | None = None
    ) -> None:
        if not ts:
            ts = parse_time(self._message, "completed") or parse_time(self._message, "created")
        self._draft.add_annotation(
            data, actor=self._session_reader.client, ts=ts, span=self._thread.span, usage=usage
        )

    def _parse_error(self, error: Any) -> JsonObject:
        """Return the fields of an error without the HTTP headers of the response."""
        if type(error) is not dict:
            return {"error": error}
        data = drop_nulls(get_dict(error, "data"))
        if data.pop("responseHeaders", None):
            self._draft.note_omission(
                "response-headers", self._position, "HTTP headers of a provider's response"
            )
        if {"kind", "name", "attempt"} & data.keys():
            # Fields of these names would overwrite those of the annotation.
            data = {"detail": data}
        if isinstance(error.get("name"), str):
            return {"name": error["name"], **data}
        return data

    def _get_time(self, part: JsonObject) -> str | None:
        return parse_time(part, "start") or parse_time(self._message, "created")


def _has_encrypted_reasoning(metadata: JsonObject) -> bool:
    for provider in metadata:
        provider_metadata = get_dict(metadata, provider)
        if any(provider_metadata.get(name) for name in _ENCRYPTED_FIELDS):
            return True
    return False


def _build_call_facts(part: JsonObject, call_id: str | None) -> JsonObject | None:
    facts: JsonObject = {}
    if get_dict(part, "metadata").get("providerExecuted") is True:
        facts["provider_executed"] = True
    if call_id:
        facts["native_call_id"] = call_id
    return facts or None


def _describe_subagent(state: JsonObject) -> JsonObject:
    """Return the data of the span of a subagent, from the call that started it."""
    arguments = get_dict(state, "input")
    model = get_dict(get_dict(state, "metadata"), "model")
    kind = get_text(arguments, "subagent_type") or get_text(arguments, "agent")
    data = {
        "spawn_reason": get_text(arguments, "description") or get_text(arguments, "prompt"),
        "tooling_scope": kind,
        "subagent_type": kind,
        "model": get_text(model, "modelID") or get_text(model, "id"),
    }
    return {name: value for name, value in data.items() if value}
