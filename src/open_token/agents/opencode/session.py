"""An OpenCode session from its first message to its last, with the sessions that its tasks started
told inside."""

from dataclasses import dataclass, field
from typing import Any

from open_token.agents.opencode.answers import Answer
from open_token.agents.opencode.parts import said_block, time_of
from open_token.agents.opencode.storage import Store
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, get_dict, get_text, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.session_tree import SessionTree
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.model.document import Visibility

_DEEPEST = 16
_CONTEXT = {
    "directory": "cwd",
    "version": "version",
    "projectID": "project_id",
    "parentID": "parent_id",
}


@dataclass
class Thread:
    """One session while it is told: whose it is and where its events go."""

    session_id: str
    asker: str
    name: str = "assistant"
    visibility: Visibility = "public"
    span: str | None = None
    depth: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    cut: int | None = None
    """The place of the first event that a person took back."""

    @property
    def label(self) -> str:
        """What places in notes begin with."""
        return "subagent " if self.depth else ""


class Teller:
    """Tells sessions of a store to a draft."""

    def __init__(self, draft: Draft, store: Store, lineage: SessionTree, client: str) -> None:
        self.draft = draft
        self._client = client
        self._store = store
        self._lineage = lineage
        self.providers = ProviderTracker()
        self._told: set[str] = set()

    @property
    def client(self) -> str:
        """OpenCode itself, or its fork."""
        return self.draft.get_actor("system", self._client)

    def tell(self, session_id: str) -> None:
        """The session that is the conversation."""
        info = self._store.sessions.get(session_id, {})
        conversation = self.draft.conversation
        conversation["id"] = session_id
        if title := get_text(info, "title"):
            conversation["title"] = title
        if started := time_of(info, "created"):
            conversation["started_at"] = started
        conversation["source_runtime"] = "cli"
        thread = Thread(session_id, self.draft.get_actor("human", "user"))
        self._session(thread, info)
        self.providers.set_provider(conversation)

    def _session(self, thread: Thread, info: JsonObject) -> None:
        self._told.add(thread.session_id)
        self._context(thread, info)
        revert = {} if thread.depth else get_dict(info, "revert")
        answer = Answer(self, thread)
        for number, (message, parts) in enumerate(self._store.messages(thread.session_id), 1):
            place = f"{thread.label}message {number}"
            self._reverted(thread, revert, message)
            parts = [part for part in parts if type(part) is dict]
            role = message.get("role")
            self._settings(thread, message)
            if role == "assistant" or (role != "user" and _is_answer(parts)):
                answer.tell(message, parts, place, get_text(revert, "partID"))
            else:
                self._prompt(thread, message, parts, place)
        if thread.cut is not None:
            data = {"kind": "abandoned_branch", "detail": "the person took this back"}
            self.draft.drop_branch(thread.cut, self.draft.count, data, self.client)
        for child in self._lineage.get_children(thread.session_id):
            if child not in self._told:
                self.child(thread, child, None, {})

    def _context(self, thread: Thread, info: JsonObject) -> None:
        """Where the session ran."""
        facts = {
            told: info[name]
            for name, told in _CONTEXT.items()
            if isinstance(info.get(name), str) and info[name]
        }
        if url := get_text(get_dict(info, "share"), "url"):
            facts["share_url"] = url
        summary = get_dict(info, "summary")
        counts = {
            name: summary[name]
            for name in ("additions", "deletions", "files")
            if type(summary.get(name)) is int
        }
        if any(counts.values()):
            facts |= {"changes": counts}
        thread.settings["cwd"] = facts.get("cwd")
        if facts:
            self.draft.add_annotation(
                {"kind": "context", **facts}, actor=self.client, span=thread.span
            )
        place = f"{thread.label}session"
        if get_dict(info, "share").get("secret"):
            self.draft.note_omission("share-secret", place, "the secret of a shared session")
        if summary.get("diffs"):
            self.draft.note_omission("file-diffs", place, "files before and after a change")
        if info.get("permission"):
            self.draft.note_omission("bookkeeping", place, "what the session's tools may do")

    def _reverted(self, thread: Thread, revert: JsonObject, message: JsonObject) -> None:
        """A person can take back everything from a message on; it is still there until the next
        prompt."""
        name = get_text(revert, "messageID")
        if (
            name
            and thread.cut is None
            and message.get("id") == name
            and not get_text(revert, "partID")
        ):
            thread.cut = self.draft.count

    def _settings(self, thread: Thread, message: JsonObject) -> None:
        """What messages repeat about how they were made, told when it changes."""
        path = message.get("path")
        now = {
            "agent": get_text(message, "agent") or get_text(message, "mode"),
            "variant": get_text(message, "variant"),
            "cwd": get_text(path, "cwd") if type(path) is dict else path,
            "tools": message.get("tools"),
        }
        changed = {
            name: value
            for name, value in now.items()
            if value and value != thread.settings.get(name)
        }
        if changed:
            thread.settings |= changed
            data = {"kind": "settings", **changed}
            self.draft.add_annotation(
                data, actor=self.client, ts=time_of(message, "created"), span=thread.span
            )

    def _prompt(
        self, thread: Thread, message: JsonObject, parts: list[JsonObject], place: str
    ) -> None:
        """A message in the person's place, with what was typed kept apart from what was put in."""
        draft, ts = self.draft, time_of(message, "created")
        if system := get_text(message, "system"):
            draft.add_message("system", system, self.client, ts=ts, span=thread.span)
        typed: list[JsonObject] = []
        for part in parts:
            block = said_block(part)
            if block is None:
                self._typed(thread, typed, ts)
                typed = []
                self._beside(thread, part, place, ts)
            elif (
                part.get("synthetic") is True
                or part.get("ignored") is True
                or message.get("role") != "user"
            ):
                self._typed(thread, typed, ts)
                typed = []
                self._put_in(thread, part, block, ts)
            elif block != {"type": "text", "text": ""} and block != {"type": "text", "text": None}:
                typed.append(block)
        self._typed(thread, typed, ts)
        self._summary(thread, message, place)

    def _typed(self, thread: Thread, blocks: list[JsonObject], ts: str | None) -> None:
        if blocks:
            content = content_of(blocks)
            self.draft.add_message(
                "user", content, thread.asker, ts=ts, visibility=thread.visibility, span=thread.span
            )

    def _put_in(self, thread: Thread, part: JsonObject, block: JsonObject, ts: str | None) -> None:
        if block.get("text", True):
            said = self.draft.add_message(
                "user",
                content_of([block]),
                self.client,
                ts=ts,
                visibility="internal",
                span=thread.span,
            )
            if part.get("ignored") is True:
                self.draft.add_annotation({"kind": "message_facts", "ignored": True}, parent=said)

    def _beside(self, thread: Thread, part: JsonObject, place: str, ts: str | None) -> None:
        kind = part.get("type")
        if kind == "shell":
            self._command(thread, part, ts)
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
            self.draft.note_omission("unknown-part", place, f"part {format_kind(kind)}")

    def _command(self, thread: Thread, part: JsonObject, ts: str | None) -> None:
        command, output = part.get("command"), part.get("output")
        facts = pick_fields(part, "status", "exit")
        add_user_command(
            self.draft,
            command if isinstance(command, str) else "",
            thread.asker,
            facts,
            ts=ts,
            span=thread.span,
        )
        printed = output if isinstance(output, str) else [] if output is None else [output]
        add_command_output(self.draft, printed, self.client, ts=ts, span=thread.span)

    def _summary(self, thread: Thread, message: JsonObject, place: str) -> None:
        """What OpenCode wrote of a prompt beside it: a heading for lists, and whole files before
        and after."""
        summary = get_dict(message, "summary")
        facts = {name: summary[name] for name in ("title", "body") if get_text(summary, name)}
        if facts:
            data = {"kind": "message_facts", "summary": facts}
            self.draft.add_annotation(data, actor=self.client, span=thread.span)
        if summary.get("diffs"):
            self.draft.note_omission("file-diffs", place, "files before and after a change")

    def child(
        self,
        thread: Thread,
        session_id: str,
        call: str | None,
        about: JsonObject,
        asker: str | None = None,
    ) -> None:
        """A session that another started, in a span of its own."""
        draft = self.draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
            self._told.add(session_id)
            return
        info = self._store.sessions.get(session_id)
        told_here = (
            info is not None
            and draft.subagents == "inline"
            and session_id not in self._told
            and thread.depth < _DEEPEST
        )
        data: JsonObject = {"kind": "subagent", **about, "session_id": session_id}
        if not told_here:
            data["reference"] = session_id
        asker = asker or thread.asker
        span = draft.start_span(data, asker, ts=time_of(info, "created"), call=call, parent=None)
        if told_here and info is not None:
            name = about.get("subagent_type")
            inner = Thread(
                session_id, asker, name or "subagent", "internal", span, thread.depth + 1
            )
            self._session(inner, info)
        else:
            self._told.add(session_id)
        draft.end_span(span, ts=time_of(info, "updated"), call=call)


def content_of(blocks: list[JsonObject]) -> str | list[Any]:
    """One text as it is, anything else as a list of blocks."""
    if (
        len(blocks) == 1
        and blocks[0].get("type") == "text"
        and isinstance(blocks[0].get("text"), str)
    ):
        return str(blocks[0]["text"])
    return blocks


def _is_answer(parts: list[JsonObject]) -> bool:
    """Whether parts without their message are a model's."""
    return any(
        part.get("type") in ("tool", "reasoning", "step-start", "step-finish") for part in parts
    )
