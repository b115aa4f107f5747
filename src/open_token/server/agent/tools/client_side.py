"""Tools of the client: the model is offered them, and the client executes the calls."""

from typing import Any

from open_token.model.agent_settings import ClientTool
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError


class ClientSideTool:
    """A tool at which the loop stops until the client sends the result."""

    is_idempotent = True

    def __init__(self, tool: ClientTool) -> None:
        self.spec = ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            display_name=tool.display_name,
        )

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Called only where the loop does not stop, as in planning mode."""
        raise ToolError("the client does not execute this tool here")
