"""Rows of each profile, made from one exported conversation; and events made from rows again."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson

from open_token.dataset.conversation import ExportedConversation, Facts
from open_token.dataset.messages import (
    build_inspect_messages,
    build_openai_messages,
    build_openai_tools,
    build_sharegpt,
    iter_runs,
)
from open_token.jsontools.objects import as_object
from open_token.jsontools.timestamps import to_epoch_ms
from open_token.model.document import Event

JsonObject = dict[str, Any]

_EVENT_NAMES = ("id", "seq", "ts", "type", "actor_id", "visibility", "role")
_CONTENT_NAMES = ("mime", "text", "data")
_LINK_NAMES = ("parent_id", "replies_to", "call_id", "span_id")
_USAGE_NAMES = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


def build_rows(
    conversation: ExportedConversation, profile: str
) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of a conversation, each with the name of its table."""
    if profile == "events":
        yield "conversations", _build_conversation_row(conversation)
        for event in conversation.events:
            yield "events", _build_event_row(conversation, event)
    elif profile == "hf":
        yield "data", _build_hf_row(conversation)
    else:
        yield "", _build_scout_row(conversation)


def build_lines(conversation: ExportedConversation, profile: str) -> list[JsonObject]:
    """Return the JSON lines of a conversation; none if it has nothing to learn from."""
    if profile == "docent":
        return [_build_docent_run(conversation)]
    messages = build_openai_messages(conversation.main_run, conversation.losses)
    if not any(message["role"] == "assistant" for message in messages):
        return []
    if profile == "sharegpt":
        return [{"id": conversation.id, "conversations": build_sharegpt(messages)}]
    line: JsonObject = {"messages": _strip_for_finetuning(messages)}
    tools = build_openai_tools(conversation.main_run)
    if tools:
        line["tools"] = [_add_parameters(tool) for tool in tools]
    return [line]


def _strip_for_finetuning(messages: list[JsonObject]) -> list[JsonObject]:
    """Return messages with only the fields that OpenAI's fine-tuning accepts."""
    accepted = ("role", "content", "tool_calls", "tool_call_id")
    return [
        {name: value for name, value in message.items() if name in accepted} for message in messages
    ]


def _add_parameters(tool: JsonObject) -> JsonObject:
    """Return a tool with the schema that fine-tuning requires; a record rarely has the real one."""
    function = {**tool["function"], "parameters": {"type": "object", "properties": {}}}
    return {"type": "function", "function": function}


def _build_conversation_row(conversation: ExportedConversation) -> JsonObject:
    document = conversation.document
    return {
        **msgspec.structs.asdict(conversation.facts),
        "exported_at": document.get("exported_at"),
        "conversation": _encode(document["conversation"]),
        "participants": _encode(document["participants"]),
        "integrity": _encode(document.get("integrity")),
    }


def _build_event_row(conversation: ExportedConversation, event: Event) -> JsonObject:
    row: JsonObject = {
        "content_hash": conversation.content_hash,
        "conversation_id": conversation.id,
    }
    content = as_object(event.get("content"))
    links = as_object(event.get("links"))
    usage = as_object(event.get("usage"))
    for name in _EVENT_NAMES:
        row[name] = event.get(name)
    row["mime"] = content.get("mime")
    row["text"] = content.get("text")
    row["data"] = _encode(content["data"]) if "data" in content else None
    row["tool_name"] = _find_tool_name(event)
    for name in _LINK_NAMES:
        row[name] = links.get(name)
    for name in _USAGE_NAMES:
        row[name] = usage.get(name)
    encoded = orjson.dumps(event)
    if not _has_column_types(row) or orjson.dumps(build_event(row)) != encoded:
        row = {name: value if _fits(name, value) else None for name, value in row.items()}
        row["raw"] = encoded.decode()
    return row


