"""Threads: the main conversation or that of a subagent, with its actors, span and calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.notes import note_file_faults
from open_token.model.document import Event, Role, Usage, Visibility
from open_token.model.omissions import Omitted
from open_token.sources.source import Source

MAX_DEPTH = 16


@dataclass(slots=True)
class Thread:
    """Adds the records of one thread to a draft."""

    draft: Draft
    client: str
    """The actor_id of the runtime."""
    provider: Callable[[str], str | None]
    """Returns the provider of a model by its name, which is empty if the source gives none."""
    name: str = "assistant"
    agent_id: str | None = None
    span: str | None = None
    user_actor: str = ""
    label: str = ""
    """The prefix of places in notes: empty for the main file, else the name of the file."""
    depth: int = 0
    last_ts: str | None = None
    model_actor: str = ""
    """The actor of the current model."""
    _keys: dict[str, str] = field(default_factory=dict)

    def get_user_actor(self) -> str:
        """Return the actor of user messages: the person, or the agent that started this one."""
        if not self.user_actor:
            self.user_actor = self.draft.get_actor("human", "user")
        return self.user_actor

    def set_model(self, model: Any) -> str:
        """Set the current model; return its actor."""
        name = model if isinstance(model, str) else ""
        self.model_actor = self.draft.get_actor(
            "model",
            self.name,
            provider=self.provider(name),
            model=name or None,
            instance_id=self.agent_id,
        )
        return self.model_actor

    def add_message(
        self,
        role: Role,
        content: str | list[Any],
        actor: str,
        *,
        ts: str | None = None,
        visibility: Visibility | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """Add a message; those of a subagent are internal, because no person sees them."""
        if self.span:
            visibility = "internal"
        return self.draft.add_message(
            role, content, actor, ts=ts, visibility=visibility, span=self.span, usage=usage
        )

    def add_injected_message(self, content: str | list[Any], *, ts: str | None = None) -> Event:
        """Add a message that the runtime wrote in the place of the user."""
        return self.add_message("user", content, self.client, ts=ts, visibility="internal")

    def add_reasoning(
        self,
        text: str | None,
        *,
        ts: str | None = None,
        summary: bool = False,
        usage: Usage | None = None,
    ) -> Event:
        """Add reasoning of the current model."""
        return self.draft.add_reasoning(
            text, self.model_actor, ts=ts, span=self.span, summary=summary, usage=usage
        )

    def add_tool_call(
        self,
        native_id: str | None,
        tool: str,
        arguments: Any,
        *,
        ts: str | None = None,
        usage: Usage | None = None,
        group: object = None,
        extra: dict[str, Any] | None = None,
    ) -> str:
        """Add a call of the current model; return its key.

        Some providers number calls anew in each conversation, so the id of a subagent may be that
        of an open call of its parent. Calls of a subagent therefore get a key of their own.
        """
        draft_id = native_id
        if self.span is not None and native_id:
            known = self._keys.get(native_id)
            if known and self.draft.is_call_open(known):
                self.draft.note_omission(
                    "duplicate-call",
                    f"event {self.draft.count}",
                    "a call with the same id is still open",
                )
                return known
            draft_id = None
            extra = {"native_call_id": native_id, **(extra or {})}
        key = self.draft.add_tool_call(
            draft_id,
            tool,
            arguments,
            self.model_actor,
            ts=ts,
            span=self.span,
            usage=usage,
            group=group,
            extra=extra,
        )
        if self.span is not None and native_id:
            self._keys[native_id] = key
        return key

    def get_call_key(self, native_id: str | None) -> str | None:
        """Return the key of the call that has this id in this thread."""
        return self._keys.get(native_id, native_id) if native_id else None

    def add_tool_result(
        self,
        native_id: str | None,
        output: Any,
        *,
        ts: str | None = None,
        facts: dict[str, Any] | None = None,
        tool: str | None = None,
    ) -> Event:
        """Add the result of a call, by the id of the runtime or by its key."""
        key = self.get_call_key(native_id)
        return self.draft.add_tool_result(
            key, output, ts=ts, span=self.span, facts=facts, tool=tool
        )

    def add_annotation(
        self,
        data: dict[str, Any],
        *,
        ts: str | None = None,
        parent: Event | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """Add an annotation of the runtime."""
        return self.draft.add_annotation(
            data, parent=parent, actor=self.client, ts=ts, span=self.span, usage=usage
        )

    def note_omission(
        self, code: str, place: str, detail: str, *, what: Omitted | None = None, size: int = 0
    ) -> None:
        """Note something that is not exported, with its place in the file of this thread."""
        self.draft.note_omission(code, f"{self.label}{place}", detail, what=what, size=size)

    def create_child(self, name: str | None, agent_id: str | None, label: str) -> "Thread":
        """Return the thread of a subagent that the current model started."""
        return Thread(
            self.draft,
            self.client,
            self.provider,
            name=name or "subagent",
            agent_id=agent_id,
            user_actor=self.model_actor or self.set_model(None),
            label=f"{label} ",
            depth=self.depth + 1,
        )


@dataclass(slots=True)
class SubagentFile:
    """A subagent whose records are in a file of their own."""

    agent_id: str
    source: Source
    kind: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    """What the start of its span says about it."""
    started: str | None = None


class SubagentWriter:
    """Adds subagents as spans, each once: inline, as a reference, or not, as the options say."""

    def __init__(self, read: Callable[[Source, Thread], object]) -> None:
        self._read = read
        self._added: set[str] = set()
        self._deferred: list[SubagentFile] = []

    def add(self, agent: SubagentFile, parent: Thread, call: str | None = None) -> None:
        """Add a subagent before the result of the call that started it, if that is known."""
        if agent.agent_id in self._added:
            return
        draft = parent.draft
        if draft.subagents == "none":
            self._added.add(agent.agent_id)
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
        elif parent.depth >= MAX_DEPTH:
            self._deferred.append(agent)
        else:
            self._added.add(agent.agent_id)
            self._add_span(agent, parent, call)

    def _add_span(self, agent: SubagentFile, parent: Thread, call: str | None) -> None:
        draft = parent.draft
        source = agent.source
        child = parent.create_child(agent.kind, agent.agent_id, agent.agent_id)
        data = {"kind": "subagent", **agent.data, "agent_id": agent.agent_id}
        if draft.subagents == "reference":
            data["file"] = PurePath(source.name).name
            data["records"] = sum(1 for _ in source.records())
            span = draft.start_span(data, child.user_actor, ts=agent.started, call=call)
            draft.end_span(span, call=call)
            return
        child.span = draft.start_span(data, child.user_actor, ts=agent.started, call=call)
        self._read(source, child)
        draft.end_span(child.span, ts=child.last_ts, call=call)
        note_file_faults(source, agent.agent_id, draft)

    def finish(self, agents: list[SubagentFile], main: Thread) -> None:
        """Add the subagents that no result named, after everything else."""
        for agent in agents:
            self.add(agent, main)
        while self._deferred:
            self.add(self._deferred.pop(0), main)
