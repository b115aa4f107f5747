"""The composers and chats in Cursor's editor databases: which there are, one of them told with its
subagents."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from open_token.agents.cursor.bubbles import Bubbles
from open_token.agents.cursor.conversation import LEFT, Talk, spawned
from open_token.agents.cursor.workspace_chats import CHATS, COMPOSERS, chats, workspace
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text, pick_fields
from open_token.formats.shared.session_tree import SessionTree
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Found
from open_token.sources.source import Source

_decode = msgspec.json.Decoder().decode
_NOBODY = "(nobody)"
"""Whose a setting or a token of the editor is: no conversation has this id."""
_DEEPEST = 8


class _Brief(msgspec.Struct, gc=False, rename="camel"):
    """What a list needs of a composer; the bulk of it stays bytes."""

    composer_id: Any = None
    name: Any = None
    created_at: Any = None
    last_updated_at: Any = None
    full_conversation_headers_only: Any = None
    conversation: Any = None
    conversation_map: Any = None
    subagent_info: Any = None
    workspace_identifier: Any = None


_brief = msgspec.json.Decoder(_Brief).decode


@dataclass
class _Index:
    """The composers of a database in the order of its rows, and who started whom."""

    composers: dict[str, JsonObject] = field(default_factory=dict)
    inside: dict[str, JsonObject] = field(default_factory=dict)
    """Those that stand whole in a row with others."""
    lineage: SessionTree = field(default_factory=lambda: SessionTree({}))


_known: WeakKeyDictionary[Source, _Index] = WeakKeyDictionary()


def conversations(source: Source) -> list[Found]:
    """The composers that a person started and in which something was said."""
    index = _index(source)
    return [_found(name, index.composers[name]) for name in index.lineage.roots]


def _found(name: str, brief: JsonObject) -> Found:
    return Found(
        name,
        title=get_text(brief, "name"),
        started_at=from_epoch(brief.get("createdAt"), 0.001),
        updated_at=from_epoch(brief.get("lastUpdatedAt"), 0.001),
        cwd=get_text(brief, "cwd"),
        messages=brief["messages"],
    )


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The composer that a row belongs to; the editor's settings and tokens belong to none of
    them."""
    key = value.get("key", value.get("composerId")) if type(value) is dict else None
    if at == "ItemTable" and key in (CHATS, COMPOSERS):
        return None
    if not isinstance(key, str) or at not in ("cursorDiskKV", "composerHeaders"):
        return _NOBODY
    name = key.split(":")[1] if ":" in key else key
    index = _index(source)
    return index.lineage.find_root(name) if name in index.composers else _NOBODY


def _index(source: Source) -> _Index:
    if source not in _known:
        composers = {name: brief for name, brief in _briefs(source) if brief["messages"]}
        inside = {name: chat for name, chat in chats(source) if name not in composers}
        cwd = workspace(source) if inside else None
        composers |= {name: _brief_of(chat, cwd) for name, chat in inside.items()}
        for name, header in _headers(source).items():
            if name in composers:
                composers[name] = {**composers[name], **header}
        _known[source] = _Index(composers, inside, SessionTree(composers, "parent"))
    return _known[source]


def _brief_of(chat: JsonObject, cwd: str | None) -> JsonObject:
    said = get_dicts(chat, "conversation") or get_dict(chat, "conversationMap")
    made = _facts(
        chat.get("name"), chat.get("createdAt"), chat.get("lastUpdatedAt"), chat.get("subagentInfo")
    )
    return made | {"messages": len(said)} | ({"cwd": cwd} if cwd else {})


def _briefs(source: Source) -> Iterator[tuple[str, JsonObject]]:
    if "cursorDiskKV" not in source.tables:
        return
    for key, value in source.rows(
        "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;' ORDER BY rowid"
    ):
        try:
            brief = _brief(value)
        except (ValueError, TypeError, RecursionError):
            continue
        told = brief.full_conversation_headers_only or brief.conversation or brief.conversation_map
        count = len(told) if isinstance(told, list | dict) else 0
        made = _facts(brief.name, brief.created_at, brief.last_updated_at, brief.subagent_info)
        cwd = _folder(brief.workspace_identifier)
        yield key.partition(":")[2], made | {"messages": count} | ({"cwd": cwd} if cwd else {})


