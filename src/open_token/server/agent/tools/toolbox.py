"""What the tools of all sessions share: sandbox, tools of the operator, MCP connections."""

import asyncio
from collections.abc import Mapping
from typing import Any

from open_token.server.agent.tools.interface import Tool
from open_token.server.agent.tools.mcp import McpServers
from open_token.server.agent.tools.python_module import load_tools
from open_token.server.config import ServerConfig
from open_token.server.core.sandbox import Sandbox, find_sandbox


class Toolbox:
    """Created once for a server; an invalid tools module is an error at this point."""

    def __init__(self, config: ServerConfig, env: Mapping[str, str]) -> None:
        self._config = config
        self._env = env
        self._session_servers: dict[str, McpServers] = {}
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

    async def set_session_servers(self, session_id: str, servers: Mapping[str, Any]) -> None:
        """Set the MCP servers that a client brings along for one session, until the next start."""
        added = McpServers(servers, self._env, self._config.tool_timeout) if servers else None
        previous = self._session_servers.pop(session_id, None)
        if added is not None:
            self._session_servers[session_id] = added
        if previous is not None:
            await previous.close()

    async def list_mcp_tools(
        self, owner: str, session_id: str, *, starts: bool = True
    ) -> dict[str, Tool]:
        """Return the tools of MCP servers that a session has."""
        found = await self.mcp.tools(owner, starts=starts)
        servers = self._session_servers.get(session_id)
        if servers is None:
            return found
        return {**await servers.tools(owner, starts=starts), **found}

    async def close(self) -> None:
        """Stop what was started."""
        for servers in self._session_servers.values():
            await servers.close()
        await self.mcp.close()
