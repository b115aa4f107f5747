"""Read conversations of gptme."""

from open_token.builder.draft import Draft
from open_token.formats.shared.chat_logs import ChatLogReader
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.token_usage import build_usage, get_count
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Usage
from open_token.sources.source import Source


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    reader = ChatLogReader(draft, "gptme")
    for number, message in source.records():
        place = f"line {number}"
        if not isinstance(message, dict):
            draft.note_omission("skipped-record", place, "line is not a JSON object")
            continue
        ts = to_utc(message.get("timestamp"))
        metadata = get_dict(message, "metadata")
        reader.set_model(metadata.get("model"))
        is_injected = _is_reminder(get_text(message, "content") or "")
        event = reader.read_message(
            message, place, ts=ts, usage=_parse_usage(metadata), is_injected=is_injected
        )
        facts = pick_fields(message, "files", "call_id")
        facts |= pick_fields(metadata, "resolved_model", "timings")
        if ts is None:
            # Newer versions store the time of the clock on the wall, without its zone.
            facts |= pick_fields(message, "timestamp")
        if facts:
            data = {"kind": "message_facts", **facts}
            draft.add_annotation(data, parent=event, actor=reader.client, ts=ts)
        cost = metadata.get("cost")
        if type(cost) in (int, float) and cost:
            reader.annotate({"kind": "cost", "cost_usd": cost}, ts=ts)
    reader.finish(None, None, None)


def _is_reminder(text: str) -> bool:
    """Return whether gptme wrote a message of the user: without a person it asks the model to go on."""
    return text.startswith("<system>") and text.rstrip().endswith("</system>")


def _parse_usage(metadata: JsonObject) -> Usage | None:
    """Return the token counts of an answer; cached input is counted apart."""
    usage = get_dict(metadata, "usage")
    if not usage:
        return None
    fresh = get_count(usage, "input_tokens")
    read = get_count(usage, "cache_read_tokens")
    written = get_count(usage, "cache_creation_tokens")
    return build_usage(
        input_tokens=fresh + read + written,
        output_tokens=usage.get("output_tokens"),
        cache_read_tokens=usage.get("cache_read_tokens"),
        cache_write_tokens=usage.get("cache_creation_tokens"),
    )
