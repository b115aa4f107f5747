"""Read threads of Zed from its database, with the subagents that they started."""

import io
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.child_sessions import add_child_session, is_left_out
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import (
    JsonObject,
    get_dict,
    get_dicts,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.session_tables import NO_OWNER
from open_token.formats.shared.session_tree import SessionTree
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage, get_count
from open_token.jsontools.media import build_media_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found, Usage
from open_token.sources.decompress import (
    MissingZstdError,
    TooLargeError,
    get_damage_errors,
    open_compressed,
)
from open_token.sources.source import Source

_PARENT = "parent_id"
_SETTINGS = ("profile", "thinking_effort", "speed", "imported")
_trees: WeakKeyDictionary[Source, SessionTree] = WeakKeyDictionary()


class ThreadReader:
    """Reads one thread of a database."""

    def __init__(self, source: Source, draft: Draft, rows: dict[str, JsonObject]) -> None:
        self._source = source
        self._draft = draft
        self._rows = rows
        self._tree = SessionTree(rows, _PARENT)
        self._providers = ProviderTracker()
        self._provider: str | None = None
        self._client = draft.get_actor("system", "Zed")
        self._read_children: set[str] = set()
        """The subagents that were read where their call is."""

    def _find_provider(self, model: str) -> str | None:
        return self._providers.add_model(self._provider, model or None)

    def read(self, thread_id: str) -> None:
        """Read a thread into the draft."""
        document = load_document(self._source, thread_id)
        row = self._rows[thread_id]
        conversation = self._draft.conversation
        conversation["source_runtime"] = "ide"
        set_conversation_facts(
            self._draft,
            conversation_id=thread_id,
            title=get_text(row, "summary") or get_text(document, "title"),
            started_at=to_utc(row.get("created_at")) or to_utc(row.get("updated_at")),
        )
        thread = Thread(self._draft, self._client, self._find_provider)
        folders = _get_folders(row)
        if folders:
            thread.add_annotation({"kind": "context", "cwd": folders[0], "folders": folders})
        self._read_thread(thread_id, document, thread)
        self._providers.set_provider(conversation)

    def _read_thread(self, thread_id: str, document: JsonObject, thread: Thread) -> None:
        model = get_dict(document, "model")
        self._provider = get_text(model, "provider")
        thread.set_model(model.get("model"))
        messages = document.get("messages")
        if not isinstance(messages, list):
            self._draft.note_omission("skipped-record", thread_id, "messages that are not a list")
            messages = []
        for number, message in enumerate(messages, 1):
            self._read_message(message, f"message {number}", thread)
        for child in self._tree.get_children(thread_id):
            if child not in self._read_children:
                self._read_subagent(child, None, thread)
        self._add_facts(document, thread)

    def _read_message(self, message: Any, place: str, thread: Thread) -> None:
        """Read a message: `{"User": ...}` or `{"Agent": ...}`, and before 0.3.0 one with a role."""
        if message == "Resume":
            thread.add_annotation({"kind": "resume"})
        elif type(message) is dict and type(message.get("User")) is dict:
            self._read_user(message["User"], place, thread)
        elif type(message) is dict and type(message.get("Agent")) is dict:
            self._read_agent(message["Agent"], place, thread)
        elif type(message) is dict and isinstance(message.get("role"), str):
            self._read_old_message(message, place, thread)
        else:
            self._draft.note_omission("unknown-record", place, "message of an unknown kind")

    def _read_user(self, message: JsonObject, place: str, thread: Thread) -> None:
        blocks: list[Any] = []
        for kind, value in self._iter_parts(message.get("content"), place):
            text = value if isinstance(value, str) else None
            if kind == "Text" and text is not None:
                blocks.append({"type": "text", "text": text})
            elif kind == "Mention" and isinstance(value, dict):
                blocks.append(
                    {"type": "mention", "uri": value.get("uri"), "text": value.get("content")}
                )
            elif kind == "Image" and isinstance(value, dict):
                blocks.append(_build_image(value))
            else:
                self._draft.note_omission("unknown-part", place, f"part {format_kind(kind)}")
        if blocks:
            thread.add_message("user", _simplify(blocks), thread.get_user_actor())
        else:
            self._draft.note_omission("empty-message", place, "message without content")

    def _iter_parts(self, content: Any, place: str) -> list[tuple[str, Any]]:
        """Return kind and value of each part, which is an object with one key."""
        parts: list[tuple[str, Any]] = []
        for part in content if isinstance(content, list) else []:
            if type(part) is dict and len(part) == 1:
                parts += part.items()
            else:
                self._draft.note_omission("unknown-part", place, "part of an unknown shape")
        if not isinstance(content, list):
            self._draft.note_omission("skipped-record", place, "content that is not a list")
        return parts

    def _read_agent(self, message: JsonObject, place: str, thread: Thread) -> None:
        results = get_dict(message, "tool_results")
        for kind, value in self._iter_parts(message.get("content"), place):
            if kind == "Text" and isinstance(value, str):
                if value:
                    thread.add_message("assistant", value, thread.model_actor)
            elif kind == "Thinking" and isinstance(value, dict):
                thread.add_reasoning(get_text(value, "text"))
            elif kind == "RedactedThinking":
                thread.add_reasoning(None)
            elif kind == "ToolUse" and isinstance(value, dict):
                self._add_call(value, results, place, thread)
            else:
                self._draft.note_omission("unknown-part", place, f"part {format_kind(kind)}")
        for call_id, result in results.items():
            self._add_result(call_id, result, place, thread)

    def _read_old_message(self, message: JsonObject, place: str, thread: Thread) -> None:
        role = message["role"]
        texts: list[Any] = []
        segments = message.get("segments")
        for segment in segments if isinstance(segments, list) else []:
            kind = get_text(segment, "type")
            text = get_text(segment, "text")
            if role == "assistant" and kind == "thinking":
                thread.add_reasoning(text)
            elif kind == "RedactedThinking":
                thread.add_reasoning(None)
            elif kind in ("text", "thinking") and text is not None:
                texts.append({"type": "text", "text": text})
            elif kind not in ("text", "thinking") or not isinstance(segment.get("text"), str):
                self._draft.note_omission("unknown-part", place, f"part {format_kind(kind)}")
        if texts and role == "assistant":
            thread.add_message("assistant", _simplify(texts), thread.model_actor)
        elif texts and role == "system":
            thread.add_message("system", _simplify(texts), self._client)
        elif texts and role == "user":
            thread.add_message("user", _simplify(texts), thread.get_user_actor())
        elif texts:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")
        # What the client attached for the mentions in a prompt.
        context = message.get("context")
        if context:
            is_text = isinstance(context, str)
            thread.add_injected_message(
                context if is_text else [{"type": "json", "value": context}]
            )
        results = {
            call_id: result
            for result in get_dicts(message, "tool_results")
            if (call_id := get_text(result, "tool_use_id"))
        }
        calls = message.get("tool_uses")
        for call in calls if isinstance(calls, list) else []:
            self._add_call(call, results, place, thread)
        listed = message.get("tool_results")
        for result in listed if isinstance(listed, list) else []:
            self._add_result(get_text(result, "tool_use_id"), result, place, thread)

    def _add_call(self, call: Any, results: JsonObject, place: str, thread: Thread) -> None:
        name = get_text(call, "name")
        if name is None:
            self._draft.note_omission("unknown-call", place, "call without a name")
            return
        call_id = get_text(call, "id")
        arguments = call.get("input")
        if arguments is None:
            arguments = call.get("raw_input")
        key = thread.add_tool_call(call_id, name, parse_arguments(arguments), group=place)
        child = self._find_subagent(call_id, results)
        if child:
            self._read_subagent(child, key, thread)

    def _find_subagent(self, call_id: str | None, results: JsonObject) -> str | None:
        """Return the thread that a call started: its result names it."""
        result = get_dict(results, call_id or "")
        child = get_text(get_dict(result, "output"), "session_id")
        return child if child in self._rows and child not in self._read_children else None

    def _add_result(self, call_id: str | None, result: Any, place: str, thread: Thread) -> None:
        if type(result) is not dict:
            self._draft.note_omission("unknown-result", place, "result of an unknown shape")
            return
        thread.add_tool_result(
            call_id,
            _parse_output(result.get("content")),
            facts={"is_error": True} if result.get("is_error") is True else None,
            tool=get_text(result, "tool_name"),
        )

    def _read_subagent(self, child_id: str, call: str | None, parent: Thread) -> None:
        self._read_children.add(child_id)
        if is_left_out(parent, child_id):
            return
        try:
            document = load_document(self._source, child_id)
        except InputError:
            self._draft.note_omission("broken-record", child_id, "subagent that cannot be read")
            return
        provider = self._provider
        add_child_session(
            parent,
            child_id,
            lambda child: self._read_thread(child_id, document, child),
            title=get_text(self._rows[child_id], "summary"),
            count_records=lambda: len(get_dicts(document, "messages")),
            call=call,
        )
        # Reading the subagent has set its own.
        self._provider = provider

    def _add_facts(self, document: JsonObject, thread: Thread) -> None:
        summary = document.get("detailed_summary") or document.get("detailed_summary_state")
        if isinstance(summary, dict):
            summary = get_text(get_dict(summary, "Generated"), "text")
        if isinstance(summary, str) and summary not in ("", "NotGenerated"):
            thread.add_annotation({"kind": "summary", "text": summary})
        facts = {name: value for name, value in pick_fields(document, *_SETTINGS).items() if value}
        if facts:
            thread.add_annotation({"kind": "settings", **facts})
        usage = _parse_usage(get_dict(document, "cumulative_token_usage"))
        if usage and any(usage.values()):
            thread.add_annotation({"kind": "session_totals"}, usage=usage)
        if document.get("draft_prompt"):
            self._draft.note_omission("draft", thread.label or "thread", "a prompt not sent yet")


def _parse_output(content: Any) -> Any:
    """Return the output of a tool: a text, or what each of its parts holds."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    blocks: list[Any] = []
    for part in parts:
        text = part if isinstance(part, str) else get_text(part, "Text")
        if text is not None:
            blocks.append({"type": "text", "text": text})
        elif get_dict(part, "Image"):
            blocks.append(_build_image(part["Image"]))
        elif part is not None and part != {"Text": ""}:
            blocks.append(part)
    return _simplify(blocks) if blocks else ""


def _simplify(blocks: list[Any]) -> str | list[Any]:
    """Return the text of a single block of text; anything else as it is."""
    if len(blocks) == 1 and type(blocks[0]) is dict and blocks[0].keys() == {"type", "text"}:
        text: str = blocks[0]["text"]
        return text
    return blocks


def _build_image(image: JsonObject) -> JsonObject:
    # Zed converts every image to this type.
    return build_media_block("image/png", get_text(image, "source") or "", "image")


def _parse_usage(counts: JsonObject) -> Usage | None:
    fresh = get_count(counts, "input_tokens")
    read = get_count(counts, "cache_read_input_tokens")
    written = get_count(counts, "cache_creation_input_tokens")
    if not counts:
        return None
    return build_usage(
        input_tokens=fresh + read + written,
        output_tokens=counts.get("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _get_folders(row: JsonObject) -> list[str]:
    paths = get_text(row, "folder_paths")
    return [path for path in paths.split("\n") if path] if paths else []


def _read_rows(source: Source) -> dict[str, JsonObject]:
    """Return all threads by id, oldest first, without what was said in them."""
    if source.shape != "sqlite" or "threads" not in source.tables:
        return {}
    names = [name for name in source.tables["threads"] if name != "data"]
    columns = ", ".join(f'"{name}"' for name in names)
    rows: dict[str, JsonObject] = {}
    for values in source.rows(f"SELECT {columns} FROM threads ORDER BY updated_at, id"):
        row = dict(zip(names, values, strict=True))
        if isinstance(row["id"], str):
            rows[row["id"]] = row
    return rows


def load_document(source: Source, thread_id: str) -> JsonObject:
    """Return the document of a thread; one that is damaged is an error that names it."""
    for (data,) in source.rows("SELECT data FROM threads WHERE id = ?", (thread_id,)):
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        try:
            unpacked = open_compressed(io.BytesIO(raw))
            document = msgspec.json.decode(raw if unpacked is None else unpacked.read())
        except MissingZstdError:
            raise InputError(
                "this thread is compressed with Zstandard",
                where=f"{source.name}, thread {thread_id}",
                help="install the package backports.zstd, or use Python 3.14",
                code="input.zstd",
            ) from None
        except (TypeError, ValueError, RecursionError, TooLargeError):
            break
        except get_damage_errors():
            break
        if isinstance(document, dict):
            return document
    raise InputError(
        "this thread is damaged",
        where=f"{source.name}, thread {thread_id}",
        help="open it in Zed; choose another one with --conversation",
    )


def read(source: Source, draft: Draft) -> None:
    """Read the chosen thread, or the first one, into the draft."""
    rows = _read_rows(source)
    thread_id = source.conversation or next(iter(SessionTree(rows, _PARENT).roots), None)
    if thread_id in rows:
        ThreadReader(source, draft, rows).read(thread_id)


def list_conversations(source: Source) -> list[Found]:
    """List the threads that no other thread started."""
    rows = _read_rows(source)
    return [
        Found(
            thread_id,
            title=get_text(rows[thread_id], "summary"),
            started_at=to_utc(rows[thread_id].get("created_at")),
            updated_at=to_utc(rows[thread_id].get("updated_at")),
            cwd=next(iter(_get_folders(rows[thread_id])), None),
        )
        for thread_id in SessionTree(rows, _PARENT).roots
    ]


def find_owner(source: Source, position: str, value: Any) -> str | None:
    """Return the thread that a row is, or the one that started it."""
    thread_id = get_text(value, "id") if position == "threads" else None
    if thread_id is None:
        return NO_OWNER
    if source not in _trees:
        _trees[source] = SessionTree(_read_rows(source), _PARENT)
    return _trees[source].find_root(thread_id)
