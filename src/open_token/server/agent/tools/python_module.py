"""Tools from a Python module that the operator names: a list TOOLS of tools or functions, or its
public functions."""

import asyncio
import functools
import importlib
import inspect
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec

from open_token.errors import UsageError
from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import Arguments, parameters, take
from open_token.server.agent.tools._names import PLAIN
from open_token.server.agent.tools.interface import Json, Place, Tool, ToolFault

_HELP = "see docs/reference/tools.md, section Tools of your own"
_RESERVED = frozenset(
    "Agent AskUserQuestion Bash Edit Glob Grep HostAction Plan Read Remember ShowCard Skill Write".split()
)


class FunctionTool:
    """A plain function as a tool: its annotations are the parameters, its docstring the
    description."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._shape, self._place = _shape(function)
        self.is_idempotent = bool(getattr(function, "is_idempotent", False))
        description = inspect.getdoc(function) or function.__name__
        words = function.__name__.replace("_", " ").capitalize()
        self.spec = ToolSpec(
            name=function.__name__,
            description=description,
            parameters=parameters(self._shape),
            display_name=str(getattr(function, "display_name", words)),
        )

    async def run(self, arguments: Json, place: Place) -> Any:
        """Call it; one that is not asynchronous runs in a thread."""
        given = take(self._shape, arguments)
        words = {name: getattr(given, name) for name in self._shape.__struct_fields__}
        if self._place:
            words[self._place] = place
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(**words)
            return await asyncio.to_thread(functools.partial(self._function, **words))
        except ToolFault:
            raise
        except Exception as problem:
            raise ToolFault(f"the tool failed: {type(problem).__name__}") from problem


def load_tools(name: str) -> dict[str, Tool]:
    """The tools of a module by name; what is wrong with it is said before the server starts."""
    module = _imported(name)
    offered = getattr(module, "TOOLS", None)
    if offered is None:
        offered = [
            value for word, value in vars(module).items() if _is_own_function(module, word, value)
        ]
    if not isinstance(offered, list | tuple) or not offered:
        raise _wrong(name, "TOOLS is no list of tools" if offered else "it offers no tools")
    found: dict[str, Tool] = {}
    for item in offered:
        tool = _tool(name, item)
        if (
            tool.spec.name in found
            or tool.spec.name in _RESERVED
            or not PLAIN.fullmatch(tool.spec.name)
        ):
            raise _wrong(
                name,
                f"the name {tool.spec.name[:64]!r} is taken, or no plain name of 1 to 64 letters",
            )
        found[tool.spec.name] = tool
    return found


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        raise _wrong(name, f"there is no module {problem.name}") from None
    except Exception as problem:
        raise _wrong(
            name, f"it cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem


def _is_own_function(module: ModuleType, name: str, value: object) -> bool:
    return (
        inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == module.__name__
    )


def _tool(name: str, item: Any) -> Tool:
    if inspect.isfunction(item):
        try:
            return FunctionTool(item)
        except (TypeError, NameError, ValueError) as problem:
            raise _wrong(name, f"{item.__name__}() cannot be a tool: {problem}") from None
    if isinstance(item, type):
        raise _wrong(name, f"{item.__name__} is a class; put an instance of it into TOOLS")
    if not isinstance(getattr(item, "spec", None), ToolSpec) or not inspect.iscoroutinefunction(
        getattr(item, "run", None)
    ):
        raise _wrong(
            name,
            f"a {type(item).__name__} in TOOLS is neither a function nor has spec and an async run",
        )
    if not isinstance(getattr(item, "is_idempotent", None), bool):
        raise _wrong(name, f"the tool {item.spec.name} does not say is_idempotent")
    tool: Tool = item
    return tool


def _shape(function: Callable[..., Any]) -> tuple[type[Arguments], str | None]:
    """The parameters of a function as one type, and which of them is the place of the call."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    place = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter.name} is not a plain parameter")
        hint = hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"{parameter.name} has no annotation")
        if hint is Place:
            place = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, parameter.default))
    shape = msgspec.defstruct(
        f"{function.__name__}_arguments", fields, bases=(Arguments,), frozen=True, kw_only=True
    )
    return typing.cast(type[Arguments], shape), place


def _wrong(name: str, why: str) -> UsageError:
    return UsageError(f"the tools of {name} cannot be used: {why}", help=_HELP, code="server.tools")
