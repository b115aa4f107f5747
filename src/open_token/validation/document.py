"""OT101 to OT307: the document around the events, its conversation and its participants."""

import re
from datetime import datetime
from typing import Any

from open_token.integrity.strict_reader import ReportProblem
from open_token.jsontools.strict import describe_key, describe_value
from open_token.model.document import (
    AVAILABILITIES,
    KINDS,
    PROVIDERS,
    REDACTION_MODES,
    SOURCE_RUNTIMES,
    STRATEGIES,
    VERSION,
)
from open_token.validation.findings import Check

CHECKS = {
    "OT101": Check(
        "error",
        "An export is one JSON object",
        "the specification requires exactly one object",
        "write one object with open_token_version, conversation, participants and events",
    ),
    "OT102": Check(
        "error",
        'open_token_version is "0.1"',
        "a reader must know the version before it reads the rest",
        'set open_token_version to the string "0.1"',
    ),
    "OT103": Check(
        "error",
        "The top level has only the six keys of the specification",
        "the specification allows no others",
        "move additional data into an annotation event",
    ),
    "OT104": Check(
        "error",
        "seq counts 1, 2, 3 and so on, without gaps",
        "seq is the order of the record; a gap or a decrease means that something is missing or was moved",
        "restore the missing events, or renumber the events 1..N in their order",
    ),
    "OT105": Check(
        "error",
        "exported_at is an RFC 3339 time in UTC",
        "times must mean the same everywhere",
        "write it as 2026-01-31T00:00:00Z, or omit it",
    ),
    "OT106": Check(
        "error",
        "conversation is present and is an object",
        "it contains the id of the record",
        'add "conversation": {"id": ...}',
    ),
    "OT107": Check(
        "error",
        "participants is an array",
        "every event refers to one of them",
        "add one entry for each speaker, tool and prompt origin",
    ),
    "OT108": Check(
        "error",
        "events is an array",
        "it is the record itself",
        "put the events into an array, in order",
    ),
    "OT201": Check(
        "error",
        "conversation.id is present and is a string",
        "the specification requires it",
        "use the id of the runtime, or conv_<YYYYMMDD>_<hash8>",
    ),
    "OT202": Check(
        "error",
        "The other fields of conversation are strings",
        "readers display and compare them as text",
        "write a string, or omit the field",
    ),
    "OT203": Check(
        "error",
        "started_at is an RFC 3339 time",
        "a time without a zone is ambiguous",
        "write it with a zone, or omit the field",
    ),
    "OT204": Check(
        "warning",
        "source_runtime is cli, web, api, ide or other",
        "readers process the listed values only",
        "use a listed value, or omit the field",
    ),
    "OT205": Check(
        "warning",
        "provider is openai, anthropic, google, meta or other",
        "readers process the listed values only",
        "use a listed value, or omit the field",
    ),
    "OT206": Check(
        "warning",
        "internal_availability is available, unavailable or unknown",
        "it states whether hidden reasoning was available",
        "use a listed value, or omit the field",
    ),
    "OT207": Check(
        "warning",
        "conversation.redaction is present",
        "only an export with redact=none may omit it, and a reader cannot know that",
        "add the redaction object, or make sure that redact=none was intended",
    ),
    "OT208": Check(
        "error",
        "redaction.mode is none, secrets, pii or strict",
        "a reader must know what was masked",
        "set mode to the value of the redact option",
    ),
    "OT209": Check(
        "error",
        "redaction.strategy is mask, drop or hash",
        "a reader must know what a marker stands for",
        "set strategy to mask, drop or hash",
    ),
    "OT210": Check(
        "error",
        "redaction.notes is an array of strings",
        "people read the notes, and tools list them",
        "write notes as an array of short sentences, [] if there are none",
    ),
    "OT211": Check(
        "warning",
        "conversation has only keys of the specification",
        "other readers do not understand additional keys",
        "move them into an annotation event",
    ),
    "OT212": Check(
        "error",
        "No hidden reasoning is present if it is declared unavailable",
        "either the reasoning was invented or the declaration is wrong",
        "set internal_availability to available, or remove the reasoning",
    ),
    "OT301": Check(
        "error",
        "A participant is an object",
        "the specification defines it so",
        "write an object with actor_id, kind, name",
    ),
    "OT302": Check(
        "error",
        "actor_id has the form act_###",
        "events refer to participants by it",
        "use act_001, act_002 and so on",
    ),
    "OT303": Check(
        "error",
        "Every actor_id is unique",
        "otherwise the actor of an event is ambiguous",
        "give each participant a separate actor_id",
    ),
    "OT304": Check(
        "error",
        "kind is human, model, tool or system",
        "it determines how far a participant is trusted",
        "use one of the four kinds",
    ),
    "OT305": Check(
        "error",
        "A participant has a name",
        "people read it",
        "write the name as a non-empty string",
    ),
    "OT306": Check(
        "error",
        "provider, model and instance_id are strings",
        "readers display and compare them as text",
        "write a string, or omit the field",
    ),
    "OT307": Check(
        "warning",
        "A participant has only keys of the specification",
        "other readers do not understand additional keys",
        "move them into an annotation event",
    ),
}

