"""One strand of talk, the main one or a subagent's: who speaks in it, in which span, and which
calls are its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Event, Role, Usage, Visibility
from open_token.sources.source import Source

MAX_DEPTH = 16


@dataclass(slots=True)
class Strand:
    """Tells a draft what is said in one line of talk."""

    draft: Draft
    client: str
    """The actor_id of the runtime."""
    provider: Callable[[str], str | None]
    """Whose a model is, by its name; the name is empty where the source gives none."""
    name: str = "assistant"
    agent_id: str | None = None
    span: str | None = None
    prompter: str = ""
    label: str = ""
    """What a place begins with: nothing in the main file, the file's name in another one."""
    depth: int = 0
    last_ts: str | None = None
    speaker: str = ""
    """The model that spoke last."""
    _keys: dict[str, str] = field(default_factory=dict)

    def asker(self) -> str:
        """The actor in the user's place: the person, or the agent that started this one."""
        if not self.prompter:
            self.prompter = self.draft.get_actor("human", "user")
        return self.prompter

    def speak(self, model: Any) -> str:
        """The actor of a model, who has the word from now on."""
        name = model if isinstance(model, str) else ""
        self.speaker = self.draft.get_actor(
            "model",
            self.name,
            provider=self.provider(name),
            model=name or None,
            instance_id=self.agent_id,
        )
        return self.speaker

    def say(
        self,
        role: Role,
        content: str | list[Any],
        actor: str,
        *,
        ts: str | None = None,
        visibility: Visibility | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """A message; in a subagent's span nothing was said to the person."""
        if self.span:
            visibility = "internal"
        return self.draft.add_message(
            role, content, actor, ts=ts, visibility=visibility, span=self.span, usage=usage
        )

    def put_in(self, content: str | list[Any], *, ts: str | None = None) -> Event:
        """What the runtime wrote in the user's place."""
        return self.say("user", content, self.client, ts=ts, visibility="internal")

    def think(
        self,
        text: str | None,
        *,
        ts: str | None = None,
        summary: bool = False,
        usage: Usage | None = None,
    ) -> Event:
        """Hidden reasoning of the model that has the word."""
        return self.draft.add_reasoning(
            text, self.speaker, ts=ts, span=self.span, summary=summary, usage=usage
        )

    def call(
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
        """A call of the model that has the word; gives its key.

        Some providers number calls anew in each conversation, so a subagent's id may be that of an
        open call of its parent: there the draft gets a key of its own, and the id rides along."""
        if self.span is None or not native_id:
            return self.draft.add_tool_call(
                native_id,
                tool,
                arguments,
                self.speaker,
                ts=ts,
                span=self.span,
                usage=usage,
                group=group,
                extra=extra,
            )
        known = self._keys.get(native_id)
        if known and self.draft.is_call_open(known):
            self.draft.note_omission(
                "duplicate-call",
                f"event {self.draft.count}",
                "a call with the same id is still open",
            )
            return known
        extra = {"native_call_id": native_id, **(extra or {})}
        key = self._keys[native_id] = self.draft.add_tool_call(
            None,
            tool,
            arguments,
            self.speaker,
            ts=ts,
            span=self.span,
            usage=usage,
            group=group,
            extra=extra,
        )
        return key

    def key(self, native_id: str | None) -> str | None:
        """The key of the call that has this id in this strand."""
        return self._keys.get(native_id, native_id) if native_id else None

    def answer(
        self,
        native_id: str | None,
        output: Any,
        *,
        ts: str | None = None,
        facts: dict[str, Any] | None = None,
        tool: str | None = None,
    ) -> Event:
        """The result of a call, by the runtime's id or the key that was given for it."""
        key = self.key(native_id)
        return self.draft.add_tool_result(
            key, output, ts=ts, span=self.span, facts=facts, tool=tool
        )

    def note(
        self,
        data: dict[str, Any],
        *,
        ts: str | None = None,
        parent: Event | None = None,
        usage: Usage | None = None,
    ) -> Event:
        """A fact beside the talk, told by the runtime."""
        return self.draft.add_annotation(
            data, parent=parent, actor=self.client, ts=ts, span=self.span, usage=usage
        )

    def skip(self, code: str, place: str, detail: str) -> None:
        """Note something that is not carried over, with a place in this strand's file."""
        self.draft.note_omission(code, f"{self.label}{place}", detail)

    def below(self, name: str | None, agent_id: str | None, label: str) -> "Strand":
        """The strand of a subagent that the model which has the word started."""
        return Strand(
            self.draft,
            self.client,
            self.provider,
            name=name or "subagent",
            agent_id=agent_id,
            prompter=self.speaker or self.speak(None),
            label=f"{label} ",
            depth=self.depth + 1,
        )


@dataclass(slots=True)
class Agent:
    """A subagent with a file of its own, and what is known of it beside that."""

    agent_id: str
    source: Source
    kind: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    """What its span says of it."""
    started: str | None = None


class Agents:
    """Puts what subagents did into spans, each once: inline, as a reference, or left out, as the
    options say."""

    def __init__(self, run: Callable[[Source, Strand], object]) -> None:
        self._run = run
        self._told: set[str] = set()
        self._deferred: list[Agent] = []

    def tell(self, agent: Agent, parent: Strand, call: str | None = None) -> None:
        """Tell a subagent where the call that started it is about to be answered, or where no call
        is known."""
        if agent.agent_id in self._told:
            return
        draft = parent.draft
        if draft.subagents == "none":
            self._told.add(agent.agent_id)
            draft.note_omission(
                "subagent",
                f"event {draft.count}",
                "what a subagent did is left out (subagents=none)",
            )
        elif parent.depth >= MAX_DEPTH:
            self._deferred.append(agent)
        else:
            self._told.add(agent.agent_id)
            self._span(agent, parent, call)

    def _span(self, agent: Agent, parent: Strand, call: str | None) -> None:
        draft, source = parent.draft, agent.source
        child = parent.below(agent.kind, agent.agent_id, agent.agent_id)
        data = {"kind": "subagent", **agent.data, "agent_id": agent.agent_id}
        if draft.subagents == "reference":
            data |= {
                "file": PurePath(source.name).name,
                "records": sum(1 for _ in source.records()),
            }
            span = draft.start_span(data, child.prompter, ts=agent.started, call=call)
            draft.end_span(span, call=call)
            return
        child.span = draft.start_span(data, child.prompter, ts=agent.started, call=call)
        self._run(source, child)
        draft.end_span(child.span, ts=child.last_ts, call=call)
        if source.half_line is not None:
            child.skip(
                "half-line",
                f"line {source.half_line}",
                "the last line was not complete and is left out",
            )
        for number in source.repaired:
            child.skip(
                "lone-surrogate",
                f"line {number}",
                "text that is not valid Unicode was replaced by U+FFFD",
            )

    def finish(self, rest: list[Agent], main: Strand) -> None:
        """The main file is over: subagents that no result named stand behind everything."""
        for agent in rest:
            self.tell(agent, main)
        while self._deferred:
            self.tell(self._deferred.pop(0), main)
