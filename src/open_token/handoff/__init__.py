"""A conversation as a session of another agent, in the form in which that agent keeps its own, to
go on there."""

from importlib import import_module
from typing import Protocol, cast

from open_token.errors import UsageError
from open_token.handoff._scene import Scene, Session
from open_token.handoff.talk import Talk, talk_of
from open_token.options import guess_of

TARGETS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini-cli": "gemini_cli",
    "qwen-code": "qwen_code",
    "opencode": "opencode",
    "copilot-cli": "copilot_cli",
    "pi": "pi",
}


class Target(Protocol):
    """What the module of an agent defines."""

    TITLE: str
    SEEN: str

    def session(self, talk: Talk, scene: Scene) -> Session:
        """The files of one session."""
        ...


def target(name: str) -> Target:
    """An agent by its name."""
    module = TARGETS.get(name.replace("_", "-"))
    if module is None:
        others = f"the agents are {', '.join(TARGETS)}; any other takes a brief: open-token export SOURCE --to brief"
        raise UsageError(
            f"cannot hand over to '{name[:60]}'", help=_meant(name.lower()[:60]) + others
        )
    return cast(Target, import_module(f"open_token.handoff.{module}"))


def _meant(name: str) -> str:
    """What a wrong name was perhaps meant to be: agents are called by the first word of their
    names."""
    first = next((known for known in TARGETS if known.split("-")[0] == name), None)
    return f"did you mean {first}? " if first else guess_of(name, TARGETS)


__all__ = ["TARGETS", "Scene", "Session", "Talk", "Target", "talk_of", "target"]
