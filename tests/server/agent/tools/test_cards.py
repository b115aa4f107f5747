"""Cards, actions of the page, plans: what goes to the page is in `_meta`."""

import asyncio
from typing import Any

import pytest

from open_token.server.agent.tools.cards import HostAction, Plan, ShowCard
from open_token.server.agent.tools.interface import ToolError


def shown(tool: Any, **arguments: Any) -> Any:
    return asyncio.run(tool().run(arguments, None))


@pytest.mark.spec("type-target")
def test_what_is_shown() -> None:
    card = shown(ShowCard, html="<p>", title="T", height=9000)
    assert card == {
        "shown": True,
        "_meta": {"ui": {"target": "inline", "resourceHTML": "<p>", "title": "T", "height": 2000}},
    }
    assert shown(ShowCard, html="<p>", target="preview")["_meta"]["ui"]["target"] == "preview"
    assert shown(HostAction, action="appendInput", payload={"text": "x"})["_meta"]["bridge"][
        "payload"
    ] == {"text": "x"}
    assert shown(Plan, plan="1.")["_meta"]["plan"] == {"status": "ready", "plan": "1."}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (ShowCard, {}),
        (ShowCard, {"html": "x" * 200_001}),
        (ShowCard, {"html": "x", "target": ["inline"]}),
        (HostAction, {"action": "format"}),
        (Plan, {"plan": " "}),
    ],
)
def test_what_is_not(tool: Any, arguments: Any) -> None:
    with pytest.raises(ToolError):
        shown(tool, **arguments)
