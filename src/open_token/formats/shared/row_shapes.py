"""Rows of chat datasets: which records are rows, and where a row holds its messages.

The readers of provider APIs ask here, too: a row with `messages` alone looks like a request.
"""

from itertools import pairwise
from typing import Any

from open_token.formats.shared.fields import JsonObject, as_dicts, parse_json_text
from open_token.sources.source import Source

MESSAGE_COLUMNS = ("messages", "conversations", "conversation")
_MAX_INSPECTED = 16
_ROLES = frozenset(
    "user assistant system developer tool function human gpt model ai observation".split()
)
# A record with `messages` and one of these is a request of an API, whatever else it has.
_REQUEST_SETTINGS = frozenset(
    (
        "stream temperature top_p max_tokens stop tool_choice stream_options response_format"
        " max_completion_tokens frequency_penalty presence_penalty logprobs logit_bias functions"
        " service_tier reasoning_effort anthropic_version anthropic_beta top_k stop_sequences"
        " thinking mcp_servers betas path url method"
    ).split()
)
# A record with `messages` and nothing but these is a request, or a row without labels.
_REQUEST_FIELDS = frozenset("messages tools model user metadata system".split())
# Fields that only records of other formats have.
_FOREIGN_FIELDS = frozenset(
    (
        "parentUuid leafUuid sessionId sessionID projectHash mapping chat_messages part_kind payload"
        " lc kwargs latency_sec trajectory_format history info threadId chunkedPrompt"
        " open_token_version schema_version toolInvocations usageLedger runId working_dir"
        " raw_messages response choices request output responses exported_at type role id_token"
        " images videos audios"
    ).split()
)
_FOREIGN_MESSAGE_FIELDS = frozenset(
    "created ts parentId modelInfo metrics sender toolCalls kind messageId parts lc kwargs".split()
)


def is_row(value: Any) -> bool:
    """Return whether a record is a row of a dataset: messages, a prompt with its completion, or a
    pair of answers."""
    if not isinstance(value, dict) or not _FOREIGN_FIELDS.isdisjoint(value):
        return False
    return get_messages(value) is not None or _is_completion(value) or is_preference(value)


def get_messages(row: JsonObject) -> list[Any] | None:
    """Return the messages of a row, parsed if they are JSON text; None if it has no such column."""
    for name in MESSAGE_COLUMNS:
        value = parse_json_text(row.get(name))
        if isinstance(value, list) and _has_messages(value):
            return value
    return None


def get_message_column(row: JsonObject) -> str | None:
    """Return the name of the column with the messages."""
    for name in MESSAGE_COLUMNS:
        value = parse_json_text(row.get(name))
        if isinstance(value, list) and _has_messages(value):
            return name
    return None


def _has_messages(values: list[Any]) -> bool:
    messages = as_dicts(values[:_MAX_INSPECTED])
    if not messages or len(messages) < min(len(values), _MAX_INSPECTED):
        return False
    for message in messages:
        role = message.get("role", message.get("from"))
        if not isinstance(role, str) or role.lower() not in _ROLES:
            return False
        if not _FOREIGN_MESSAGE_FIELDS.isdisjoint(message):
            return False
    return True


def _is_completion(row: JsonObject) -> bool:
    return _is_text_or_messages(row.get("prompt")) and _is_text_or_messages(row.get("completion"))


def is_preference(row: JsonObject) -> bool:
    """Return whether a row holds an answer that was preferred, and one that was not."""
    if "preferred_output" in row:
        given = row.get("input")
        return isinstance(given, dict) and isinstance(given.get("messages"), list)
    return _is_text_or_messages(row.get("chosen")) and _is_text_or_messages(row.get("rejected"))


def _is_text_or_messages(value: Any) -> bool:
    if isinstance(value, dict):
        value = [value]
    if isinstance(value, list):
        return _has_messages(value)
    return isinstance(value, str)


def is_dataset(source: Source) -> bool:
    """Return whether the records of a source are rows of a dataset.

    Records with `messages` and request fields alone are requests of an API, unless there are
    several that name no model and do not continue each other.
    """
    records = source.sample
    if source.shape == "document" and records and isinstance(records[0], list):
        records = records[0][: 4 * _MAX_INSPECTED]
    if not records or not all(map(is_row, records)):
        return False
    if any(_is_request(record) or _is_turns_of_sharegpt(record) for record in records):
        return False
    if not all(_may_be_request(record) for record in records):
        return not _continue_each_other(records)
    if len(records) == 1 or any("model" in record for record in records):
        return False
    return not _continue_each_other(records)


def _is_request(row: JsonObject) -> bool:
    return isinstance(row.get("messages"), list) and not _REQUEST_SETTINGS.isdisjoint(row)


def _is_turns_of_sharegpt(row: JsonObject) -> bool:
    turns = as_dicts(row.get("conversations"))
    return any("from" in turn for turn in turns[:_MAX_INSPECTED])


def _may_be_request(row: JsonObject) -> bool:
    return _REQUEST_FIELDS.issuperset(row) and isinstance(row.get("messages"), list)


def _continue_each_other(rows: list[JsonObject]) -> bool:
    """Return whether each row repeats the messages of the one before it, as a log of requests."""
    histories = [row.get("messages") for row in rows]
    if len(histories) < 2 or not all(isinstance(history, list) for history in histories):
        return False
    return any(
        len(later) > len(earlier) > 0 and later[: len(earlier)] == earlier
        for earlier, later in pairwise(histories)
        if isinstance(earlier, list) and isinstance(later, list)
    )
