"""The payload of `chat:send`: a message, an answer or both, and how the agent is to handle it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from open_token.model.agent_settings import AgentSettings, dump_settings, parse_settings
from open_token.server.agent.output_schema import find_schema_error
from open_token.server.core.message_parts import find_part_fault
from open_token.server.errors import ApiError, bad_request

Json = dict[str, Any]
Mode = Literal["planning", "executing"]

_MAX_PARTS = 200
_MAX_QUESTIONS = 50
_MAX_ID_LENGTH = 200


class WhatIf(Struct, frozen=True):
    """Continue from an earlier step on a new branch."""

    from_step: int
    quotes: list[Any] = field(default_factory=list)
    deprecate_entry_ids: list[str] = field(default_factory=list)


class Answer(Struct, frozen=True):
    """An answer to a question, in either of its two shapes."""

    tool_call_id: str | None = None
    prompt_id: str | None = None
    selections: dict[str, list[int]] = field(default_factory=dict)
    custom: dict[str, str] = field(default_factory=dict)
    answer: str | None = None


class ToolResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The result of a tool call that the client executed."""

    tool_call_id: str
    result: Any = None
    is_error: bool = False


class ChatRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to the agent; fields that are null are taken as missing."""

    session_id: str
    message: str | list[Json] = ""
    mode: Mode | None = None
    askuser_answer: Answer | None = None
    model: str | None = None
    headless: bool = False
    output_schema: Json | None = None
    whatif: WhatIf | None = None
    replay_decision: Any = None
    runtime_env: dict[str, str] | None = None
    client_message_id: str | None = None
    settings: AgentSettings = AgentSettings()
    """Settings for this message only."""
    tool_results: Annotated[list[ToolResult], Meta(max_length=128)] = field(default_factory=list)
    """Results of tools that the client executes."""
    thinking_override: bool | None = None
    compaction_ratio: float | None = None
    """Names of clients for two of the settings."""
    app_context: Any = None
    """What the page around the chat shows: given to the model with the message."""

    @property
    def text(self) -> str:
        """The text of the message, without images and files."""
        if isinstance(self.message, str):
            return self.message
        return "\n".join(part["text"] for part in self.message if part["type"] == "text")


def parse_chat_request(payload: Any) -> ChatRequest:
    """Parse and validate a payload.

    Errors name the field that is wrong, never its value."""
    if not isinstance(payload, dict):
        raise bad_request("chat:send takes an object")
    fields = {name: value for name, value in payload.items() if value is not None}
    try:
        request = msgspec.convert(fields, ChatRequest)
        shortcuts: Json = {
            "thinking": request.thinking_override,
            "compaction_ratio": request.compaction_ratio,
        }
        settings = dump_settings(request.settings) | _drop_missing(shortcuts)
        request = msgspec.structs.replace(request, settings=parse_settings(settings))
    except msgspec.ValidationError as fault:
        raise bad_request(_describe_fault(str(fault))) from None
    _validate(request)
    return request


def parse_queued_message(message: Json) -> ChatRequest:
    """Parse a message of the log; an earlier version may have queued fields that are unknown now."""
    known = {
        name: value for name, value in message.items() if name in ChatRequest.__struct_fields__
    }
    return parse_chat_request(known)


def _drop_missing(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _describe_fault(fault: str) -> str:
    """Reword an error of msgspec, which quotes the value of an unknown enum member."""
    what, _, path = fault.partition(" - at ")
    if "Invalid enum value" in what:
        what = "not one of the allowed values"
    if path:
        return f"{what} at {path.strip('`')}"
    return what


def _validate(request: ChatRequest) -> None:
    has_answer = request.askuser_answer is not None or bool(request.tool_results)
    if request.askuser_answer is not None and request.tool_results:
        raise bad_request("askuser_answer and tool_results cannot be combined")
    if isinstance(request.message, str):
        if not request.message.strip() and not has_answer:
            raise bad_request("message is empty")
    else:
        _validate_parts(request.message, has_answer)
    message_id = request.client_message_id
    if message_id is not None and not 0 < len(message_id) <= _MAX_ID_LENGTH:
        raise bad_request(f"client_message_id must have 1 to {_MAX_ID_LENGTH} characters")
    if request.output_schema is not None:
        fault = find_schema_error(request.output_schema)
        if fault:
            raise bad_request(f"output_schema: {fault}")
    if request.whatif is not None and request.whatif.from_step < 0:
        raise bad_request("whatif.from_step must be 0 or more")
    if has_answer and request.whatif is not None:
        raise bad_request("whatif and askuser_answer cannot be combined")
    _validate_environment(request.runtime_env or {})


def _validate_environment(env: dict[str, str]) -> None:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise bad_request(
                "runtime_env: names must not be empty or contain '=', "
                "and neither names nor values may contain NUL"
            )


def _validate_parts(parts: list[Json], has_answer: bool) -> None:
    if not parts and not has_answer:
        raise bad_request("message is empty")
    if len(parts) > _MAX_PARTS:
        raise bad_request(f"message has more than {_MAX_PARTS} parts")
    for index, part in enumerate(parts):
        fault = find_part_fault(part)
        if fault:
            raise bad_request(f"message[{index}]: {fault}")


def validate_answer(answer: Answer, questions: list[Json]) -> Json:
    """Return an answer as it is logged; each question needs a selection or custom text."""
    if answer.answer is not None:
        return {"answer": answer.answer}
    for index, question in enumerate(questions[:_MAX_QUESTIONS]):
        selected = answer.selections.get(str(index), [])
        custom = answer.custom.get(str(index), "")
        if not selected and not custom:
            raise _answer_error(index, "no answer")
        options = question.get("options") or []
        if any(not 0 <= choice < len(options) for choice in selected):
            raise _answer_error(index, "an invalid option")
        if len(selected) > 1 and not question.get("multiSelect"):
            raise _answer_error(index, "more than one option")
    return {"selections": answer.selections, "custom": answer.custom}


def _answer_error(index: int, what: str) -> ApiError:
    return bad_request(f"askuser_answer: question {index} has {what}", "bad_answer")
