"""Tools of the operator's own module: functions, objects, and what is wrong with them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.errors import UsageError
from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.python_module import FunctionTool, load_tools

GOOD = '''
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.interface import Place, ToolFault

def weather(city: str, days: int = 1, *, place: Place) -> dict:
    """Tells the weather."""
    if city == "nowhere":
        raise ToolFault("there is no such city")
    if city == "broken":
        raise KeyError("a secret")
    return {"city": city, "days": days, "who": place.owner, "_meta": {"bridge": {"action": "show"}}}

async def later(words: list[str]) -> str:
    return " ".join(words)

later.is_idempotent = True
later.display_name = "Later on"

class Whole:
    spec = ToolSpec(name="whole", description="A whole tool.")
    is_idempotent = True

    async def run(self, arguments, place):
        return arguments

def _hidden(): ...
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "tools_of_ours.py").write_text(text)
        return "tools_of_ours"

    yield write
    sys.modules.pop("tools_of_ours", None)


def test_functions_are_tools(tmp_path: Path, module: Any) -> None:
    async def do(shop: ToolServer) -> None:
        tools = shop.services.toolbox.python
        assert list(tools) == ["weather", "later"]
        weather, later = tools["weather"], tools["later"]
        assert (weather.spec.description, weather.spec.display_name) == (
            "Tells the weather.",
            "Weather",
        )
        assert weather.spec.parameters["required"] == ["city"]
        assert weather.spec.parameters["properties"]["days"] == {"type": "integer", "default": 1}
        assert (weather.is_idempotent, later.is_idempotent) == (False, True)
        assert later.spec.display_name == "Later on"
        assert await later.run({"words": ["a", "b"]}, shop.place()) == "a b"
        assert await weather.run({"city": "Köln"}, shop.place()) == {
            "city": "Köln", "days": 1, "who": shop.owner, "_meta": {"bridge": {"action": "show"}},
        }  # fmt: skip
        for arguments, words in (
            ({"city": "nowhere"}, "no such city"),
            ({"city": "broken"}, "^the tool failed: KeyError$"),
            ({}, "missing required field"),
            ({"city": []}, "invalid arguments"),
            ({"city": "x", "place": {}}, "unknown field"),
        ):
            with pytest.raises(ToolError, match=words):
                await weather.run(arguments, shop.place())

    run_with_tools(tmp_path, do, tools_module=module(GOOD))


def test_a_list_says_which(module: Any) -> None:
    tools = load_tools(module(GOOD + "\nTOOLS = [Whole(), later]"))
    assert list(tools) == ["whole", "later"]
    assert isinstance(tools["later"], FunctionTool)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", "cannot be imported: SyntaxError"),
        ("raise ValueError('no')", "cannot be imported: ValueError: no"),
        ("import not_there_at_all", "there is no module not_there_at_all"),
        ("", "it has no tools"),
        ("TOOLS = []", "it has no tools"),
        ("TOOLS = 3", "not a list of tools"),
        ("TOOLS = [3]", "neither a function nor has spec"),
        ("class A: ...\nTOOLS = [A]", "A is a class"),
        ("def f(x): ...", "x has no annotation"),
        ("def f(*x: int): ...", "not a plain parameter"),
        ("def f(x: 'Nothing'): ...", "cannot be a tool"),
        ("def f(x: complex): ...", "cannot be a tool"),
        ("def Read(x: int): ...", "the name 'Read' is taken"),
        ("def f(x: int): ...\nTOOLS = [f, f]", "the name 'f' is taken"),
        (GOOD + "\ndel Whole.is_idempotent\nTOOLS = [Whole()]", "has no is_idempotent"),
    ],
)
def test_what_is_wrong_is_said_before_anybody_is_served(module: Any, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load_tools(module(text))
    assert caught.value.code == "server.tools"


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="there is no module nowhere_at_all"):
        load_tools("nowhere_at_all")