def build_event(row: Mapping[str, Any]) -> JsonObject:
    """Return the event of a row; `orjson.dumps` gives its exact bytes in a compact document."""
    if row.get("raw") is not None:
        raw: JsonObject = orjson.loads(row["raw"])
        return raw
    event: JsonObject = {name: row[name] for name in _EVENT_NAMES if row[name] is not None}
    content = {name: row[name] for name in _CONTENT_NAMES if row[name] is not None}
    if "data" in content:
        content["data"] = orjson.Fragment(content["data"])
    if content:
        event["content"] = content
    links = {name: row[name] for name in _LINK_NAMES if row[name] is not None}
    if links:
        event["links"] = links
    usage = {name: row[name] for name in _USAGE_NAMES if row[name] is not None}
    if usage:
        event["usage"] = usage
    return event


def _has_column_types(row: JsonObject) -> bool:
    return all(_fits(name, value) for name, value in row.items())


def _fits(name: str, value: Any) -> bool:
    """Return whether a value can be stored in its column as it is."""
    if value is None:
        return True
    if name == "seq" or name in _USAGE_NAMES:
        return type(value) is int
    return isinstance(value, str)


def _find_tool_name(event: Event) -> str | None:
    if event.get("type") != "tool_use":
        return None
    name = as_object(as_object(event.get("content")).get("data")).get("tool_name")
    return name if isinstance(name, str) else None


def _build_hf_row(conversation: ExportedConversation) -> JsonObject:
    facts = conversation.facts
    messages = build_openai_messages(conversation.main_run, conversation.losses)
    return {
        **msgspec.structs.asdict(facts),
        "harness": facts.runtime,
        "session_id": conversation.id,
        "prompt": conversation.first_prompt,
        "messages": [_encode(message) for message in messages],
        "tools": [_encode(tool) for tool in build_openai_tools(conversation.main_run)],
        "metadata": _encode(_describe(conversation)),
        "sent_at": facts.started_at,
        "num_user_messages": facts.prompt_count,
        "num_tool_calls": facts.call_count,
        # The trace is the record itself, as one compact document.
        "trace": _encode(conversation.document),
        "file_path": facts.source,
    }


def _build_scout_row(conversation: ExportedConversation) -> JsonObject:
    facts = conversation.facts
    messages = build_inspect_messages(conversation.main_run, conversation.losses)
    reward = facts.reward
    models = facts.models
    return {
        **msgspec.structs.asdict(facts),
        "transcript_id": facts.content_hash,
        "source_type": "open_token",
        "source_id": conversation.id,
        "source_uri": facts.source,
        "date": facts.started_at,
        "agent": facts.runtime,
        "model": models[0] if models else None,
        "score": _encode(reward) if reward is not None else None,
        "message_count": len(messages),
        "total_time": _measure_seconds(facts),
        "total_tokens": facts.input_tokens + facts.output_tokens,
        # What a model wrote is data that nobody checked.
        "trust_content": False,
        "messages": _encode(messages),
    }


def _measure_seconds(facts: Facts) -> float | None:
    started = to_epoch_ms(facts.started_at)
    ended = to_epoch_ms(facts.ended_at)
    if started is None or ended is None or ended < started:
        return None
    return (ended - started) / 1000


def _build_docent_run(conversation: ExportedConversation) -> JsonObject:
    transcripts = []
    for run in iter_runs(conversation.main_run):
        messages = build_inspect_messages(run, conversation.losses)
        # The main conversation stays even if it is empty: a run has at least one transcript.
        if messages or not run.id:
            name = run.id or "main"
            transcripts.append({"name": name, "messages": messages, "metadata": run.about})
    return {
        "name": conversation.facts.title,
        "transcripts": transcripts,
        "metadata": _describe(conversation),
    }


def _describe(conversation: ExportedConversation) -> JsonObject:
    """Return what is known of a conversation, without what is unknown."""
    facts = msgspec.structs.asdict(conversation.facts)
    return {name: value for name, value in facts.items() if value is not None}


def _encode(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
