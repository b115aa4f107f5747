"""Tells a conversation of a ChatGPT export: the tree of its messages, calls by their recipients,
results, thoughts."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

from open_token.builder.draft import Draft
from open_token.formats.chatgpt_export.content import ASSET, Body, Contents
from open_token.formats.chatgpt_export.detect import LAYOUT
from open_token.formats.shared.export_archive import (
    ExportedConversation,
    ExportedConversations,
    note_empty_conversation,
)
from open_token.formats.shared.export_assets import Assets
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.message_tree import BEGIN, NODE, BranchRecorder, walk_tree
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Event, Found, Role, Visibility
from open_token.sources.source import Source

_NODE = {"id", "parent", "children", "message"}
_EVERYONE = ("all", "assistant", "user")
_CONTEXT = (
    "gizmo_id",
    "gizmo_type",
    "conversation_template_id",
    "plugin_ids",
    "conversation_origin",
    "voice",
)
_USUAL_ENDS = ("stop", "unknown", None)


def _read_part(source: Source, draft: Draft, parts: ExportedConversations) -> None:
    """Tell the chosen conversation to the draft."""
    parts.note_other_content(draft)
    assets = Assets(source, ASSET, beside="file*")
    _Conversation(draft, parts.get_selected(source).value, Contents(draft, assets)).tell()
    note_empty_conversation(source, draft)


def _body(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


class _Conversation:
    """One conversation on its way into the draft."""

    def __init__(self, draft: Draft, value: Body, contents: Contents) -> None:
        self._draft = draft
        self._value = value
        self._contents = contents
        self._calls = OpenCalls(draft)
        self._nodes = {key: _body(node) for key, node in value["mapping"].items()}
        self._numbers = {key: number for number, key in enumerate(self._nodes, 1)}

    def tell(self) -> None:
        self._tell_facts()
        branches = BranchRecorder(self._draft, "another message took its place")
        parents, rank = self._parents()
        for what, key in walk_tree(parents, self._leaf(), rank):
            if what == NODE:
                self._tell_node(key, self._nodes[key], parents[key])
            elif what == BEGIN:
                branches.begin()
                self._calls.fork()
            else:
                self._calls.join()
                branches.end()
        self._calls.flush()
        branches.close()

    def _tell_facts(self) -> None:
        facts, value = self._draft.conversation, self._value
        facts["source_runtime"] = "web"
        facts["provider"] = "openai"
        if name := as_text(value.get("conversation_id")) or as_text(value.get("id")):
            facts["id"] = name
        if title := as_text(value.get("title")):
            facts["title"] = title
        if started := from_epoch(value.get("create_time")):
            facts["started_at"] = started
        if context := {name: value[name] for name in _CONTEXT if value.get(name)}:
            self._draft.add_annotation({"kind": "context", **context})

    def _parents(self) -> tuple[dict[str, str | None], dict[str, int]]:
        """Who follows whom: by the parent a node names, else by the children its parent names."""
        rank: dict[str, int] = {}
        named: dict[str, str] = {}
        for key, node in self._nodes.items():
            children = node.get("children")
            for number, child in enumerate(children if isinstance(children, list) else ()):
                if isinstance(child, str):
                    rank.setdefault(child, number)
                    named.setdefault(child, key)
        return {
            key: as_text(node.get("parent")) or named.get(key) for key, node in self._nodes.items()
        }, rank

    def _leaf(self) -> str | None:
        """The last message of the line that is shown; where nothing says it, the last of the
        file."""
        current = as_text(self._value.get("current_node"))
        if current in self._nodes:
            return current
        return next(
            (
                key
                for key in reversed(self._nodes)
                if isinstance(self._nodes[key].get("message"), dict)
            ),
            None,
        )

    def _tell_node(self, key: str, node: Body, parent: str | None) -> None:
        message, place = node.get("message"), f"message {self._numbers[key]}"
        if not isinstance(message, dict):
            if message is not None or not node.keys() <= _NODE:
                self._draft.note_omission("unknown-record", place, "a node without a message")
            return
        role = _body(message.get("author")).get("role")
        if role != "tool":
            self._calls.flush()
        if role == "tool":
            self._tell_output(message, parent, place)
        elif role == "assistant":
            self._tell_assistant(message, key, place)
        elif role in ("user", "system", "developer"):
            self._tell_words(cast(Role, role), message, place)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _tell_words(self, role: Role, message: Body, place: str) -> None:
        if role == "user":
            self._calls.forget()
        name = as_text(_body(message.get("author")).get("name"))
        actor = (
            self._draft.get_actor("human", name or "user")
            if role == "user"
            else self._draft.get_actor("system", "system")
        )
        self._say(role, message, actor, place)

    def _tell_assistant(self, message: Body, key: str, place: str) -> None:
        actor, ts = self._model(message), from_epoch(message.get("create_time"))
        content = _body(message.get("content"))
        kind = content.get("content_type")
        recipient = as_text(message.get("recipient")) or "all"
        if kind == "thoughts":
            self._think(content, actor, ts, place)
        elif kind == "reasoning_recap":
            about = pick_fields(_body(message.get("metadata")), "finished_duration_sec")
            self._draft.add_annotation(
                {"kind": "reasoning_recap", "text": _recap(content), **about}, actor=actor, ts=ts
            )
        elif recipient not in _EVERYONE:
            self._calls.make(key, recipient, self._contents.given(message, place), actor, ts)
            self._note(message, None, ts)
        else:
            self._say("assistant", message, actor, place)

    def _model(self, message: Body) -> str:
        slug = as_text(_body(message.get("metadata")).get("model_slug")) or as_text(
            self._value.get("default_model_slug")
        )
        name = as_text(_body(message.get("author")).get("name")) or "assistant"
        return self._draft.get_actor("model", name, provider="openai", model=slug)

    def _think(self, content: Body, actor: str, ts: str | None, place: str) -> None:
        given = content.get("thoughts")
        told = 0
        for thought in given if isinstance(given, list) else [content.get("parts")]:
            title, text = _thought(thought)
            if title:
                self._draft.add_reasoning(title, actor, ts=ts, summary=True)
            if text:
                self._draft.add_reasoning(text, actor, ts=ts)
            if not (title or text):
                self._draft.note_omission("empty-reasoning", place, "a thought without words")
            told += bool(title or text)
        if not told:
            self._draft.note_omission("empty-reasoning", place, "thoughts without words")

    def _say(self, role: Role, message: Body, actor: str, place: str) -> None:
        said = self._contents.said(message, place)
        if not said:
            self._draft.note_omission("empty-message", place, "a message without words")
            return
        ts = from_epoch(message.get("create_time"))
        if message.get("channel") == "analysis" and role == "assistant" and isinstance(said, str):
            event = self._draft.add_reasoning(said, actor, ts=ts)
        else:
            event = self._draft.add_message(
                role, said, actor, ts=ts, visibility=_visibility(role, message)
            )
        self._note(message, event, ts)

    def _note(self, message: Body, event: Event | None, ts: str | None) -> None:
        """What is known of a message beside its words."""
        metadata = _body(message.get("metadata"))
        facts: Body = {}
        ended = _body(metadata.get("finish_details")).get("type")
        if ended not in _USUAL_ENDS:
            facts["finish_reason"] = ended
        if message.get("status") not in ("finished_successfully", None):
            facts["status"] = message["status"]
        if message.get("weight") == 0:
            facts["discarded"] = True
        cited = metadata.get("content_references") or metadata.get("citations")
        if cited:
            facts["citations"] = cited
        if facts:
            self._draft.add_annotation({"kind": "message_facts", **facts}, parent=event, ts=ts)

    def _tell_output(self, message: Body, parent: str | None, place: str) -> None:
        metadata = _body(message.get("metadata"))
        facts = {
            name: metadata[name]
            for name in ("command", "search_result_groups")
            if metadata.get(name)
        }
        status = _body(metadata.get("aggregate_result")).get("status")
        if status not in ("success", None):
            facts["status"] = status
        listed = _body(metadata.get("_cite_metadata")).get("metadata_list")
        if listed:
            facts["citations"] = listed
        if _body(message.get("content")).get("content_type") == "system_error":
            facts["is_error"] = True
        output = self._contents.output(message, place)
        tool = as_text(_body(message.get("author")).get("name"))
        self._calls.answer(parent, tool, output, facts, from_epoch(message.get("create_time")))


def _visibility(role: Role, message: Body) -> Visibility:
    metadata = _body(message.get("metadata"))
    hidden = (
        metadata.get("is_visually_hidden_from_conversation") is True
        or metadata.get("is_user_system_message") is True
    )
    kind = _body(message.get("content")).get("content_type")
    context = kind in ("user_editable_context", "model_editable_context")
    is_internal = (
        role not in ("user", "assistant") or hidden or context or message.get("weight") == 0
    )
    return "internal" if is_internal else "public"


def _thought(thought: Any) -> tuple[str | None, str | None]:
    """The title and the words of a thought."""
    if isinstance(thought, list):
        return None, "\n\n".join(part for part in thought if isinstance(part, str)) or None
    if not isinstance(thought, dict):
        return None, as_text(thought)
    chunks = thought.get("chunks")
    pieces = (
        [piece for piece in chunks if isinstance(piece, str)] if isinstance(chunks, list) else []
    )
    return as_text(thought.get("summary")), as_text(thought.get("content")) or "".join(
        pieces
    ) or None


def _recap(content: Body) -> Any:
    return content.get("content") or content.get("parts") or ""


@dataclass
class _Call:
    """A call and whether it has its result."""

    key: str
    tool: str
    is_open: bool = True


@dataclass
class _Result:
    """A result under way: a tool may give one call several messages, such as one for each page it
    opened."""

    key: str | None
    tool: str | None
    outputs: list[Any]
    facts: dict[str, Any]
    ts: str | None


@dataclass
class _Line:
    """What is open on one line of the tree: calls by the node that made them, and in order by
    tool."""

    by_node: dict[str, _Call] = field(default_factory=dict)
    by_tool: dict[str, deque[_Call]] = field(default_factory=dict)
    result: _Result | None = None

    def add(self, call: _Call, node: str) -> None:
        self.by_node[node] = call
        for name in {call.tool, _family(call.tool), ""}:
            self.by_tool.setdefault(name, deque()).append(call)

    def first(self, tool: str) -> _Call | None:
        """The first open call of a tool; of any tool when it has no name."""
        calls = self.by_tool.get(tool, deque())
        while calls and not calls[0].is_open:
            calls.popleft()
        return calls[0] if calls else None

    def of(self, parent: str | None, tool: str | None) -> _Call | None:
        """The call that a result answers: the node right above it, unless another one is of the
        same tool."""
        above = self.by_node.get(parent or "")
        above = above if above is not None and above.is_open else None
        if above is not None and (tool is None or _family(tool) == _family(above.tool)):
            return above
        if tool is None:
            return self.first("")
        return self.first(tool) or self.first(_family(tool)) or above


def _family(tool: str) -> str:
    """Some results of `web.run` say `web`, and the other way round."""
    return f"{tool.partition('.')[0]}."


class OpenCalls:
    """The calls that wait for a result, on the line that is being told."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._lines = [_Line()]

    def fork(self) -> None:
        """A branch is next; what it calls is its own affair."""
        self.flush()
        self._lines.append(_Line())

    def join(self) -> None:
        """The branch is over."""
        self.flush()
        self._lines.pop()

    def make(self, node: str, tool: str, arguments: Any, actor: str, ts: str | None) -> None:
        """The message of a node is a call."""
        key = self._draft.add_tool_call(None, tool, arguments, actor, ts=ts)
        self._lines[-1].add(_Call(key, tool), node)

    def forget(self) -> None:
        """The person spoke: what is still open gets no result any more."""
        self._lines[-1] = _Line(result=self._lines[-1].result)

    def answer(
        self,
        parent: str | None,
        tool: str | None,
        output: Any,
        facts: dict[str, Any],
        ts: str | None,
    ) -> None:
        """A message of a tool, which stands below the node `parent`."""
        line = self._lines[-1]
        call = line.of(parent, tool)
        if call is None and line.result is not None and line.result.tool == tool:
            line.result.outputs.append(output)
            line.result.facts = _joined(line.result.facts, facts)
            return
        self.flush()
        if call is not None:
            call.is_open = False
        line.result = _Result(call.key if call else None, tool, [output], facts, ts)

    def flush(self) -> None:
        """Tell the result under way."""
        result, self._lines[-1].result = self._lines[-1].result, None
        if result is not None:
            output = result.outputs[0] if len(result.outputs) == 1 else _blocks(result.outputs)
            self._draft.add_tool_result(
                result.key, output, ts=result.ts, facts=result.facts, tool=result.tool
            )


