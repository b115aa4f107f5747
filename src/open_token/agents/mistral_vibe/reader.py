"""Read sessions of Mistral Vibe."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.chat_logs import ChatLogReader
from open_token.formats.shared.fields import (
    JsonObject,
    drop_nulls,
    get_dict,
    get_dicts,
    get_text,
    pick_fields,
)
from open_token.formats.shared.notes import note_file_faults, note_tool_definitions
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_STATS = ("steps", "tool_calls_agreed", "tool_calls_rejected", "tool_calls_failed")


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    reader = ChatLogReader(draft, "Mistral Vibe")
    meta = _load_meta(source, draft)
    _read_meta(meta, reader)
    for number, message in source.records():
        place = f"line {number}"
        if not isinstance(message, dict):
            draft.note_omission("skipped-record", place, "line is not a JSON object")
            continue
        is_injected = message.get("injected") is True
        event = reader.read_message(message, place, is_injected=is_injected)
        _read_extras(message, reader, event)
    _read_totals(meta, reader)
    started = to_utc(meta.get("start_time"))
    reader.finish(get_text(meta, "session_id"), get_text(meta, "title"), started)


def _load_meta(source: Source, draft: Draft) -> JsonObject:
    file = source.open_sibling("meta.json")
    if file is None:
        return {}
    try:
        meta = file.document
    except InputError:
        draft.note_omission("broken-file", "meta.json", "it is not JSON")
        return {}
    note_file_faults(file, "meta.json", draft)
    return meta if isinstance(meta, dict) else {}


def _read_meta(meta: JsonObject, reader: ChatLogReader) -> None:
    """Read the environment, the tools and the system prompt, which the messages leave out."""
    facts = {
        "cwd": get_text(get_dict(meta, "environment"), "working_directory"),
        **pick_fields(meta, "session_id", "parent_session_id", "git_branch", "git_commit"),
        "agent": get_text(get_dict(meta, "agent_profile"), "name"),
        "model": get_text(get_dict(meta, "config"), "active_model"),
    }
    facts = drop_nulls(facts)
    if facts:
        reader.annotate({"kind": "context", **facts}, ts=to_utc(meta.get("start_time")))
    reader.set_model(facts.get("model"))
    tools = get_dicts(meta, "tools_available")
    names = [get_text(get_dict(tool, "function"), "name") for tool in tools]
    if any(names):
        reader.annotate({"kind": "tools", "names": [name for name in names if name]})
        note_tool_definitions(reader.draft.note_omission, tools, "meta.json")
    prompt = get_dict(meta, "system_prompt")
    if prompt:
        reader.read_message({**prompt, "role": "system"}, "meta.json")


def _read_extras(message: JsonObject, reader: ChatLogReader, event: Any) -> None:
    """Read attached images, and what was shown instead of the text."""
    facts = pick_fields(message, "images", "user_display_content")
    if facts:
        reader.draft.add_annotation(
            {"kind": "message_facts", **facts}, parent=event, actor=reader.client
        )


def _read_totals(meta: JsonObject, reader: ChatLogReader) -> None:
    stats = get_dict(meta, "stats")
    usage = build_usage(
        input_tokens=stats.get("session_prompt_tokens"),
        output_tokens=stats.get("session_completion_tokens"),
    )
    if stats:
        data = {"kind": "session_totals", **pick_fields(stats, *_STATS)}
        reader.annotate(data, usage=usage)
