"""What a tool is to the loop: a name, a description, a schema, and a function of its arguments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from open_token.server.agent.interface import ToolSpec as ToolSpec

if TYPE_CHECKING:
    from open_token.server.services import Services
    from open_token.server.workspace import Workspace

Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a call happens: whose session, which turn and call, what it may touch."""

    services: "Services"
    owner: str
    session_id: str
    turn_id: str
    tool_call_id: str
    loop_id: str
    workspace: "Workspace"
    env: Mapping[str, str] = field(default_factory=dict)


class ToolFault(Exception):
    """A call that failed, in words for the model: bad arguments, no such file, timed out."""


class Tool(Protocol):
    """Something that an agent can do."""

    spec: ToolSpec
    is_idempotent: bool
    """Calling it twice does no harm, so after a crash it is called again."""

    async def run(self, arguments: Json, place: Place) -> Any:
        """The result, a JSON value; it may carry `_meta`, which the model does not see. Raises
        ToolFault."""
        ...
