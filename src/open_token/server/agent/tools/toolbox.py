"""What the tools of all sessions share: sandbox, tools of the operator, MCP connections."""

import asyncio
from collections.abc import Mapping

from open_token.server.agent.tools.interface import Tool
from open_token.server.agent.tools.mcp import McpServers
from open_token.server.agent.tools.python_module import load_tools
from open_token.server.config import ServerConfig
from open_token.server.core.sandbox import Sandbox, find_sandbox


class Toolbox:
    """Created once for a server; an invalid tools module is an error at this point."""

    def __init__(self, config: ServerConfig, env: Mapping[str, str]) -> None:
        self._config = config
        self._sandbox: Sandbox | None = None
        self._sandbox_lock = asyncio.Lock()
        self.python: dict[str, Tool] = (
            load_tools(config.tools_module) if config.tools_module else {}
        )
        self.mcp = McpServers(config.mcp, env, config.tool_timeout)

    async def sandbox(self) -> Sandbox:
        """Return the sandbox for commands, which is detected once."""
        async with self._sandbox_lock:
            if self._sandbox is None:
                self._sandbox = await find_sandbox(self._config.allow_unsandboxed)
            return self._sandbox

    async def close(self) -> None:
        """Stop what was started."""
        await self.mcp.close()
