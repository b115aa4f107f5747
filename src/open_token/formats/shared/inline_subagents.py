"""Subagents whose records stand in their parent's own log, by the call that started them: a span
for each."""

from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Visibility


@dataclass(slots=True)
class Agent:
    """Who speaks in one line of talk, and where that stands: the main one, or a subagent."""

    name: str = "assistant"
    instance: str | None = None
    call: str | None = None
    span: str | None = None
    muted: bool = False
    """Its records are counted, not told."""
    records: int = 0
    model: str | None = None
    actor: str = ""
    """Of the model that spoke last."""
    thought: tuple[str, str | None] | None = None
    """What it thought, and when, until an answer tells which model that was."""

    @property
    def visibility(self) -> Visibility:
        """What the main agent says is for the person; what a subagent says is for the main one."""
        return "internal" if self.call else "public"


class AgentSpans:
    """The subagents of a conversation."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._agents: dict[str, Agent] = {}
        self._open: dict[int, Agent] = {}

    def start(
        self, agent: Agent, about: dict[str, Any], actor: str, ts: str | None, parent: Agent
    ) -> None:
        """A subagent begins; its call must be there."""
        draft = self._draft
        agent.muted = parent.muted or draft.subagents != "inline"
        if draft.subagents == "none" or parent.muted:
            draft.note_omission(
                "subagent", f"event {draft.count}", "what a subagent did is left out"
            )
        else:
            data = {"kind": "subagent", **about}
            if parent.span:
                data["parent_span"] = parent.span
            agent.span = draft.start_span(data, actor, ts=ts, call=agent.call)
        self._open[id(agent)] = agent
        for key in (agent.call, agent.instance):
            if key:
                self._agents[key] = agent

    def find(self, key: str | None) -> Agent | None:
        """The subagent of this call, or of this instance id."""
        return self._agents.get(key) if key else None

    def also(self, key: str, agent: Agent) -> None:
        """The subagent has this id too."""
        self._agents.setdefault(key, agent)

    def latest(self) -> Agent | None:
        """The subagent that was started last and has not ended."""
        return next(reversed(self._open.values()), None)

    def end(self, agent: Agent, about: dict[str, Any], ts: str | None = None) -> None:
        """A subagent is done; what comes of it later stands behind its span."""
        if self._open.pop(id(agent), None) is None or agent.span is None:
            return
        if agent.muted:
            about = {"records": agent.records, **about}
        self._draft.end_span(agent.span, about, ts=ts, call=agent.call)
        agent.span = None

    def all(self) -> list[Agent]:
        """Those that have not ended."""
        return list(self._open.values())

    def finish(self) -> None:
        """The log is over."""
        for agent in reversed(self.all()):
            self.end(agent, {})
