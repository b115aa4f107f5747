"""docs/reference/server.md is true: its routes are those of the OpenAPI, its events those of the
code."""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.route_page import page_of, routes
from helpers.server.server_client import ServerClient, run_with_server
from open_token.model.session_types import PatchEnvelope, TurnProjection, from_builtins
from open_token.server.http.app import build_app

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "server.md"
START, END = "<!-- routes -->\n", "<!-- end of routes -->\n"
EVENT = re.compile(
    r"(?:chat|turn|session|system|memory|workspace|task|replay|bg|artifact|skills):[a-z_:]+"
)
HEADED = re.compile(r"^#### `([a-z]+:[a-z_:]+)`\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The routes as the page is to show them."""

    async def openapi(ask: ServerClient) -> Any:
        return build_app(ask.services).openapi()

    return routes(run_with_server(tmp_path_factory.mktemp("data"), openapi))


def test_the_routes_are_those_of_the_openapi(
    shown: dict[str, str], golden: Callable[[Path, str | bytes], None]
) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    golden(PAGE, f"{before}{START}\n{page_of(shown)}\n{END}{after}")


def test_every_route_says_what_it_does(shown: dict[str, str]) -> None:
    silent = [title for title, part in shown.items() if len(part.split("\n")[2]) < 5]
    assert silent == []


def described_events() -> set[str]:
    """The events that the code names."""
    found: set[str] = set()
    for path in [
        *(ROOT / "src/open_token/server").rglob("*.py"),
        ROOT / "src/open_token/session/client_events.py",
    ]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and EVENT.fullmatch(node.value)
            ):
                found.add(node.value)
    return found


def headed() -> dict[str, str]:
    return {found[1]: found[2] for found in HEADED.finditer(PAGE.read_text(encoding="utf-8"))}


def test_every_event_is_on_the_page() -> None:
    assert sorted(described_events() - headed().keys()) == []


def test_the_page_has_no_event_that_the_server_does_not_send() -> None:
    assert sorted(headed().keys() - described_events()) == []


EXAMPLES = [
    pytest.param(name, block, id=f"{name}-{number}")
    for name, words in headed().items()
    for number, block in enumerate(BLOCK.findall(words))
]


@pytest.mark.parametrize(("name", "block"), EXAMPLES)
def test_examples_are_what_they_say(name: str, block: str) -> None:
    value = msgspec.json.decode(block)
    assert "session_id" in value
    if name in ("turn:start", "turn:end"):
        from_builtins(value, TurnProjection)
    elif name == "turn:patch":
        from_builtins(value, PatchEnvelope)