def _blocks(outputs: list[Any]) -> list[Any]:
    made: list[Any] = []
    for output in outputs:
        if isinstance(output, list):
            made += output
        elif output:
            made.append({"type": "text", "text": output})
    return made


def _joined(known: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Facts of several messages as one: lists end to end, else the last."""
    joined = dict(known)
    for name, value in more.items():
        old = joined.get(name)
        joined[name] = old + value if isinstance(old, list) and isinstance(value, list) else value
    return joined


def list_conversations(source: Source) -> list[Found]:
    """The conversations of the export, in its order."""
    return LAYOUT.find_conversations(source).list_all(_found)


def _found(part: ExportedConversation) -> Found:
    value = part.value
    title = value.get("title")
    return Found(
        part.id,
        title=title if isinstance(title, str) and title else None,
        started_at=from_epoch(value.get("create_time")),
        updated_at=from_epoch(value.get("update_time")),
        messages=sum(
            isinstance(node, dict) and bool(node.get("message"))
            for node in value["mapping"].values()
        ),
    )


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a part of the export belongs to."""
    return LAYOUT.find_conversations(source).find_owner(at, value)


def read(source: Source, draft: Draft) -> None:
    """Read the chosen conversation into the draft."""
    _read_part(source, draft, LAYOUT.find_conversations(source))
