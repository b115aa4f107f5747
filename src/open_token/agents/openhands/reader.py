"""Read an OpenHands conversation in whichever of its four forms the input is."""

import re
from typing import Any

from open_token.agents.openhands import benchmark_runs, sdk_events, version0
from open_token.agents.openhands.detect import (
    EVENT_FILES,
    find_files,
    flatten,
    has_runs,
    is_model_log,
    is_sdk_event,
    is_version0_event,
)
from open_token.builder.draft import Draft
from open_token.formats.openai_chat import reader as chat_reader
from open_token.formats.openai_responses import reader as responses_reader
from open_token.formats.shared.api_conversation import ConversationBuilder
from open_token.formats.shared.fields import JsonObject
from open_token.model.document import Found
from open_token.sources.source import Source

# How the client reports what a tool returned to a model without function calling.
_TEXT_RESULT = re.compile(r"EXECUTION RESULT of \[([^\]\n]{1,200})\]:")


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    sample = flatten(source.sample)
    if source.shape == "folder":
        if source.find_files("base_state.json") or find_files(source, EVENT_FILES):
            sdk_events.read_conversation(source, draft)
        else:
            version0.read_conversation(source, draft)
    elif any(map(is_version0_event, sample)) and not any(map(is_sdk_event, sample)):
        version0.read_conversation(source, draft)
    elif sample and is_model_log(sample[0]):
        _read_model_logs(source, draft)
    elif has_runs(source):
        benchmark_runs.read_run(source, draft)
    else:
        sdk_events.read_conversation(source, draft)


def _read_model_logs(source: Source, draft: Draft) -> None:
    """Read logs of model calls, each of which repeats the conversation before it.

    Requests and responses are those of one of OpenAI's APIs.
    """
    first = next((record for record in source.sample if isinstance(record, dict)), {})
    if isinstance(first.get("messages"), list):
        _read_chat_logs(source, draft)
    else:
        responses_reader.read(source, draft)
    draft.conversation["source_runtime"] = "cli"
    calls = 0
    cost = 0.0
    latency = 0.0
    for _, record in source.records():
        if isinstance(record, dict):
            calls += 1
            cost += _to_number(record.get("cost"))
            latency += _to_number(record.get("latency_sec"))
    data = {"kind": "cost", "calls": calls, "cost_usd": cost, "latency_sec": latency}
    draft.add_annotation(data, actor=draft.get_actor("system", "OpenHands"))


def _read_chat_logs(source: Source, draft: Draft) -> None:
    unit = "record" if source.shape == "document" else "line"
    builder = ConversationBuilder(chat_reader.create_dialect(draft), unit)
    number = 0
    for number, record in source.records():
        if is_model_log(record):
            builder.add_record(number, _restore_calls(record, f"{unit} {number}", draft))
        else:
            builder.add_record(number, record)
    builder.flush(number)


def _restore_calls(record: JsonObject, place: str, draft: Draft) -> JsonObject:
    """Return a log whose messages have calls and results.

    For a model without function calling they are sent as text, in which the user reports the
    results. The log has the messages from before that beside them; without those, at least the
    results are not the words of a person.
    """
    raw_messages = record.get("raw_messages")
    if isinstance(raw_messages, list) and raw_messages:
        draft.note_omission(
            "repeated-messages", place, "the messages as text, for a model without function calling"
        )
        return {**record, "messages": raw_messages}
    return {**record, "messages": [_mark_result(message) for message in record["messages"]]}


def _mark_result(message: Any) -> Any:
    if not isinstance(message, dict) or message.get("role") != "user":
        return message
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    match = _TEXT_RESULT.match(content) if isinstance(content, str) else None
    if match is None:
        return message
    return {**message, "role": "tool", "name": match[1]}


def _to_number(value: Any) -> float:
    return float(value) if type(value) in (int, float) and abs(value) < 2**53 else 0.0


def list_conversations(source: Source) -> list[Found]:
    """List the runs of a benchmark; every other form is one conversation."""
    if source.shape == "folder" or not has_runs(source):
        return []
    return benchmark_runs.list_runs(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the benchmark run that a line belongs to."""
    if source.shape == "folder" or not has_runs(source):
        return None
    return benchmark_runs.find_owner_of_line(source, at, value)