_TOP = ("open_token_version", "exported_at", "conversation", "participants", "events", "integrity")
_CONVERSATION = (
    "id",
    "title",
    "started_at",
    "timezone",
    "source_runtime",
    "provider",
    "internal_availability",
    "redaction",
)
_LISTED = {
    "source_runtime": ("OT204", SOURCE_RUNTIMES),
    "provider": ("OT205", PROVIDERS),
    "internal_availability": ("OT206", AVAILABILITIES),
}
_REDACTION = ("mode", "strategy", "notes")
_PARTICIPANT = ("actor_id", "kind", "name", "provider", "model", "instance_id")
_ACTOR_ID = re.compile(r"act_\d{3,}", re.ASCII)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d):(\d\d)(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_IN_UTC = ("Z", "z", "+00:00", "-00:00")


def is_timestamp(value: Any, in_utc: bool) -> bool:
    """Return whether a value is a valid RFC 3339 time; leap seconds are allowed."""
    if not isinstance(value, str):
        return False
    match = _TIME.fullmatch(value)
    if match is None:
        return False
    date, time, seconds, offset = match.groups()
    if in_utc and offset not in _IN_UTC:
        return False
    # The seconds are checked here, since datetime refuses the 60th of a leap second.
    if int(seconds) > 60:
        return False
    try:
        datetime.fromisoformat(f"{date}T{time}")
    except ValueError:
        return False
    if offset in "Zz":
        return True
    hours = int(offset[1:3])
    minutes = int(offset[4:])
    return hours < 24 and minutes < 60


def check_unknown_keys(
    value: dict[str, Any], known: tuple[str, ...], id: str, place: str, report: ReportProblem
) -> None:
    """Report keys that the spec does not define."""
    for key in value:
        if key not in known:
            report(
                id,
                (place + describe_key(key)).removeprefix("."),
                "a key that the spec does not know",
            )


def check_frame(document: dict[str, Any], is_stream: bool, report: ReportProblem) -> None:
    """Check everything but the events; a stream may lack conversation and participants."""
    check_unknown_keys(document, _TOP, "OT103", "", report)
    _check_version(document, report)
    if "exported_at" in document and not is_timestamp(document["exported_at"], in_utc=True):
        report("OT105", "exported_at", "not an RFC 3339 time in UTC")
    if "conversation" in document or not is_stream:
        _check_conversation(document.get("conversation"), report)
    if "participants" in document or not is_stream:
        _check_participants(document.get("participants"), report)


def _check_version(document: dict[str, Any], report: ReportProblem) -> None:
    if "open_token_version" not in document:
        report("OT102", "open_token_version", "there is no version")
    elif document["open_token_version"] != VERSION:
        report(
            "OT102",
            "open_token_version",
            f'{describe_value(document["open_token_version"])} is not "{VERSION}"',
        )


def _check_conversation(conversation: Any, report: ReportProblem) -> None:
    if not isinstance(conversation, dict):
        report("OT106", "conversation", f"{describe_value(conversation)} is not an object")
        return
    if "id" not in conversation:
        report("OT201", "conversation.id", "there is no id")
    elif not isinstance(conversation["id"], str) or not conversation["id"]:
        report("OT201", "conversation.id", "not a string with characters in it")
    for name in ("title", "timezone"):
        if name in conversation and not isinstance(conversation[name], str):
            report(
                "OT202",
                f"conversation.{name}",
                f"{describe_value(conversation[name])} is not a string",
            )
    if "started_at" in conversation and not is_timestamp(conversation["started_at"], in_utc=False):
        report("OT203", "conversation.started_at", "not an RFC 3339 time")
    for name in _LISTED:
        if name in conversation:
            _check_listed(name, conversation[name], report)
    if "redaction" in conversation:
        _check_redaction(conversation["redaction"], report)
    else:
        report("OT207", "conversation.redaction", "it is not said what was masked")
    check_unknown_keys(conversation, _CONVERSATION, "OT211", "conversation", report)


def _check_listed(name: str, value: Any, report: ReportProblem) -> None:
    check, values = _LISTED[name]
    if not isinstance(value, str):
        report("OT202", f"conversation.{name}", f"{describe_value(value)} is not a string")
    elif value not in values:
        report(
            check, f"conversation.{name}", f"{describe_value(value)} is none of {', '.join(values)}"
        )


def _check_redaction(redaction: Any, report: ReportProblem) -> None:
    place = "conversation.redaction"
    if not isinstance(redaction, dict):
        report("OT208", place, f"{describe_value(redaction)} is not an object")
        return
    if redaction.get("mode") not in REDACTION_MODES:
        report(
            "OT208",
            f"{place}.mode",
            f"{describe_value(redaction.get('mode'))} is none of {', '.join(REDACTION_MODES)}",
        )
    # Where nothing was masked, there is no strategy to name and nothing to note.
    is_masked = redaction.get("mode") != "none"
    strategy = redaction.get("strategy")
    if (is_masked or "strategy" in redaction) and strategy not in STRATEGIES:
        report(
            "OT209",
            f"{place}.strategy",
            f"{describe_value(strategy)} is none of {', '.join(STRATEGIES)}",
        )
    if is_masked or "notes" in redaction:
        notes = redaction.get("notes")
        if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
            report("OT210", f"{place}.notes", "not an array of strings")
    check_unknown_keys(redaction, _REDACTION, "OT211", place, report)


def _check_participants(participants: Any, report: ReportProblem) -> None:
    if not isinstance(participants, list):
        report("OT107", "participants", f"{describe_value(participants)} is not an array")
        return
    known: set[str] = set()
    for number, participant in enumerate(participants):
        place = f"participants[{number}]"
        if isinstance(participant, dict):
            _check_participant(participant, place, known, report)
        else:
            report("OT301", place, f"{describe_value(participant)} is not an object")


def _check_participant(
    participant: dict[str, Any], place: str, known: set[str], report: ReportProblem
) -> None:
    actor_id = participant.get("actor_id")
    if not isinstance(actor_id, str) or not _ACTOR_ID.fullmatch(actor_id):
        report(
            "OT302",
            f"{place}.actor_id",
            f"{describe_value(actor_id)} does not have the form act_###",
        )
    elif actor_id in known:
        report("OT303", f"{place}.actor_id", f"{actor_id} is used twice")
    else:
        known.add(actor_id)
    if participant.get("kind") not in KINDS:
        report(
            "OT304",
            f"{place}.kind",
            f"{describe_value(participant.get('kind'))} is none of {', '.join(KINDS)}",
        )
    if not isinstance(participant.get("name"), str) or not participant["name"]:
        report("OT305", f"{place}.name", "there is no name")
    for name in ("provider", "model", "instance_id"):
        if name in participant and not isinstance(participant[name], str):
            report(
                "OT306", f"{place}.{name}", f"{describe_value(participant[name])} is not a string"
            )
    check_unknown_keys(participant, _PARTICIPANT, "OT307", place, report)
