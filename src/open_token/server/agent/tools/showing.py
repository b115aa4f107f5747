"""What an agent shows beside its words: a card, an action of the page around the chat, a plan."""

from typing import Any, get_args

from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools.interface import Json, Place, ToolFault
from open_token.turns import Target

_LARGEST = 200_000
_ACTIONS = ("addContext", "appendInput", "sendMessage")


def _text(arguments: Json, name: str, longest: int = _LARGEST) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise ToolFault(f"{name} is a text of 1 to {longest} characters")
    return value


class ShowCard:
    """An inline card of HTML, shown in a frame that reaches nothing else."""

    spec = ToolSpec(
        name="ShowCard",
        description="Show the person a card: a small page of HTML without addresses of other places.",
        parameters={
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "html": {"type": "string"},
                "height": {"type": "integer"},
                "target": {
                    "enum": list(get_args(Target)),
                    "description": "In the talk (inline), or beside it.",
                },
            },
            "required": ["html"],
        },
        display_name="Card",
    )
    is_idempotent = True

    async def run(self, arguments: Json, place: Place) -> Any:
        """The card goes to the page; the model hears that it was shown."""
        target = arguments.get("target", "inline")
        if target not in get_args(Target):
            raise ToolFault("target is inline or preview")
        card: Json = {"target": target, "resourceHTML": _text(arguments, "html")}
        if isinstance(title := arguments.get("title"), str):
            card["title"] = title[:200]
        if isinstance(height := arguments.get("height"), int):
            card["height"] = max(40, min(height, 2000))
        return {"shown": True, "_meta": {"ui": card}}


class HostAction:
    """Something that the page around the chat is asked to do."""

    spec = ToolSpec(
        name="HostAction",
        description="Ask the page around this chat to add context, to append to the input, or to send a message.",
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

    async def run(self, arguments: Json, place: Place) -> Any:
        """The action goes to the page; the model hears that it was sent."""
        action = arguments.get("action")
        if action not in _ACTIONS:
            raise ToolFault(f"action is one of {', '.join(_ACTIONS)}")
        return {
            "sent": True,
            "_meta": {"bridge": {"action": action, "payload": arguments.get("payload")}},
        }


class Plan:
    """A plan for the person to look at; the loop shows it as a block of its own."""

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

    async def run(self, arguments: Json, place: Place) -> Any:
        """The model hears that the plan is shown; the person decides."""
        return {
            "shown": True,
            "_meta": {"plan": {"status": "ready", "plan": _text(arguments, "plan")}},
        }
