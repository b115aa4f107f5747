"""The agents that have hooks, and the command that their hooks run."""

import shlex
import sys
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
    """Return the handler that runs a command, in the format of the agent's configuration."""
    handler: dict[str, Any] = {}
    for key, value in hooks.handler.items():
        handler[key] = command if value == "{command}" else value
    return handler


def build_command(
    program: tuple[str, ...], name: str, folder: Path | None, options: tuple[str, ...] = ()
) -> str:
    """Return the command line of a hook, quoted for the shell that agents run it with."""
    words = [*program, "hook", "run", "--for", name]
    if folder:
        words += ["--to", str(folder)]
    words += options
    if sys.platform == "win32":
        return " ".join(map(_quote_for_windows, words))
    return shlex.join(words)


def _quote_for_windows(word: str) -> str:
    """Quote a word for cmd, which knows double quotes only, and for Git Bash alike.

    Outside of quotes Bash would drop the backslashes of a path.
    """
    if word and shlex.quote(word) == word:
        return word
    return f'"{word}"'


def find_our_program(handler: object, name: str) -> str | None:
    """Return the program of a handler that runs `open-token hook run --for NAME`, else None.

    It is recognized by its command only: users may change everything else about it.
    """
    if not isinstance(handler, dict):
        return None
    for value in handler.values():
        if not isinstance(value, str):
            continue
        words = _split_command(value)
        for position in range(1, len(words) - 3):
            is_call = words[position : position + 4] == ["hook", "run", "--for", name]
            if is_call and _is_open_token(words[:position]):
                return words[0]
    return None


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _is_open_token(program: list[str]) -> bool:
    if program[-2:] == ["-m", "open_token"]:
        return True
    return len(program) == 1 and Path(program[0]).stem == "open-token"
