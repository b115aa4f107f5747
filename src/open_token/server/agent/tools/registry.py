"""The tools of a session: built-in ones, those of the operator and of MCP servers."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import structs

from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.bash import Bash
from open_token.server.agent.tools.edit import Edit
from open_token.server.agent.tools.glob import Glob
from open_token.server.agent.tools.grep import Grep
from open_token.server.agent.tools.interface import Json, Tool, ToolContext
from open_token.server.agent.tools.read import Read
from open_token.server.agent.tools.remember import Remember
from open_token.server.agent.tools.schedule_task import ScheduleTask
from open_token.server.agent.tools.skill import Skill
from open_token.server.agent.tools.write import Write
from open_token.server.core.skills import find_skills

if TYPE_CHECKING:
    from open_token.server.core.services import Services


class RenamedTool:
    """A tool with a display name that the operator chose."""

    def __init__(self, tool: Tool, display_name: str) -> None:
        self._tool = tool
        self.spec: ToolSpec = structs.replace(tool.spec, display_name=display_name)
        self.is_idempotent = tool.is_idempotent
        self.is_read_only = getattr(tool, "is_read_only", False)
        self.timeout = getattr(tool, "timeout", None)

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Call the tool."""
        return await self._tool.run(arguments, context)


async def list_session_tools(
    services: "Services", owner: str, session_id: str, *, starts: bool = True
) -> dict[str, Tool]:
    """Return the tools of a session by name; built-in ones override others.

    With `starts=False` no MCP server is started, and only those that run already are included.
    """
    state = await services.journal.state(owner, session_id)
    config = services.config
    toolbox = services.toolbox
    skills = await asyncio.to_thread(find_skills, config, services.workspaces.get(session_id))
    tools: list[Tool] = [Read(), Write(), Edit(), Glob(), Grep(), Skill(skills), ScheduleTask()]
    sandbox = await toolbox.sandbox()
    if not sandbox.disabled_reason:
        tools.append(Bash(sandbox, config.tool_timeout))
    if config.memory and state.session.memory_enabled:
        tools.append(Remember())
    # Built-in tools come last: no server can replace Read or Bash by something of the same name.
    offered = {**await toolbox.list_mcp_tools(owner, session_id, starts=starts), **toolbox.python}
    for tool in tools:
        offered[tool.spec.name] = tool
    disabled = _get_disabled(state.session.more)
    result: dict[str, Tool] = {}
    for name, tool in sorted(offered.items()):
        if name in disabled:
            continue
        display_name = config.display_names.get(name)
        result[name] = tool if display_name is None else RenamedTool(tool, display_name)
    return result


def _get_disabled(more: Any) -> frozenset[str]:
    """Return the names of the tools that the session was created without."""
    names = more.get("disable_tools") if isinstance(more, dict) else None
    if isinstance(names, str):
        return frozenset([names])
    if not isinstance(names, list):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))
