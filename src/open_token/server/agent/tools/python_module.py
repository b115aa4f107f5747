"""Tools from a Python module of the operator: its list TOOLS, or its public functions."""

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
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import Arguments, build_parameters, parse_arguments
from open_token.server.agent.tools.interface import (
    TOOL_NAME_PATTERN,
    Json,
    Tool,
    ToolContext,
    ToolError,
)

_HELP = "see docs/reference/tools.md, section Tools of your own"
_RESERVED = frozenset(
    {
        "Agent",
        "AskUserQuestion",
        "Bash",
        "Edit",
        "Glob",
        "Grep",
        "HostAction",
        "Plan",
        "Read",
        "Remember",
        "ShowCard",
        "Skill",
        "Write",
    }
)


class FunctionTool:
    """A function as a tool: annotations are the parameters, the docstring is the description."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._struct, self._context_name = _build_struct(function)
        self.is_idempotent = bool(getattr(function, "is_idempotent", False))
        self.is_read_only = bool(getattr(function, "is_read_only", False))
        description = inspect.getdoc(function) or function.__name__
        display_name = function.__name__.replace("_", " ").capitalize()
        self.spec = ToolSpec(
            name=function.__name__,
            description=description,
            parameters=build_parameters(self._struct),
            display_name=str(getattr(function, "display_name", display_name)),
        )

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Call the function; a synchronous one runs in a thread."""
        parsed = parse_arguments(self._struct, arguments)
        values = {name: getattr(parsed, name) for name in self._struct.__struct_fields__}
        if self._context_name:
            values[self._context_name] = context
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(**values)
            return await asyncio.to_thread(functools.partial(self._function, **values))
        except ToolError:
            raise
        except Exception as problem:
            raise ToolError(f"the tool failed: {type(problem).__name__}") from problem


def load_tools(name: str) -> dict[str, Tool]:
    """Load the tools of a module by name; errors prevent the server from starting."""
    module = _import_module(name)
    offered = getattr(module, "TOOLS", None)
    if offered is None:
        offered = [
            value for word, value in vars(module).items() if _is_own_function(module, word, value)
        ]
    if not isinstance(offered, list | tuple) or not offered:
        raise _build_error(name, "TOOLS is not a list of tools" if offered else "it has no tools")
    tools: dict[str, Tool] = {}
    for item in offered:
        tool = _build_tool(name, item)
        tool_name = tool.spec.name
        is_taken = tool_name in tools or tool_name in _RESERVED
        if is_taken or not TOOL_NAME_PATTERN.fullmatch(tool_name):
            raise _build_error(
                name,
                f"the name {tool_name[:64]!r} is taken, "
                "or does not consist of 1 to 64 letters, digits, - and _",
            )
        tools[tool_name] = tool
    return tools


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        raise _build_error(name, f"there is no module {problem.name}") from None
    except Exception as problem:
        raise _build_error(
            name, f"it cannot be imported: {type(problem).__name__}: {problem}"
        ) from problem


def _is_own_function(module: ModuleType, name: str, value: object) -> bool:
    return (
        inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == module.__name__
    )


def _build_tool(name: str, item: Any) -> Tool:
    if inspect.isfunction(item):
        try:
            return FunctionTool(item)
        except (TypeError, NameError, ValueError) as problem:
            raise _build_error(name, f"{item.__name__}() cannot be a tool: {problem}") from None
    if isinstance(item, type):
        raise _build_error(name, f"{item.__name__} is a class; put an instance of it into TOOLS")
    has_spec = isinstance(getattr(item, "spec", None), ToolSpec)
    if not has_spec or not inspect.iscoroutinefunction(getattr(item, "run", None)):
        raise _build_error(
            name,
            f"a {type(item).__name__} in TOOLS is neither a function nor has spec and an async run",
        )
    if not isinstance(getattr(item, "is_idempotent", None), bool):
        raise _build_error(name, f"the tool {item.spec.name} has no is_idempotent")
    tool: Tool = item
    return tool


def _build_struct(function: Callable[..., Any]) -> tuple[type[Arguments], str | None]:
    """Return the parameters of a function as a struct, and the name of the context parameter."""
    hints = typing.get_type_hints(function, include_extras=True)
    fields: list[Any] = []
    context_name = None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{parameter.name} is not a plain parameter")
        hint = hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"{parameter.name} has no annotation")
        if hint is ToolContext:
            context_name = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, parameter.default))
    struct = msgspec.defstruct(
        f"{function.__name__}_arguments", fields, bases=(Arguments,), frozen=True, kw_only=True
    )
    return typing.cast(type[Arguments], struct), context_name


def _build_error(name: str, why: str) -> UsageError:
    return UsageError(f"the tools of {name} cannot be used: {why}", help=_HELP, code="server.tools")
