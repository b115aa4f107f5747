"""One Goose session from its database, its file or its export, with the sessions it delegated
to."""

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

from open_token.agents.goose.blocks import moment, parsed
from open_token.agents.goose.messages import Talk
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.session_tree import SessionTree
from open_token.model.document import Found
from open_token.sources.containers import quote_identifier
from open_token.sources.source import Source

_COLUMNS = (
    "id name description session_type working_dir created_at updated_at total_tokens input_tokens output_tokens"
    " cache_read_tokens cache_write_tokens accumulated_total_tokens accumulated_input_tokens accumulated_output_tokens"
    " accumulated_cache_read_tokens accumulated_cache_write_tokens accumulated_cost schedule_id recipe_json"
    " provider_name model_config_json goose_mode parent_session_id parent_delegation"
).split()
_CONTEXT = {
    "working_dir": "cwd",
    "session_type": "session_type",
    "goose_mode": "mode",
    "schedule_id": "schedule_id",
    "parent_session_id": "parent_id",
}
_IN_HEADERS = (
    "working_dir",
    "description",
    "message_count",
    "total_tokens",
    "extension_data",
    "schedule_id",
)
_TOLD_TABLES = ("messages", "thread_messages")
_OPTIONAL = ("message_id", "created_timestamp", "metadata_json")
_FILE_NAME = re.compile(r"\d{8}_\d{1,9}")
_DEEPEST = 16
_NOBODY = "(nobody)"
"""Whose a setting is: no conversation has this id."""
_known: WeakKeyDictionary[Source, tuple[dict[str, JsonObject], SessionTree]] = WeakKeyDictionary()


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen session, or the only one."""
    if source.shape == "sqlite":
        sessions, lineage = _opened(source)
        chosen = source.conversation or next(iter(lineage.roots), None)
        if chosen in sessions:
            _Database(source, draft, sessions, lineage).tell(chosen)
        return
    records = source.records()
    number, value = next(records, (0, None))
    first: JsonObject = value if type(value) is dict else {}
    if isinstance(first.get("conversation"), list):
        _tell(
            draft,
            first,
            (
                (f"message {place}", message)
                for place, message in enumerate(first["conversation"], 1)
            ),
        )
        return
    lines = ((f"line {number}", message) for number, message in records)
    if "role" in first or first.keys().isdisjoint(_IN_HEADERS):
        _tell(draft, {"id": _id_in_name(source)}, _with_first((f"line {number}", value), lines))
    else:
        _tell(draft, {**first, "id": _id_in_name(source)}, lines)


def _with_first(
    first: tuple[str, Any], rest: Iterator[tuple[str, Any]]
) -> Iterator[tuple[str, Any]]:
    yield first
    yield from rest


def _id_in_name(source: Source) -> str | None:
    """The id of a session is the name of its file, a day and a number; other names tell nothing."""
    stem = PurePath(source.name).name.split(".")[0]
    return stem if source.path is not None and _FILE_NAME.fullmatch(stem) else None


def _tell(draft: Draft, info: JsonObject, messages: Iterator[tuple[str, Any]]) -> None:
    talk = Talk(draft, asker=draft.get_actor("human", "user"))
    _frame(talk, info)
    for place, message in messages:
        if type(message) is dict:
            talk.tell(message, place)
        else:
            draft.note_omission("skipped-record", place, "a message that is no object")
    _totals(talk, info)
    talk.providers.set_provider(draft.conversation)


def _frame(talk: Talk, info: JsonObject) -> None:
    """The facts about the whole, and where it ran."""
    draft = talk.draft
    model = get_dict(info, "model_config")
    talk.provider, talk.model = get_text(info, "provider_name"), get_text(model, "model_name")
    if talk.span is None:
        named = {
            "id": get_text(info, "id"),
            "title": get_text(info, "name") or get_text(info, "description"),
            "started_at": moment(info.get("created_at")),
        }
        draft.conversation |= {name: value for name, value in named.items() if value}  # type: ignore[typeddict-item]
    facts = {told: info[name] for name, told in _CONTEXT.items() if get_text(info, name)}
    if facts:
        draft.add_annotation({"kind": "context", **facts}, actor=talk.client, span=talk.span)
    recipe = get_dict(info, "recipe")
    if instructions := get_text(recipe, "instructions"):
        draft.add_message("system", instructions, talk.client, span=talk.span)
    if recipe.keys() - {"instructions"}:
        draft.note_omission("recipe", "the session", "a recipe but for its instructions")
    if info.get("extension_data"):
        draft.note_omission("bookkeeping", "the session", "the state of extensions")


def _totals(talk: Talk, info: JsonObject) -> None:
    """The counts of the whole session; they are the sum of the messages' and belong to none of
    them."""
    spent = {
        name: value
        for name, value in info.items()
        if name.endswith(("_tokens", "_cost")) and type(value) in (int, float) and value
    }
    for name in ("usage", "accumulated_usage"):
        counts = {
            key: value
            for key, value in get_dict(info, name).items()
            if type(value) in (int, float) and value
        }
        if counts:
            spent[name] = counts
    if spent:
        talk.draft.add_annotation(
            {"kind": "session_totals", **spent}, actor=talk.client, span=talk.span
        )


def list_conversations(source: Source) -> list[Found]:
    """The sessions that no other one started; a file or an export is one."""
    if source.shape != "sqlite":
        return []
    sessions, lineage = _opened(source)
    if not sessions:
        return []
    counts = dict(source.rows("SELECT session_id, count(*) FROM messages GROUP BY session_id"))
    return [_found(name, sessions[name], counts) for name in lineage.roots]


def _found(name: str, info: JsonObject, counts: dict[Any, Any]) -> Found:
    return Found(
        name,
        title=get_text(info, "name") or get_text(info, "description"),
        started_at=moment(info.get("created_at")),
        updated_at=moment(info.get("updated_at")),
        cwd=get_text(info, "working_dir"),
        messages=counts.get(name, 0),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a row belongs to; what is known of providers belongs to none of
    them."""
    if source.shape != "sqlite":
        return None  # a file is one conversation
    name = value.get("id") if at == "sessions" else value.get("session_id")
    return _opened(source)[1].find_root(name) if isinstance(name, str) else _NOBODY


