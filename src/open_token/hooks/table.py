"""The runtimes that can tell us of their conversations, and the command that they call."""

import shlex
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec


class Runtime(msgspec.Struct, frozen=True):
    """One table of runtimes.toml."""

    title: str
    reader: str
    home: str
    user: str
    project: str
    events: tuple[str, ...]
    handler: dict[str, Any]
    next: str
    grouped: bool = False
    top: dict[str, Any] = {}

    def handled_by(self, command: str) -> dict[str, Any]:
        """The handler that runs a command."""
        return {
            name: command if value == "{command}" else value for name, value in self.handler.items()
        }


@cache
def runtimes() -> dict[str, Runtime]:
    """The runtimes by the name that `--for` takes."""
    table = (
        resources.files("open_token").joinpath("hooks", "runtimes.toml").read_text(encoding="utf-8")
    )
    return msgspec.convert(tomllib.loads(table), dict[str, Runtime])


def command_for(program: tuple[str, ...], name: str, folder: Path | None) -> str:
    """What a runtime is to run, as a shell takes it."""
    return shlex.join(
        [*program, "hook", "run", "--for", name, *(("--to", str(folder)) if folder else ())]
    )


def program_of(handler: object, name: str) -> str | None:
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
