"""The tools that a session has: ours, the operator's and those of MCP servers, less what was
switched off."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import structs

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools.bash import Bash
from open_token.server.agent.tools.edit import Edit
from open_token.server.agent.tools.glob import Glob
from open_token.server.agent.tools.grep import Grep
from open_token.server.agent.tools.interface import Json, Place, Tool
from open_token.server.agent.tools.read import Read
from open_token.server.agent.tools.remember import Remember
from open_token.server.agent.tools.schedule import ScheduleTask
from open_token.server.agent.tools.skill import Skill
from open_token.server.agent.tools.write import Write
from open_token.server.skills import skills_of

if TYPE_CHECKING:
    from open_token.server.services import Services


class Renamed:
    """A tool under a name for people that the operator chose."""

    def __init__(self, tool: Tool, display_name: str) -> None:
        self._tool = tool
        self.spec: ToolSpec = structs.replace(tool.spec, display_name=display_name)
        self.is_idempotent = tool.is_idempotent
        self.timeout = getattr(tool, "timeout", None)

    async def run(self, arguments: Json, place: Place) -> Any:
        """As the tool does."""
        return await self._tool.run(arguments, place)


async def tools_for(
    services: "Services", owner: str, session_id: str, *, starts: bool = True
) -> dict[str, Tool]:
    """The tools of a session by name; our own come before others of the same name.

    Who only looks does not start MCP servers for it: with `starts=False` those count that are there
    already."""
    state = await services.journal.state(owner, session_id)
    off, memory = _off(state.session.more), state.session.memory_enabled
    config, toolbox = services.config, services.toolbox
    skills = await asyncio.to_thread(skills_of, config, services.workspaces.of(session_id))
    tools: list[Tool] = [Read(), Write(), Edit(), Glob(), Grep(), Skill(skills), ScheduleTask()]
    if not (sandbox := await toolbox.sandbox()).is_off:
        tools.append(Bash(sandbox, config.tool_timeout))
    if config.memory and memory:
        tools.append(Remember())
    offered = {
        **await toolbox.mcp.tools(owner, starts=starts),
        **toolbox.python,
        **{tool.spec.name: tool for tool in tools},
    }
    names = config.display_names
    return {
        name: Renamed(tool, names[name]) if name in names else tool
        for name, tool in sorted(offered.items())
        if name not in off
    }


def _off(more: Any) -> frozenset[str]:
    """What the session was created without: a list of names, or one name."""
    given = more.get("disable_tools") if isinstance(more, dict) else None
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return frozenset(name for name in names if isinstance(name, str))
