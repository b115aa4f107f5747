"""A conversation as a session of another agent, in the form in which that agent keeps its own, to
go on there."""

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, cast

from open_token.errors import UsageError
from open_token.handoff.conversation import Talk, talk_of
from open_token.handoff.target import Scene, Session
from open_token.options import suggest_match
from open_token.registry import list_agents


class Target(Protocol):
    """What the module of an agent defines."""

    TITLE: str
    SEEN: str

    def session(self, talk: Talk, scene: Scene) -> Session:
        """The files of one session."""
        ...


def list_target_names() -> list[str]:
    """Return the names of the agents that a conversation can be handed over to."""
    return [agent.label for agent in list_agents() if agent.accepts_handoff]


def target(name: str) -> Target:
    """An agent by its name."""
    known = {agent.label: agent for agent in list_agents() if agent.accepts_handoff}
    agent = known.get(name.replace("_", "-"))
    if agent is None:
        others = f"the agents are {', '.join(known)}; any other takes a brief: open-token export SOURCE --to brief"
        raise UsageError(
            f"cannot hand over to '{name[:60]}'", help=_meant(name.lower()[:60], known) + others
        )
    return cast(Target, import_module(f"open_token.agents.{agent.name}.handoff"))


def _meant(name: str, known: Iterable[str]) -> str:
    """What a wrong name was perhaps meant to be: agents are called by the first word of their
    names."""
    first = next((label for label in known if label.split("-")[0] == name), None)
    return f"did you mean {first}? " if first else suggest_match(name, known)


__all__ = ["Scene", "Session", "Talk", "Target", "list_target_names", "talk_of", "target"]