def _opened(source: Source) -> tuple[dict[str, JsonObject], SessionTree]:
    if source not in _known:
        sessions = _sessions(source)
        _known[source] = sessions, SessionTree(sessions, "parent_session_id")
    return _known[source]


def _sessions(source: Source) -> dict[str, JsonObject]:
    """Every session of a database, in the order in which they were made; columns came with the
    versions."""
    columns = [name for name in _COLUMNS if name in source.tables.get("sessions", ())]
    if "id" not in columns:
        return {}
    order = "created_at, id" if "created_at" in columns else "id"
    found: dict[str, JsonObject] = {}
    for row in source.rows(f"SELECT {', '.join(columns)} FROM sessions ORDER BY {order}"):
        info = {name: value for name, value in zip(columns, row, strict=True) if value is not None}
        for name in ("recipe", "model_config"):
            info[name] = parsed(info.pop(f"{name}_json", None))
        if isinstance(info.get("id"), str):
            found[info["id"]] = info
    return found


class _Database:
    """Tells a session of a database, and inside it those it delegated to."""

    def __init__(
        self, source: Source, draft: Draft, sessions: dict[str, JsonObject], lineage: SessionTree
    ) -> None:
        self._source = source
        self._draft = draft
        self._sessions = sessions
        self._lineage = lineage

    def tell(self, name: str) -> None:
        """The session that is the conversation."""
        talk = Talk(self._draft, asker=self._draft.get_actor("human", "user"))
        self._session(talk, name, 0)
        talk.providers.set_provider(self._draft.conversation)

    def _session(self, talk: Talk, name: str, depth: int) -> None:
        info = self._sessions[name]
        _frame(talk, info)
        waiting = self._delegated(name)
        label = "subagent " if depth else ""
        for number, message in enumerate(self._messages(name), 1):
            talk.tell(message, f"{label}message {number}")
            children = waiting.pop(message["id"], []) if isinstance(message["id"], str) else []
            calls = [key for key, tool in talk.calls if "delegate" in tool or "subagent" in tool]
            for place, child in enumerate(children):
                self._child(
                    talk, child, calls[place] if len(calls) == len(children) else None, depth
                )
        for children in waiting.values():
            for child in children:
                self._child(talk, child, None, depth)
        _totals(talk, info)
        self._note_tables(name, f"{label}session")

    def _note_tables(self, name: str, place: str) -> None:
        """What other tables, such as the ledger of usage, hold of a session is not told."""
        for table, columns in self._source.tables.items():
            if "session_id" in columns and table not in _TOLD_TABLES:
                rows = self._source.rows(
                    f"SELECT count(*) FROM {quote_identifier(table)} WHERE session_id = ?", (name,)
                )
                for _ in range(next(rows, (0,))[0]):
                    self._draft.note_omission(
                        "other-table", place, f"a row of the table {format_kind(table)}"
                    )

    def _delegated(self, name: str) -> dict[str, list[str]]:
        """The sessions that one delegated to, by the message in which it did."""
        found: dict[str, list[str]] = {}
        for child in self._lineage.get_children(name):
            delegation = parsed(self._sessions[child].get("parent_delegation"))
            found.setdefault(get_text(delegation, "parent_delegate_message_id") or "", []).append(
                child
            )
        return found

    def _child(self, talk: Talk, name: str, call: str | None, depth: int) -> None:
        draft, info = self._draft, self._sessions[name]
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            return
        model = get_text(get_dict(info, "model_config"), "model_name")
        about = {"spawn_reason": get_text(info, "name"), "model": model}
        data: JsonObject = {
            "kind": "subagent",
            **{key: value for key, value in about.items() if value},
            "session_id": name,
        }
        inline = draft.subagents == "inline" and depth < _DEEPEST
        if not inline:
            data["reference"] = name
        asker = talk.speaker()
        span = draft.start_span(data, asker, ts=moment(info.get("created_at")), call=call)
        if inline:
            inner = Talk(draft, asker=asker, name="subagent", span=span)
            inner.providers = talk.providers
            self._session(inner, name, depth + 1)
        draft.end_span(span, ts=moment(info.get("updated_at")), call=call)

    def _messages(self, session_id: str) -> Iterator[JsonObject]:
        """The messages in the order in which Goose itself reads them; one version kept some in
        threads."""
        told = False
        for table in ("messages", "thread_messages"):
            columns = self._source.tables.get(table, [])
            if told or "content_json" not in columns or "session_id" not in columns:
                continue
            names = [name if name in columns else "NULL" for name in _OPTIONAL]
            rows = self._source.rows(
                f"SELECT role, content_json, {', '.join(names)} FROM {table} WHERE session_id = ?"
                f" ORDER BY {'created_timestamp, ' if 'created_timestamp' in columns else ''}id",
                (session_id,),
            )
            for role, content, name, created, metadata in rows:
                told = True
                value = parsed(content)
                yield {
                    "role": role,
                    "content": value if isinstance(value, list) else None,
                    "id": name,
                    "created": created,
                    "metadata": parsed(metadata),
                }
