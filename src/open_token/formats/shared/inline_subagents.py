"""Subagents whose records are in the log of their parent: a span for each."""

from dataclasses import dataclass
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Visibility


@dataclass(slots=True)
class InlineAgent:
    """The main agent or a subagent, and where its records go."""

    name: str = "assistant"
    instance: str | None = None
    call: str | None = None
    span: str | None = None
    muted: bool = False
    """Whether its records are counted instead of added."""
    omitted_at: str = ""
    """Where it would stand if it is left out whole, which is noted once its records are counted."""
    records: int = 0
    model: str | None = None
    actor: str = ""
    """The actor of the current model."""
    thought: tuple[str, str | None] | None = None
    """Reasoning and its time, until an answer shows which model it is of."""

    @property
    def visibility(self) -> Visibility:
        """Messages of the main agent are for the person, those of a subagent are internal."""
        return "internal" if self.call else "public"


class InlineSubagents:
    """The subagents of a conversation."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._agents: dict[str, InlineAgent] = {}
        self._open: dict[int, InlineAgent] = {}

    def start(
        self,
        agent: InlineAgent,
        about: dict[str, Any],
        actor: str,
        ts: str | None,
        parent: InlineAgent,
    ) -> None:
        """Start a subagent, whose call must have been added."""
        draft = self._draft
        agent.muted = parent.muted or draft.subagents != "inline"
        if draft.subagents == "none" or parent.muted:
            agent.omitted_at = f"event {draft.count}"
        else:
            data = {"kind": "subagent", **about}
            if parent.span:
                data["parent_span"] = parent.span
            agent.span = draft.start_span(data, actor, ts=ts, call=agent.call)
        self._open[id(agent)] = agent
        for key in (agent.call, agent.instance):
            if key:
                self._agents[key] = agent

    def find(self, key: str | None) -> InlineAgent | None:
        """Return the subagent of this call, or of this instance id."""
        return self._agents.get(key) if key else None

    def add_alias(self, key: str, agent: InlineAgent) -> None:
        """Let the subagent be found by this id, too."""
        self._agents.setdefault(key, agent)

    def latest(self) -> InlineAgent | None:
        """Return the subagent that was started last and has not ended."""
        return next(reversed(self._open.values()), None)

    def end(self, agent: InlineAgent, about: dict[str, Any], ts: str | None = None) -> None:
        """End a subagent; records of it that come later follow its span."""
        if self._open.pop(id(agent), None) is None:
            return
        if agent.omitted_at:
            self._draft.note_omission(
                "subagent",
                agent.omitted_at,
                "what a subagent did is left out",
                events=agent.records,
            )
        if agent.span is None:
            return
        if agent.muted:
            about = {"records": agent.records, **about}
        self._draft.end_span(agent.span, about, ts=ts, call=agent.call)
        agent.span = None

    def list_open(self) -> list[InlineAgent]:
        """Return the subagents that have not ended."""
        return list(self._open.values())

    def finish(self) -> None:
        """End all subagents at the end of the log."""
        for agent in reversed(self.list_open()):
            self.end(agent, {})
