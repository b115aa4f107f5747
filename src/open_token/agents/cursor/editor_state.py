"""Read the composers and chats in Cursor's editor databases, with their subagents."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import msgspec

from open_token.agents.cursor.bubbles import BubbleReader
from open_token.agents.cursor.conversation import (
    MAX_DEPTH,
    UNLISTED_BRANCH,
    Conversation,
    describe_subagent,
    note_left_out_subagent,
)
from open_token.agents.cursor.detect import CHATS_KEY, COMPOSERS_KEY
from open_token.builder.draft import Draft
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import (
    JsonObject,
    drop_nulls,
    get_dict,
    get_dicts,
    get_text,
    pick_fields,
)
from open_token.formats.shared.session_tree import SessionTree
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_NO_OWNER = "(nobody)"
"""The owner of settings and tokens of the editor: no conversation has this id."""
_COMPOSERS_SQL = """
    SELECT key, value FROM cursorDiskKV
    WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY rowid
"""
_BUBBLE_KEYS_SQL = "SELECT key FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY rowid"


class _ComposerHeader(msgspec.Struct, gc=False, rename="camel"):
    """The fields of a composer that a list needs; decoding no others saves time."""

    name: Any = None
    created_at: Any = None
    last_updated_at: Any = None
    full_conversation_headers_only: Any = None
    conversation: Any = None
    conversation_map: Any = None
    subagent_info: Any = None
    workspace_identifier: Any = None


_decode_header = msgspec.json.Decoder(_ComposerHeader).decode


@dataclass
class _Index:
    """The composers of a database in the order of its rows, and which started which."""

    composers: dict[str, JsonObject] = field(default_factory=dict)
    """The summaries of all composers, by id."""
    embedded: dict[str, JsonObject] = field(default_factory=dict)
    """Complete chats and composers of older builds, which stored all of them in one row."""
    lineage: SessionTree = field(default_factory=lambda: SessionTree({}))


_indexes: WeakKeyDictionary[Source, _Index] = WeakKeyDictionary()


def list_composers(source: Source) -> list[Found]:
    """List the composers with messages that a person started."""
    index = _get_index(source)
    return [_describe(name, index.composers[name]) for name in index.lineage.roots]


def _describe(composer_id: str, summary: JsonObject) -> Found:
    return Found(
        composer_id,
        title=get_text(summary, "name"),
        started_at=from_epoch(summary.get("createdAt"), 0.001),
        updated_at=from_epoch(summary.get("lastUpdatedAt"), 0.001),
        cwd=get_text(summary, "cwd"),
        messages=summary["messages"],
    )


def find_owner_of_row(source: Source, table: str, row: Any) -> str | None:
    """Return the composer that a row belongs to.

    Settings and tokens of the editor belong to none; rows with all chats have no single owner.
    """
    key = row.get("key", row.get("composerId")) if type(row) is dict else None
    if table == "ItemTable" and key in (CHATS_KEY, COMPOSERS_KEY):
        return None
    if not isinstance(key, str) or table not in ("cursorDiskKV", "composerHeaders"):
        return _NO_OWNER
    # Keys are `composerData:<composer>`, `bubbleId:<composer>:<bubble>` and so on.
    composer_id = key.split(":")[1] if ":" in key else key
    index = _get_index(source)
    if composer_id not in index.composers:
        return _NO_OWNER
    return index.lineage.find_root(composer_id)


def _get_index(source: Source) -> _Index:
    if source not in _indexes:
        _indexes[source] = _build_index(source)
    return _indexes[source]


def _build_index(source: Source) -> _Index:
    composers: dict[str, JsonObject] = {}
    for name, summary in _iterate_summaries(source):
        if summary["messages"]:
            composers[name] = summary
    embedded = {name: chat for name, chat in _iterate_embedded(source) if name not in composers}
    cwd = _find_workspace(source) if embedded else None
    for name, chat in embedded.items():
        messages = get_dicts(chat, "conversation") or get_dict(chat, "conversationMap")
        summary = _summarize(chat)
        summary["messages"] = len(messages)
        if cwd:
            summary["cwd"] = cwd
        composers[name] = summary
    for name, summary in _iterate_header_table(source):
        if name in composers:
            composers[name] |= summary
    return _Index(composers, embedded, SessionTree(composers, "parent"))


def _iterate_summaries(source: Source) -> Iterator[tuple[str, JsonObject]]:
    if "cursorDiskKV" not in source.tables:
        return
    for key, value in source.rows(_COMPOSERS_SQL):
        try:
            header = _decode_header(value)
        except (ValueError, TypeError, RecursionError):
            continue
        messages = (
            header.full_conversation_headers_only or header.conversation or header.conversation_map
        )
        summary = _summarize(
            {
                "name": header.name,
                "createdAt": header.created_at,
                "lastUpdatedAt": header.last_updated_at,
                "subagentInfo": header.subagent_info,
                "workspaceIdentifier": header.workspace_identifier,
            }
        )
        summary["messages"] = len(messages) if isinstance(messages, list | dict) else 0
        yield key.partition(":")[2], summary


def _iterate_header_table(source: Source) -> Iterator[tuple[str, JsonObject]]:
    """Yield the rows of the table in which newer builds store what lists of composers show."""
    if not {"composerId", "value"} <= set(source.tables.get("composerHeaders", ())):
        return
    for name, value in source.rows("SELECT composerId, value FROM composerHeaders"):
        header = _decode_object(value)
        if isinstance(name, str) and header is not None:
            yield name, _summarize(header)


def _summarize(composer: JsonObject) -> JsonObject:
    subagent = composer.get("subagentInfo")
    # Not all builds store the workspace with the composer.
    folder = get_dict(composer.get("workspaceIdentifier"), "uri")
    summary = {
        "name": composer.get("name"),
        "createdAt": composer.get("createdAt"),
        "lastUpdatedAt": composer.get("lastUpdatedAt"),
        "parent": get_text(subagent, "parentComposerId"),
        "call": get_text(subagent, "toolCallId"),
        "cwd": get_text(folder, "fsPath"),
    }
    return drop_nulls(summary)


def _decode_object(value: Any) -> JsonObject | None:
    try:
        decoded = _decode(value)
    except (ValueError, TypeError, RecursionError):
        return None
    return decoded if type(decoded) is dict else None


def _iterate_embedded(source: Source) -> Iterator[tuple[str, JsonObject]]:
    """Yield the chats before composers, and the first composers, which were stored together.

    Chats are yielded in the form of a composer. Later builds only list their composers there.
    """
    if not {"key", "value"} <= set(source.tables.get("ItemTable", ())):
        return
    for tab in get_dicts(_read_item(source, CHATS_KEY), "tabs"):
        name = get_text(tab, "tabId") or get_text(tab, "id")
        if name and get_dicts(tab, "bubbles"):
            yield name, _convert_tab(tab)
    for composer in get_dicts(_read_item(source, COMPOSERS_KEY), "allComposers"):
        name = get_text(composer, "composerId")
        has_messages = get_dicts(composer, "conversation") or get_dict(composer, "conversationMap")
        if name and has_messages:
            yield name, composer


def _read_item(source: Source, key: str) -> JsonObject:
    rows = source.rows("SELECT value FROM ItemTable WHERE key = ?", (key,))
    return _decode_object(next(rows, (None,))[0]) or {}


def _convert_tab(tab: JsonObject) -> JsonObject:
    composer: JsonObject = {
        "conversation": tab["bubbles"],
        "lastUpdatedAt": tab.get("lastSendTime", tab.get("timestamp")),
    }
    title = get_text(tab, "chatTitle") or get_text(tab, "title")
    if title:
        composer["name"] = title.partition("\n")[0][:160]
    return composer


def _find_workspace(source: Source) -> str | None:
    """Return the folder of the workspace, from the file next to its database."""
    file = source.open_sibling("workspace.json")
    if file is None or file.shape not in ("document", "lines") or not file.sample:
        return None
    folder = get_text(file.sample[0], "folder")
    if folder is None or not folder.startswith("file://"):
        return None
    return unquote(folder.removeprefix("file://"))


def read_composer(source: Source, draft: Draft) -> None:
    """Read the chosen composer, or the first one, into the draft."""
    index = _get_index(source)
    composer_id = source.conversation or next(iter(index.lineage.roots), None)
    if composer_id is None:
        return
    summary = index.composers.get(composer_id, {})
    header = draft.conversation
    header["source_runtime"] = "ide"
    set_conversation_facts(
        draft,
        conversation_id=composer_id,
        title=get_text(summary, "name"),
        started_at=from_epoch(summary.get("createdAt"), 0.001),
    )
    conversation = Conversation(draft, asker=draft.get_actor("human", "user"))
    _ComposerReader(source, index, conversation, composer_id, 0).read()
    conversation.providers.set_provider(header)


class _ComposerReader:
    """Reads one composer."""

    def __init__(
        self,
        source: Source,
        index: _Index,
        conversation: Conversation,
        composer_id: str,
        depth: int,
    ) -> None:
        self._source = source
        self._index = index
        self._conversation = conversation
        self._draft = conversation.draft
        self._id = composer_id
        self._depth = depth
        self._label = "subagent bubble" if depth else "bubble"
        self._child_of_call: dict[str, str] = {}
        for child in index.lineage.get_children(composer_id):
            call_id = index.composers[child].get("call")
            if isinstance(call_id, str):
                self._child_of_call[call_id] = child
        self._read_children: set[str] = set()

    def read(self) -> None:
        """Read all bubbles, then the subagents that no call names."""
        composer = self._index.embedded.get(self._id)
        if composer is None:
            composer = self._read_row(f"composerData:{self._id}") or {}
        self._conversation.model = get_text(get_dict(composer, "modelConfig"), "modelName")
        self._read_context(composer)
        bubbles = BubbleReader(self._conversation, self._read_spawned_subagent)
        for number, bubble in enumerate(self._iterate_bubbles(composer), 1):
            bubbles.read(bubble, f"{self._label} {number}")
        self._read_unlisted_bubbles(bubbles, composer)
        summary = _get_compaction_summary(composer)
        if summary:
            self._conversation.annotate({"kind": "compaction", "summary": summary})
        for child in self._index.lineage.get_children(self._id):
            if child not in self._read_children:
                self._read_subagent(child, None, {})

    def _read_context(self, composer: JsonObject) -> None:
        facts: JsonObject = {}
        cwd = self._index.composers.get(self._id, {}).get("cwd")
        if cwd:
            facts["cwd"] = cwd
        facts |= pick_fields(composer, "unifiedMode", "createdOnBranch", "status")
        if facts:
            self._conversation.annotate({"kind": "context", **facts})
        # The input field of the composer.
        draft_text = composer.get("text")
        if isinstance(draft_text, str) and draft_text.strip():
            self._draft.note_omission("draft", "composer", "text in the input that was not sent")

    def _iterate_bubbles(self, composer: JsonObject) -> Iterator[JsonObject]:
        """Yield the bubbles in order: in rows of their own, or in older versions inside."""
        bubble_map = get_dict(composer, "conversationMap")
        headers = get_dicts(composer, "fullConversationHeadersOnly")
        if headers and self._id not in self._index.embedded:
            for header in headers:
                name = get_text(header, "bubbleId")
                bubble = self._read_row(f"bubbleId:{self._id}:{name}")
                bubble = bubble or get_dict(bubble_map, name or "")
                if bubble:
                    yield {"type": header.get("type"), **bubble}
                else:
                    self._draft.note_omission(
                        "missing-bubble", self._label, "message that is listed but missing"
                    )
            return
        inline_bubbles = get_dicts(composer, "conversation")
        if inline_bubbles:
            yield from inline_bubbles
            return
        for bubble in bubble_map.values():
            if type(bubble) is dict:
                yield bubble

    def _read_unlisted_bubbles(self, bubbles: BubbleReader, composer: JsonObject) -> None:
        """Read messages that were edited away, which stay in the database, as a branch."""
        headers = get_dicts(composer, "fullConversationHeadersOnly")
        if not headers or self._id in self._index.embedded:
            return
        listed = {get_text(header, "bubbleId") for header in headers}
        draft = self._draft
        first = draft.count
        bounds = (f"bubbleId:{self._id}:", f"bubbleId:{self._id};")
        # Reading a bubble runs further queries: finish this one first.
        keys = [key for (key,) in self._source.rows(_BUBBLE_KEYS_SQL, bounds)]
        unlisted = [key for key in keys if key.rpartition(":")[2] not in listed]
        for number, key in enumerate(unlisted, 1):
            if draft.branches != "all":
                draft.note_omission(
                    "unlisted-message", self._label, "message that the composer no longer lists"
                )
                continue
            bubble = self._read_row(key)
            if bubble:
                bubbles.read(bubble, f"unlisted {self._label} {number}")
        if draft.count > first:
            client = self._conversation.client
            draft.drop_branch(first, draft.count, dict(UNLISTED_BRANCH), client)

    def _read_row(self, key: str) -> JsonObject | None:
        rows = self._source.rows("SELECT value FROM cursorDiskKV WHERE key = ?", (key,))
        value = next(rows, (None,))[0]
        if value is None:
            return None
        decoded = _decode_object(value)
        if decoded is None:
            self._draft.note_omission(
                "broken-row", self._label, "row whose value is not a JSON object"
            )
        return decoded

    def _read_spawned_subagent(
        self, key: str, call_id: str | None, arguments: Any, result: Any, actor: str
    ) -> None:
        """Read the subagent of a call: its composer names the call, or the result names it."""
        child = self._child_of_call.get(call_id or "") or get_text(result, "agentId")
        if child in self._index.composers and child not in self._read_children:
            self._read_subagent(child, key, describe_subagent(arguments), actor)

    def _read_subagent(
        self, composer_id: str, call: str | None, description: JsonObject, asker: str | None = None
    ) -> None:
        draft = self._draft
        self._read_children.add(composer_id)
        if draft.subagents == "none":
            note_left_out_subagent(draft, f"event {draft.count}")
            return
        summary = self._index.composers[composer_id]
        is_inline = draft.subagents == "inline" and self._depth < MAX_DEPTH
        asker = asker or self._conversation.get_model_actor()
        span = self._conversation.start_subagent(
            composer_id,
            call,
            description,
            is_inline=is_inline,
            asker=asker,
            ts=from_epoch(summary.get("createdAt"), 0.001),
        )
        if is_inline:
            name = description.get("subagent_type") or "subagent"
            conversation = Conversation(draft, asker=asker, span=span, name=name)
            # All threads determine the provider of the conversation together.
            conversation.providers = self._conversation.providers
            depth = self._depth + 1
            _ComposerReader(self._source, self._index, conversation, composer_id, depth).read()
        draft.end_span(span, ts=from_epoch(summary.get("lastUpdatedAt"), 0.001), call=call)


def _get_compaction_summary(composer: JsonObject) -> str | None:
    latest = get_dict(composer, "latestConversationSummary")
    return get_text(get_dict(latest, "summary"), "summary") or get_text(latest, "summary")
