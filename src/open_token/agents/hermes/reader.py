"""Read sessions of Hermes Agent: from the database, a session file or a log."""

from collections.abc import Iterable, Iterator
from typing import Any

from open_token.agents.hermes.detect import META, is_session
from open_token.builder.draft import Draft
from open_token.formats.shared.chat_logs import ChatLogReader
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    get_dict,
    get_dicts,
    get_text,
    parse_json_text,
    pick_fields,
)
from open_token.formats.shared.notes import note_tool_definitions
from open_token.formats.shared.session_tables import (
    NO_OWNER,
    count_messages,
    get_session_id,
    read_messages,
    read_sessions,
)
from open_token.formats.shared.token_usage import build_usage, get_count
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.model.document import Found
from open_token.sources.source import Source

_JSON_PREFIX = "\0json:"
"""What stands before a content that is not a text, in the database."""
_USUAL_STOPS = ("stop", "tool_calls", "end_turn", None)
_CONTEXT = (
    "source",
    "platform",
    "parent_session_id",
    "git_branch",
    "base_url",
    "model",
    "end_reason",
    "profile_name",
)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen session, or the first one, into the draft."""
    reader = _SessionReader(draft)
    if source.shape == "sqlite":
        sessions = read_sessions(source, "started_at")
        session_id = source.conversation or next(iter(sessions), None)
        if session_id in sessions:
            info = sessions[session_id]
            _add_shared_prompt(source, info)
            reader.read(info, _read_rows(source, session_id))
        return
    first = source.sample[0] if source.sample else None
    if isinstance(first, dict) and is_session(first):
        messages = enumerate(first["messages"], 1)
        reader.read(first, ((f"message {number}", value) for number, value in messages))
        return
    reader.read({}, ((f"line {number}", value) for number, value in source.records()))


def _add_shared_prompt(source: Source, info: JsonObject) -> None:
    """Add the system prompt of a session, which equal sessions share."""
    key = get_text(info, "system_prompt_hash")
    if key and "system_prompt" not in info and "system_prompts" in source.tables:
        rows = source.rows("SELECT prompt FROM system_prompts WHERE hash = ?", (key,))
        info["system_prompt"] = next(rows, (None,))[0]


def _read_rows(source: Source, session_id: str) -> Iterator[tuple[str, Any]]:
    for row in read_messages(source, session_id, "id"):
        for name in ("tool_calls", "reasoning_details"):
            row[name] = parse_json_text(row.get(name))
        content = row.get("content")
        if isinstance(content, str) and content.startswith(_JSON_PREFIX):
            row["content"] = parse_json_text(content.removeprefix(_JSON_PREFIX))
        yield f"message {row.get('id')}", row


class _SessionReader:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._log = ChatLogReader(draft, "Hermes")
        self._rewound: int | None = None
        """Where the current run of rewound messages begins."""

    def read(self, info: JsonObject, messages: Iterable[tuple[str, Any]]) -> None:
        """Read a session and its messages."""
        started = _parse_time(info.get("started_at")) or _parse_time(info.get("session_start"))
        self._read_info(info, started)
        for place, message in messages:
            if type(message) is dict:
                self._read_message(message, place)
            else:
                self._draft.note_omission("skipped-record", place, "it is not a JSON object")
        self._end_rewound()
        self._read_totals(info)
        session_id = get_text(info, "session_id") or get_text(info, "id")
        self._log.finish(session_id, get_text(info, "title"), started)

    def _read_info(self, info: JsonObject, started: str | None) -> None:
        config = get_dict({"config": parse_json_text(info.get("model_config"))}, "config")
        facts = {
            "cwd": get_text(info, "cwd") or get_text(config, "cwd"),
            **pick_fields(info, *_CONTEXT),
        }
        facts = pick_fields(facts, *facts)
        if facts:
            self._log.annotate({"kind": "context", **facts}, ts=started)
        self._log.set_model(info.get("model"), info.get("billing_provider"))
        self._read_tools(info, "tools")
        prompt = get_text(info, "system_prompt")
        if prompt:
            self._log.read_message(
                {"role": "system", "content": prompt}, "system prompt", ts=started
            )

    def _read_tools(self, holder: JsonObject, place: str) -> None:
        tools = get_dicts(holder, "tools")
        names = [
            get_text(get_dict(tool, "function"), "name") or get_text(tool, "name") for tool in tools
        ]
        if any(names):
            self._log.annotate({"kind": "tools", "names": [name for name in names if name]})
            note_tool_definitions(self._draft.note_omission, tools, place)

    def _read_message(self, message: JsonObject, place: str) -> None:
        ts = _parse_time(message.get("timestamp"))
        if message.get("role") == META:
            self._log.set_model(message.get("model"))
            self._read_tools(message, place)
            facts = pick_fields(message, "model", "platform")
            if facts:
                self._log.annotate({"kind": "settings", **facts}, ts=ts)
            return
        self._mark_rewound(message)
        is_summary = message.get("_compressed_summary") in (1, True)
        is_hidden = message.get("display_kind") == "hidden"
        event = self._log.read_message(message, place, ts=ts, is_injected=is_summary or is_hidden)
        if is_summary:
            self._draft.add_annotation({"kind": "compaction"}, parent=event, actor=self._log.client)
        sent = as_text(message.get("api_content"))
        if sent and sent != message.get("content"):
            data = {"kind": "sent_text", "text": sent}
            self._draft.add_annotation(data, parent=event, actor=self._log.client, ts=ts)
        reason = message.get("finish_reason")
        if message.get("role") == "assistant" and reason not in _USUAL_STOPS:
            self._log.annotate({"kind": "stop", "reason": reason}, ts=ts)

    def _mark_rewound(self, message: JsonObject) -> None:
        """Note where rewound messages begin and end; compacted ones still belong to the conversation."""
        is_rewound = message.get("active") == 0 and not message.get("compacted")
        if not is_rewound:
            self._end_rewound()
        elif self._rewound is None:
            self._rewound = self._draft.count

    def _end_rewound(self) -> None:
        if self._rewound is not None:
            data = {"kind": "abandoned_branch", "detail": "the session was rewound"}
            self._draft.drop_branch(self._rewound, self._draft.count, data, self._log.client)
            self._rewound = None

    def _read_totals(self, info: JsonObject) -> None:
        fresh = get_count(info, "input_tokens")
        read = get_count(info, "cache_read_tokens")
        written = get_count(info, "cache_write_tokens")
        output = info.get("output_tokens")
        costs = pick_fields(info, "actual_cost_usd", "estimated_cost_usd")
        if not (fresh or read or written or output or costs):
            return
        usage = build_usage(
            input_tokens=fresh + read + written,
            output_tokens=output,
            reasoning_tokens=info.get("reasoning_tokens"),
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
        self._log.annotate({"kind": "session_totals", **costs}, usage=usage)


def _parse_time(value: Any) -> str | None:
    return to_utc(value) or from_epoch(value)


def list_conversations(source: Source) -> list[Found]:
    """List the sessions of a database; a file is one conversation."""
    if source.shape != "sqlite":
        return []
    counts = count_messages(source)
    return [
        Found(
            session_id,
            title=get_text(info, "title"),
            started_at=_parse_time(info.get("started_at")),
            updated_at=_parse_time(info.get("last_activity_at"))
            or _parse_time(info.get("ended_at")),
            cwd=get_text(info, "cwd"),
            messages=counts.get(session_id, 0),
        )
        for session_id, info in read_sessions(source, "started_at").items()
    ]


def find_owner(source: Source, position: str, value: Any) -> str | None:
    """Return the session that a row belongs to; settings belong to none."""
    if source.shape != "sqlite":
        return None
    return get_session_id(position, value) or NO_OWNER
