"""The interface of tools: a specification, and a function of the arguments."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from open_token.server.agent.model_interface import ToolSpec as ToolSpec

if TYPE_CHECKING:
    from open_token.server.core.services import Services
    from open_token.server.core.workspace import Workspace

Json = dict[str, Any]


@dataclass(frozen=True)
class ToolContext:
    """The context of a tool call: its session, turn and call, and what it may access."""

    services: "Services"
    owner: str
    session_id: str
    turn_id: str
    tool_call_id: str
    loop_id: str
    workspace: "Workspace"
    env: Mapping[str, str] = field(default_factory=dict)


class ToolError(Exception):
    """A failed tool call, described for the model: invalid arguments, missing file, timeout."""


class Tool(Protocol):
    """A tool."""

    spec: ToolSpec
    is_idempotent: bool
    """Whether a call may be repeated after a crash.

    A tool may also have `is_read_only`: calls that change nothing run at the same time."""

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return a JSON value; raise ToolError. The model does not see the key `_meta`."""
        ...


# The names under which tool modules of operators import these types since the first release.
Place = ToolContext
ToolFault = ToolError

TOOL_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")


def build_tool_name(*parts: str) -> str:
    """Join parts to a valid tool name; a name that does not fit is shortened and gets a hash."""
    whole = "__".join(parts)
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", whole)
    if plain == whole and len(plain) <= 64:
        return plain
    return f"{plain[:55]}_{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
