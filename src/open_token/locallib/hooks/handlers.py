"""The agents that can call us at the end of a session, and the command that they call."""

import shlex
from functools import cache
from pathlib import Path
from typing import Any

from open_token.formats.definition import Agent, Hooks
from open_token.registry import list_agents


@cache
def list_hook_agents() -> dict[str, Agent]:
    """Return the agents that have hooks, by the name that `--for` takes."""
    return {agent.label: agent for agent in list_agents() if agent.hooks}


def get_hooks(name: str) -> Hooks:
    """Return the hooks of an agent that has some."""
    hooks = list_hook_agents()[name].hooks
    assert hooks is not None
    return hooks


def build_handler(hooks: Hooks, command: str) -> dict[str, Any]:
    """Return the handler that runs a command, as the agent's file holds it."""
    return {key: command if value == "{command}" else value for key, value in hooks.handler.items()}


def build_command(program: tuple[str, ...], name: str, folder: Path | None) -> str:
    """What a runtime is to run, as a shell takes it."""
    return shlex.join(
        [*program, "hook", "run", "--for", name, *(("--to", str(folder)) if folder else ())]
    )


def find_our_program(handler: object, name: str) -> str | None:
    """The program of a handler that is ours, whatever else was changed about it; None when it is
    somebody else's."""
    values = handler.values() if isinstance(handler, dict) else ()
    for words in (_words(value) for value in values if isinstance(value, str)):
        for place in range(1, len(words) - 3):
            if words[place : place + 4] == ["hook", "run", "--for", name] and _is_us(words[:place]):
                return words[0]
    return None


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _is_us(program: list[str]) -> bool:
    return program[-2:] == ["-m", "open_token"] or (
        len(program) == 1 and Path(program[0]).stem == "open-token"
    )
