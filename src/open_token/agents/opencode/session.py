"""Read an OpenCode session with the sessions that its tasks started."""

from dataclasses import dataclass, field
from typing import Any

from open_token.agents.opencode.model_messages import ModelMessageReader
from open_token.agents.opencode.parts import build_content_block, parse_time
from open_token.agents.opencode.storage import Store
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.session_tree import SessionTree
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.model.document import Visibility

_MAX_DEPTH = 16
_CONTEXT_FIELDS = {
    "directory": "cwd",
    "version": "version",
    "projectID": "project_id",
    "parentID": "parent_id",
}
_MODEL_PARTS = ("tool", "reasoning", "step-start", "step-finish")
_EMPTY_TEXTS: tuple[JsonObject, ...] = (
    {"type": "text", "text": ""},
    {"type": "text", "text": None},
)


@dataclass
class Thread:
    """One session that is being read, and where its events go."""

    session_id: str
    asker: str
    name: str = "assistant"
    visibility: Visibility = "public"
    span: str | None = None
    depth: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    cut: int | None = None
    """The number of events before the first one that was reverted."""

    @property
    def label(self) -> str:
        """The prefix of positions in notes."""
        return "subagent " if self.depth else ""


class SessionReader:
    """Reads sessions of a store into a draft."""

    def __init__(self, draft: Draft, store: Store, lineage: SessionTree, client: str) -> None:
        self.draft = draft
        self._client = client
        self._store = store
        self._lineage = lineage
        self.providers = ProviderTracker()
        self._read_ids: set[str] = set()

    @property
    def client(self) -> str:
        """The actor for OpenCode itself, or its fork."""
        return self.draft.get_actor("system", self._client)

    def read(self, session_id: str) -> None:
        """Read the session that is the conversation."""
        info = self._store.sessions.get(session_id, {})
        conversation = self.draft.conversation
        conversation["id"] = session_id
        title = get_text(info, "title")
        if title:
            conversation["title"] = title
        started_at = parse_time(info, "created")
        if started_at:
            conversation["started_at"] = started_at
        conversation["source_runtime"] = "cli"
        thread = Thread(session_id, self.draft.get_actor("human", "user"))
        self._read_session(thread, info)
        self.providers.set_provider(conversation)

    def _read_session(self, thread: Thread, info: JsonObject) -> None:
        self._read_ids.add(thread.session_id)
        self._read_context(thread, info)
        revert = {} if thread.depth else get_dict(info, "revert")
        reverted_message = get_text(revert, "messageID")
        reverted_part = get_text(revert, "partID")
        model_messages = ModelMessageReader(self, thread)
        for number, (message, parts) in enumerate(self._store.read_messages(thread.session_id), 1):
            position = f"{thread.label}message {number}"
            # A revert hides everything from a message or a part on. The data stays in the store
            # until the next prompt.
            if reverted_message and not reverted_part and thread.cut is None:
                if message.get("id") == reverted_message:
                    thread.cut = self.draft.count
            parts = [part for part in parts if type(part) is dict]
            role = message.get("role")
            self._read_settings(thread, message)
            # Parts whose message is missing have no role.
            if role == "assistant" or (role != "user" and _has_model_parts(parts)):
                model_messages.read(message, parts, position, reverted_part)
            else:
                self._read_prompt(thread, message, parts, position)
        # The reverted messages follow those that are still valid.
        if thread.cut is not None:
            data = {"kind": "abandoned_branch", "detail": "the user reverted this"}
            self.draft.drop_branch(thread.cut, self.draft.count, data, self.client)
        for child in self._lineage.get_children(thread.session_id):
            if child not in self._read_ids:
                self.read_subsession(thread, child, None, {})

    def _read_context(self, thread: Thread, info: JsonObject) -> None:
        """Annotate where the session ran and what it changed."""
        facts: JsonObject = {}
        for key, name in _CONTEXT_FIELDS.items():
            value = get_text(info, key)
            if value:
                facts[name] = value
        share = get_dict(info, "share")
        share_url = get_text(share, "url")
        if share_url:
            facts["share_url"] = share_url
        # Beside these counts a summary may hold whole files before and after each change.
        summary = get_dict(info, "summary")
        counts: dict[str, int] = {}
        for name in ("additions", "deletions", "files"):
            if type(summary.get(name)) is int:
                counts[name] = summary[name]
        if any(counts.values()):
            facts["changes"] = counts
        thread.settings["cwd"] = facts.get("cwd")
        if facts:
            self.draft.add_annotation(
                {"kind": "context", **facts}, actor=self.client, span=thread.span
            )
        position = f"{thread.label}session"
        if share.get("secret"):
            self.draft.note_omission("share-secret", position, "the secret of a shared session")
        if summary.get("diffs"):
            self.draft.note_omission("file-diffs", position, "files before and after a change")
        if info.get("permission"):
            self.draft.note_omission("bookkeeping", position, "tool permissions of the session")

    def _read_settings(self, thread: Thread, message: JsonObject) -> None:
        """Annotate settings, which every message repeats, when they change."""
        path = message.get("path")
        settings = {
            # Before it was called agent, the field was called mode.
            "agent": get_text(message, "agent") or get_text(message, "mode"),
            "variant": get_text(message, "variant"),
            "cwd": get_text(path, "cwd") if type(path) is dict else path,
            "tools": message.get("tools"),
        }
        changed = {
            name: value
            for name, value in settings.items()
            if value and value != thread.settings.get(name)
        }
        if changed:
            thread.settings |= changed
            data = {"kind": "settings", **changed}
            self.draft.add_annotation(
                data, actor=self.client, ts=parse_time(message, "created"), span=thread.span
            )

    def _read_prompt(
        self, thread: Thread, message: JsonObject, parts: list[JsonObject], position: str
    ) -> None:
        """Read a message of the user, and separate typed text from text that OpenCode added."""
        ts = parse_time(message, "created")
        system = get_text(message, "system")
        if system:
            self.draft.add_message("system", system, self.client, ts=ts, span=thread.span)
        is_user = message.get("role") == "user"
        typed: list[JsonObject] = []
        for part in parts:
            block = build_content_block(part)
            if block is None:
                self._add_typed_blocks(thread, typed, ts)
                typed = []
                self._read_other_part(thread, part, position, ts)
            elif not is_user or part.get("synthetic") is True or part.get("ignored") is True:
                self._add_typed_blocks(thread, typed, ts)
                typed = []
                self._add_injected_block(thread, part, block, ts)
            elif block not in _EMPTY_TEXTS:
                typed.append(block)
        self._add_typed_blocks(thread, typed, ts)
        self._read_prompt_summary(thread, message, position)

    def _add_typed_blocks(self, thread: Thread, blocks: list[JsonObject], ts: str | None) -> None:
        if blocks:
            self.draft.add_message(
                "user",
                _simplify_content(blocks),
                thread.asker,
                ts=ts,
                visibility=thread.visibility,
                span=thread.span,
            )

    def _add_injected_block(
        self, thread: Thread, part: JsonObject, block: JsonObject, ts: str | None
    ) -> None:
        if not block.get("text", True):
            return
        event = self.draft.add_message(
            "user",
            _simplify_content([block]),
            self.client,
            ts=ts,
            visibility="internal",
            span=thread.span,
        )
        if part.get("ignored") is True:
            self.draft.add_annotation({"kind": "message_facts", "ignored": True}, parent=event)

    def _read_other_part(
        self, thread: Thread, part: JsonObject, position: str, ts: str | None
    ) -> None:
        kind = part.get("type")
        if kind == "shell":
            self._read_shell_command(thread, part, ts)
        elif kind == "compaction":
            facts = pick_fields(part, "auto", "overflow", "tail_start_id")
            self.draft.add_annotation(
                {"kind": "compaction", **facts}, actor=self.client, ts=ts, span=thread.span
            )
        elif kind == "subtask":
            facts = pick_fields(part, "description", "prompt", "agent", "command", "model")
            self.draft.add_annotation(
                {"kind": "subtask", **facts}, actor=thread.asker, ts=ts, span=thread.span
            )
        else:
            self.draft.note_omission("unknown-part", position, f"part {format_kind(kind)}")

    def _read_shell_command(self, thread: Thread, part: JsonObject, ts: str | None) -> None:
        command = part.get("command")
        output = part.get("output")
        add_user_command(
            self.draft,
            command if isinstance(command, str) else "",
            thread.asker,
            pick_fields(part, "status", "exit"),
            ts=ts,
            span=thread.span,
        )
        if output is None:
            output = []
        elif not isinstance(output, str):
            output = [output]
        add_command_output(self.draft, output, self.client, ts=ts, span=thread.span)

    def _read_prompt_summary(self, thread: Thread, message: JsonObject, position: str) -> None:
        """Read what OpenCode stores with a prompt: a heading, and files before and after."""
        summary = get_dict(message, "summary")
        facts = {name: summary[name] for name in ("title", "body") if get_text(summary, name)}
        if facts:
            data = {"kind": "message_facts", "summary": facts}
            self.draft.add_annotation(data, actor=self.client, span=thread.span)
        if summary.get("diffs"):
            self.draft.note_omission("file-diffs", position, "files before and after a change")

    def read_subsession(
        self,
        thread: Thread,
        session_id: str,
        call: str | None,
        description: JsonObject,
        asker: str | None = None,
    ) -> None:
        """Read a session that another one started, in its own span."""
        draft = self.draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            self._read_ids.add(session_id)
            return
        info = self._store.sessions.get(session_id)
        # A session can be named by several calls, and broken data can contain cycles.
        is_inline = (
            draft.subagents == "inline"
            and session_id not in self._read_ids
            and thread.depth < _MAX_DEPTH
        )
        data: JsonObject = {"kind": "subagent", **description, "session_id": session_id}
        if info is None or not is_inline:
            data["reference"] = session_id
        asker = asker or thread.asker
        started_at = parse_time(info, "created")
        span = draft.start_span(data, asker, ts=started_at, call=call, parent=None)
        if info is None or not is_inline:
            self._read_ids.add(session_id)
        else:
            name = description.get("subagent_type") or "subagent"
            inner = Thread(session_id, asker, name, "internal", span, thread.depth + 1)
            self._read_session(inner, info)
        draft.end_span(span, ts=parse_time(info, "updated"), call=call)


def _simplify_content(blocks: list[JsonObject]) -> str | list[Any]:
    """Return a single text block as a string, anything else as the list of blocks."""
    if len(blocks) == 1 and blocks[0].get("type") == "text":
        text = blocks[0].get("text")
        if isinstance(text, str):
            return text
    return blocks


def _has_model_parts(parts: list[JsonObject]) -> bool:
    """Return whether parts whose message is missing are from the model."""
    return any(part.get("type") in _MODEL_PARTS for part in parts)