def _headers(source: Source) -> dict[str, JsonObject]:
    """Newer builds keep what a list of composers shows in a table of its own."""
    if not {"composerId", "value"} <= set(source.tables.get("composerHeaders", ())):
        return {}
    found: dict[str, JsonObject] = {}
    for name, value in source.rows("SELECT composerId, value FROM composerHeaders"):
        header = _value(value)
        if isinstance(name, str) and header is not None:
            info = header.get("subagentInfo")
            made = _facts(
                header.get("name"), header.get("createdAt"), header.get("lastUpdatedAt"), info
            )
            cwd = _folder(header.get("workspaceIdentifier"))
            found[name] = made | ({"cwd": cwd} if cwd else {})
    return found


def _facts(name: Any, created: Any, updated: Any, subagent: Any) -> JsonObject:
    about = {"name": name, "createdAt": created, "lastUpdatedAt": updated}
    about |= {
        "parent": get_text(subagent, "parentComposerId"),
        "call": get_text(subagent, "toolCallId"),
    }
    return {key: value for key, value in about.items() if value is not None}


def _folder(workspace: Any) -> str | None:
    return get_text(get_dict(workspace, "uri"), "fsPath")


def _value(value: Any) -> JsonObject | None:
    try:
        made = _decode(value)
    except (ValueError, TypeError, RecursionError):
        return None
    return made if type(made) is dict else None


def read(source: Source, draft: Draft) -> None:
    """Tell the chosen composer, or the only one."""
    index = _index(source)
    chosen = source.conversation or next(iter(index.lineage.roots), None)
    if chosen is None:
        return
    talk = Talk(draft, asker=draft.get_actor("human", "user"))
    _frame(draft, chosen, index.composers.get(chosen, {}))
    _Composer(source, index, talk, chosen, 0).tell()
    talk.providers.set_provider(draft.conversation)


def _frame(draft: Draft, name: str, brief: JsonObject) -> None:
    conversation = draft.conversation
    conversation["id"] = name
    if title := get_text(brief, "name"):
        conversation["title"] = title
    if started := from_epoch(brief.get("createdAt"), 0.001):
        conversation["started_at"] = started
    conversation["source_runtime"] = "ide"


