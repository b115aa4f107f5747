"""The arguments of a tool as one type: its JSON Schema for the model, and what was sent checked
against it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from open_token.server.agent.tools.interface import Json, ToolFault
from open_token.server.refusals import Refused

T = TypeVar("T")
S = TypeVar("S", bound=Struct)
P = ParamSpec("P")


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a call says; the fields of a tool's own shape are its parameters."""


def parameters(shape: type[Struct]) -> Json:
    """The JSON Schema of a shape without references, as providers want it."""
    _, schemas = msgspec.json.schema_components([shape], ref_template="{name}")
    schema: Json = schemas[shape.__name__]
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def take(shape: type[S], arguments: Json, also: Mapping[str, str] | None = None) -> S:
    """The arguments of a call; `also` are other names that models use for some of them."""
    given = dict(arguments)
    for other, name in (also or {}).items():
        if other in given and name not in given:
            given[name] = given.pop(other)
    try:
        msgspec.json.encode(
            given
        )  # text that cannot be written down is found before anything is done with it
        return msgspec.convert(given, shape, strict=False)
    except msgspec.ValidationError as problem:
        raise ToolFault(f"the arguments do not fit: {problem}") from None
    except (UnicodeEncodeError, RecursionError, TypeError, ValueError):
        raise ToolFault("the arguments are not plain JSON") from None


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """What the workspace refuses is a fault of the call."""
    try:
        yield
    except Refused as refused:
        raise ToolFault(refused.detail) from None


async def in_thread(do: Callable[P, T], *arguments: P.args, **more: P.kwargs) -> T:
    """Let a call that waits for the disk wait in a thread of its own."""
    with faults():
        return await asyncio.to_thread(do, *arguments, **more)


def cut(text: str, most: int) -> str:
    """A text of bounded length: its middle makes way, and says so."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters are left out here ...]\n{text[-half:]}"


def schema_or_plain(schema: Any) -> Json:
    """A schema that came from outside, if it is one for arguments."""
    if isinstance(schema, dict) and schema.get("type") == "object":
        return schema
    return {"type": "object", "properties": {}}
