"""No tools but those of the loop, until the others are here."""

from typing import TYPE_CHECKING

from open_token.server.agent.tools.interface import Tool

if TYPE_CHECKING:
    from open_token.server.services import Services


async def tools_for(services: "Services", owner: str, session_id: str) -> dict[str, Tool]:
    """The tools of a session."""
    return {}