class _Composer:
    """One composer while it is told."""

    def __init__(self, source: Source, index: _Index, talk: Talk, name: str, depth: int) -> None:
        self._source = source
        self._index = index
        self._talk = talk
        self._draft = talk.draft
        self._name = name
        self._depth = depth
        self._label = "subagent bubble" if depth else "bubble"
        calls = {
            index.composers[child].get("call"): child for child in index.lineage.get_children(name)
        }
        self._children = {call: child for call, child in calls.items() if isinstance(call, str)}
        self._told: set[str] = set()

    def tell(self) -> None:
        """All bubbles, then the subagents that no call named."""
        composer = (
            self._index.inside.get(self._name) or self._row(f"composerData:{self._name}") or {}
        )
        self._talk.model = get_text(get_dict(composer, "modelConfig"), "modelName")
        self._context(composer)
        bubbles = Bubbles(self._talk, self._started)
        for number, bubble in enumerate(self._bubbles(composer), 1):
            bubbles.tell(bubble, f"{self._label} {number}")
        self._left(bubbles, composer)
        if summary := _summary(composer):
            self._talk.note({"kind": "compaction", "summary": summary})
        for child in self._index.lineage.get_children(self._name):
            if child not in self._told:
                self._child(child, None, {})

    def _context(self, composer: JsonObject) -> None:
        facts = pick_fields(composer, "unifiedMode", "createdOnBranch", "status")
        if cwd := self._index.composers.get(self._name, {}).get("cwd"):
            facts = {"cwd": cwd, **facts}
        if facts:
            self._talk.note({"kind": "context", **facts})
        if isinstance(composer.get("text"), str) and composer["text"].strip():
            self._draft.note_omission("draft", "composer", "words in the input that were not sent")

    def _bubbles(self, composer: JsonObject) -> Iterator[JsonObject]:
        """The bubbles in the order of the composer: named by headers, or, in older versions, inside
        it."""
        inside = composer.get("conversationMap")
        held: JsonObject = inside if type(inside) is dict else {}
        headers = get_dicts(composer, "fullConversationHeadersOnly")
        if headers and self._name not in self._index.inside:
            for header in headers:
                name = get_text(header, "bubbleId")
                bubble = self._row(f"bubbleId:{self._name}:{name}") or get_dict(held, name or "")
                if bubble:
                    yield {"type": header.get("type"), **bubble}
                else:
                    self._draft.note_omission(
                        "missing-bubble", self._label, "a message that is listed and not there"
                    )
        elif get_dicts(composer, "conversation"):
            yield from get_dicts(composer, "conversation")
        else:
            yield from (bubble for bubble in held.values() if type(bubble) is dict)

    def _left(self, bubbles: Bubbles, composer: JsonObject) -> None:
        """Messages that were edited away lie there still, and no list names them: a branch that was
        left."""
        listed = {
            get_text(header, "bubbleId")
            for header in get_dicts(composer, "fullConversationHeadersOnly")
        }
        if not listed or self._name in self._index.inside:
            return
        first, last = f"bubbleId:{self._name}:", f"bubbleId:{self._name};"
        rows = self._source.rows(
            "SELECT key FROM cursorDiskKV WHERE key >= ? AND key < ? ORDER BY rowid", (first, last)
        )
        keys = [key for (key,) in rows if key.rpartition(":")[2] not in listed]
        before = self._draft.count
        for number, key in enumerate(keys, 1):
            if self._draft.branches != "all":
                self._draft.note_omission(
                    "unlisted-message", self._label, "a message that the composer no longer lists"
                )
            elif bubble := self._row(key):
                bubbles.tell(bubble, f"unlisted {self._label} {number}")
        if self._draft.count > before:
            self._draft.drop_branch(before, self._draft.count, dict(LEFT), self._talk.client)

    def _row(self, key: str) -> JsonObject | None:
        rows = self._source.rows("SELECT value FROM cursorDiskKV WHERE key = ?", (key,))
        value = next(rows, (None,))[0]
        made = _value(value) if value is not None else None
        if value is not None and made is None:
            self._draft.note_omission(
                "broken-row", self._label, "a row whose value is no JSON object"
            )
        return made

    def _started(
        self, key: str, native: str | None, arguments: Any, result: Any, actor: str
    ) -> None:
        """A call may have started a subagent: its composer names the call, or the result names the
        composer."""
        child = self._children.get(native or "") or get_text(result, "agentId")
        if child in self._index.composers and child not in self._told:
            self._child(child, key, spawned(arguments), actor)

    def _child(
        self, name: str, call: str | None, about: JsonObject, asker: str | None = None
    ) -> None:
        draft = self._draft
        self._told.add(name)
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            return
        brief = self._index.composers[name]
        data: JsonObject = {"kind": "subagent", **about, "agent_id": name}
        inline = draft.subagents == "inline" and self._depth < _DEEPEST
        if not inline:
            data["reference"] = name
        asker = asker or self._talk.speaker()
        span = draft.start_span(
            data, asker, ts=from_epoch(brief.get("createdAt"), 0.001), call=call
        )
        if inline:
            talk = Talk(
                draft, asker=asker, span=span, name=about.get("subagent_type") or "subagent"
            )
            talk.providers = self._talk.providers
            _Composer(self._source, self._index, talk, name, self._depth + 1).tell()
        draft.end_span(span, ts=from_epoch(brief.get("lastUpdatedAt"), 0.001), call=call)


def _summary(composer: JsonObject) -> str | None:
    """What the conversation was shortened to."""
    latest = get_dict(composer, "latestConversationSummary")
    return get_text(get_dict(latest, "summary"), "summary") or get_text(latest, "summary")
