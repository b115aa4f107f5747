"""The toolbox: what is wrong in the configuration is said before anybody is served; what was
started is ended."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.errors import UsageError


@pytest.mark.parametrize("config", [{"tools_module": "nowhere_at_all"}, {"mcp": {"x": {}}}])
def test_a_wrong_configuration_does_not_start(tmp_path: Path, config: Any) -> None:
    async def do(_: ToolServer) -> None:
        pytest.fail("it started")

    with pytest.raises(UsageError):
        run_with_tools(tmp_path, do, **config)


def test_the_sandbox_is_looked_for_once(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        toolbox = shop.services.toolbox
        assert await toolbox.sandbox() is await toolbox.sandbox()
        await toolbox.close()

    run_with_tools(tmp_path, do, allow_unsandboxed=True)
