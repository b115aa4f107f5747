"""Handoff: write a conversation as a session of another agent, in that agent's own format."""

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, cast

from open_token.errors import UsageError
from open_token.handoff.conversation import HandoffConversation, build_conversation
from open_token.handoff.session import HandoffDestination, HandoffSession
from open_token.options import suggest_match
from open_token.registry import list_agents

__all__ = [
    "HandoffConversation",
    "HandoffDestination",
    "HandoffModule",
    "HandoffSession",
    "build_conversation",
    "list_target_names",
    "load_handoff_module",
]


class HandoffModule(Protocol):
    """What `open_token.agents.<agent>.handoff` defines."""

    TITLE: str
    SEEN: str
    """The version of the agent that it was tried with."""

    def build_session(
        self, conversation: HandoffConversation, destination: HandoffDestination, /
    ) -> HandoffSession:
        """Build the files of one session."""
        ...


def list_target_names() -> list[str]:
    """Return the names of the agents that a conversation can be handed over to."""
    return [agent.label for agent in list_agents() if agent.accepts_handoff]


def load_handoff_module(name: str) -> HandoffModule:
    """Import the handoff module of an agent; raise UsageError if there is none of that name."""
    targets = {agent.label: agent for agent in list_agents() if agent.accepts_handoff}
    agent = targets.get(name.replace("_", "-"))
    if agent is None:
        available = (
            f"the agents are {', '.join(targets)}; "
            "any other takes a brief: open-token export SOURCE --to brief"
        )
        raise UsageError(
            f"cannot hand over to '{name[:60]}'",
            help=_suggest_name(name.lower()[:60], targets) + available,
        )
    return cast(HandoffModule, import_module(f"open_token.agents.{agent.name}.handoff"))


def _suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint at the agent that was meant; people use the first word of its name."""
    for label in known:
        if label.split("-")[0] == name:
            return f"did you mean {label}? "
    return suggest_match(name, known)
