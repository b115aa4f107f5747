"""What a client sent with `chat:send`, checked: a message, an answer, or both, and how the agent is
to work on it."""

from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from open_token.server.agent.output_schema import find_schema_error
from open_token.server.refusals import Refused, bad

Json = dict[str, Any]
Mode = Literal["planning", "executing"]

_MOST_PARTS = 200
_MOST_QUESTIONS = 50
_LONGEST_ID = 200
_IMAGES = ("https:", "http:", "data:image/")


class WhatIf(Struct, frozen=True):
    """Keep the first steps and go on from there on a new branch."""

    from_step: int
    quotes: list[Any] = field(default_factory=list)
    deprecate_entry_ids: list[str] = field(default_factory=list)


class Answer(Struct, frozen=True):
    """An answer to a question, in either of its shapes."""

    tool_call_id: str | None = None
    prompt_id: str | None = None
    selections: dict[str, list[int]] = field(default_factory=dict)
    custom: dict[str, str] = field(default_factory=dict)
    answer: str | None = None


class Sent(Struct, frozen=True, kw_only=True):
    """A message to the agent."""

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
    more: Json = field(default_factory=dict)
    """What else came: kept, and of no consequence."""

    @property
    def text(self) -> str:
        """The words of the message."""
        if isinstance(self.message, str):
            return self.message
        return "\n".join(part["text"] for part in self.message if part["type"] == "text")


def sent_of(payload: Any) -> Sent:
    """The message that a payload is; Refused with the place of what is wrong, never with what
    stands there."""
    if not isinstance(payload, dict):
        raise bad("chat:send takes an object")
    given = {name: value for name, value in payload.items() if value is not None and name != "more"}
    known = {name: value for name, value in given.items() if name in Sent.__struct_fields__}
    more = {
        name: value
        for name, value in payload.items()
        if name not in Sent.__struct_fields__ or name == "more"
    }
    try:
        sent = msgspec.convert({**known, "more": more}, Sent)
    except msgspec.ValidationError as fault:
        raise bad(_words(str(fault))) from None
    _check(sent)
    return sent


def _words(fault: str) -> str:
    """A fault of shape in our words; msgspec names types and places, and only for unknown words the
    word."""
    what, _, where = fault.partition(" - at ")
    if "Invalid enum value" in what:
        what = "not one of the values that are known"
    return f"{what} at {where.strip('`')}" if where else what


def _check(sent: Sent) -> None:
    answers = sent.askuser_answer is not None
    if isinstance(sent.message, str):
        if not sent.message.strip() and not answers:
            raise bad("message is empty")
    else:
        _check_parts(sent.message, answers)
    if sent.client_message_id is not None and not 0 < len(sent.client_message_id) <= _LONGEST_ID:
        raise bad(f"client_message_id has 1 to {_LONGEST_ID} characters")
    if sent.output_schema is not None and (fault := find_schema_error(sent.output_schema)):
        raise bad(f"output_schema: {fault}")
    if sent.whatif is not None and sent.whatif.from_step < 0:
        raise bad("whatif.from_step is 0 or more")
    if answers and sent.whatif is not None:
        raise bad("whatif and askuser_answer do not go together")
    for name, value in (sent.runtime_env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            raise bad(
                "runtime_env: a name is not empty and has no '=', and nothing holds a zero byte"
            )


def _check_parts(parts: list[Json], answers: bool) -> None:
    if not parts and not answers:
        raise bad("message is empty")
    if len(parts) > _MOST_PARTS:
        raise bad(f"message has more than {_MOST_PARTS} parts")
    for place, part in enumerate(parts):
        fault = _part_fault(part)
        if fault:
            raise bad(f"message[{place}]: {fault}")


def _part_fault(part: Json) -> str | None:
    kind = part.get("type")
    if kind == "text":
        return None if isinstance(part.get("text"), str) else "text is a string"
    if kind == "image_url":
        held = part.get("image_url")
        url = held.get("url") if isinstance(held, dict) else held
        fits = isinstance(url, str) and url.startswith(_IMAGES)
        return (
            None if fits else "image_url.url is an http(s) address or a data: address of an image"
        )
    if kind == "file":
        held = part.get("file", part)
        return None if isinstance(held, dict | str) else "file is an object or a path"
    return "type is text, image_url or file"


def checked_answer(given: Answer, questions: list[Json]) -> Json:
    """An answer that fits its questions; each has a choice or words of the person's own."""
    if given.answer is not None:
        return {"answer": given.answer}
    for place, question in enumerate(questions[:_MOST_QUESTIONS]):
        name = str(place)
        chosen, words = given.selections.get(name, []), given.custom.get(name, "")
        if not chosen and not words:
            raise _unfit(place, "no answer")
        options = question.get("options") or []
        if any(not 0 <= choice < len(options) for choice in chosen):
            raise _unfit(place, "a choice that it does not offer")
        if len(chosen) > 1 and not question.get("multiSelect"):
            raise _unfit(place, "more than one choice")
    return {"selections": given.selections, "custom": given.custom}


def _unfit(place: int, what: str) -> Refused:
    return bad(f"askuser_answer: question {place} has {what}", "bad_answer")
