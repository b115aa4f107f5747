"""What the tools of all sessions share: the sandbox, the tools of the operator's module,
connections to MCP servers."""

import asyncio
from collections.abc import Mapping

from open_token.server.agent.tools.interface import Tool
from open_token.server.agent.tools.mcp import McpServers
from open_token.server.agent.tools.python_module import load_tools
from open_token.server.config import ServerConfig
from open_token.server.sandbox import Sandbox, find_sandbox


class Toolbox:
    """Made once for a server; a module that is wrong is an error here, before anybody is served."""

    def __init__(self, config: ServerConfig, env: Mapping[str, str]) -> None:
        self._config = config
        self._sandbox: Sandbox | None = None
        self._looking = asyncio.Lock()
        self.python: dict[str, Tool] = (
            load_tools(config.tools_module) if config.tools_module else {}
        )
        self.mcp = McpServers(config.mcp, env, config.tool_timeout)

    async def sandbox(self) -> Sandbox:
        """How commands are kept in; looked for once."""
        async with self._looking:
            if self._sandbox is None:
                self._sandbox = await find_sandbox(self._config.allow_unsandboxed)
            return self._sandbox

    async def close(self) -> None:
        """Let go of what was started."""
        await self.mcp.close()
