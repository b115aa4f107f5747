"""Tool arguments as structs: their JSON Schema for the model, and their validation."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from open_token.jsontools.objects import omit_keys
from open_token.server.agent.tools.interface import Json, ToolError
from open_token.server.errors import ApiError

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
P = ParamSpec("P")


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of argument structs; their fields are the parameters of the tool."""


def build_parameters(shape: type[Struct]) -> Json:
    """Return the JSON Schema of a struct without references, as providers require it."""
    _, schemas = msgspec.json.schema_components([shape], ref_template="{name}")
    schema: Json = schemas[shape.__name__]
    return omit_keys(schema, "title", "description")


def parse_arguments(shape: type[S], arguments: Json, aliases: Mapping[str, str] | None = None) -> S:
    """Parse the arguments of a call; `aliases` are other names that models use for some of them."""
    values = dict(arguments)
    for alias, name in (aliases or {}).items():
        if alias in values and name not in values:
            values[name] = values.pop(alias)
    try:
        # Text that cannot be stored must be found before the tool does anything.
        msgspec.json.encode(values)
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as problem:
        raise ToolError(f"invalid arguments: {problem}") from None
    except (UnicodeEncodeError, RecursionError, TypeError, ValueError):
        raise ToolError("the arguments are not valid JSON") from None


@contextlib.contextmanager
def refusals_as_errors() -> Iterator[None]:
    """Turn refusals of the workspace into errors of the call."""
    try:
        yield
    except ApiError as refused:
        raise ToolError(refused.detail) from None


async def run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking code in a thread."""
    with refusals_as_errors():
        return await asyncio.to_thread(function, *args, **kwargs)


def truncate_middle(text: str, max_characters: int) -> str:
    """Shorten a text by replacing its middle with a note."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    note = f"[... {len(text) - 2 * half} characters omitted ...]"
    return f"{text[:half]}\n{note}\n{text[-half:]}"


def to_parameters_schema(schema: Any) -> Json:
    """Return a foreign schema if it describes an object, or else an empty one."""
    if isinstance(schema, dict) and schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {}}
