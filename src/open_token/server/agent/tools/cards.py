"""Tools that show something to the user: a card, an action of the host page, a plan."""

from typing import Any, get_args

from open_token.model.session_types import Target
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.interface import Json, ToolContext, ToolError

_MAX_LENGTH = 200_000
_ACTIONS = ("addContext", "appendInput", "sendMessage")


def _get_text(arguments: Json, name: str, max_length: int = _MAX_LENGTH) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > max_length:
        raise ToolError(f"{name} must be a text of 1 to {max_length} characters")
    return value


class ShowCard:
    """An HTML card, shown in an isolated frame."""

    spec = ToolSpec(
        name="ShowCard",
        description="Show the person a card: a small page of HTML without URLs of other sites.",
        parameters={
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "html": {"type": "string"},
                "height": {"type": "integer"},
                "target": {
                    "enum": list(get_args(Target)),
                    "description": "In the conversation (inline), or next to it.",
                },
            },
            "required": ["html"],
        },
        display_name="Card",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Send the card to the page."""
        target = arguments.get("target", "inline")
        if target not in get_args(Target):
            raise ToolError("target must be inline or preview")
        card: Json = {"target": target, "resourceHTML": _get_text(arguments, "html")}
        title = arguments.get("title")
        if isinstance(title, str):
            card["title"] = title[:200]
        height = arguments.get("height")
        if isinstance(height, int):
            card["height"] = max(40, min(height, 2000))
        return {"shown": True, "_meta": {"ui": card}}


class HostAction:
    """An action of the page around the chat."""

    spec = ToolSpec(
        name="HostAction",
        description="Ask the page around this chat to add context, to append to the input, "
        "or to send a message.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": list(_ACTIONS)},
                "payload": {"type": "object"},
            },
            "required": ["action"],
        },
        display_name="Page action",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Send the action to the page."""
        action = arguments.get("action")
        if action not in _ACTIONS:
            raise ToolError(f"action must be one of {', '.join(_ACTIONS)}")
        return {
            "sent": True,
            "_meta": {"bridge": {"action": action, "payload": arguments.get("payload")}},
        }


class Plan:
    """A plan for the user, shown in a separate block."""

    spec = ToolSpec(
        name="Plan",
        description="Show the person a plan as Markdown before you carry it out.",
        parameters={
            "type": "object",
            "properties": {"plan": {"type": "string", "description": "The plan as Markdown."}},
            "required": ["plan"],
        },
        display_name="Plan",
    )
    is_idempotent = True

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Show the plan; the user decides."""
        return {
            "shown": True,
            "_meta": {"plan": {"status": "ready", "plan": _get_text(arguments, "plan")}},
        }
