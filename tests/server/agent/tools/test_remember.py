"""Remember: what is kept, why, and in the place of what."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.agent.tools.interface import ToolError
from open_token.server.agent.tools.remember import Remember


def test_a_memory_is_written_with_its_reason_and_supersedes(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        first = await Remember().run({"content": " likes tea "}, shop.place())
        asked = {
            "content": "likes coffee",
            "reason": "said so",
            "type": "feedback",
            "supersedes": [first["memory_id"]],
        }
        second = await Remember().run(asked, shop.place())
        assert second["superseded"] == [first["memory_id"]]
        old = await shop.services.store.memory(shop.owner, first["memory_id"])
        new = await shop.services.store.memory(shop.owner, second["memory_id"])
        assert old
        assert new
        assert (old.content, old.superseded_by) == ("likes tea", new.id)
        assert (new.type, new.write_reason, new.source_session) == (
            "feedback",
            "said so",
            shop.session_id,
        )

    run_with_tools(tmp_path, do)


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"content": ""}, {"content": "  "}, {"content": "x" * 501}, {"content": "x", "type": "wish"},
        {"content": "x", "supersedes": ["a"]}, {"content": "x", "supersedes": [999]}, {"content": "x", "reason": [1]},
        {"content": "x", "supersedes": [1] * 21}, {"content": "x", "supersedes": [2**70]},
    ],
)  # fmt: skip
def test_what_cannot_be_remembered(tmp_path: Path, arguments: Any) -> None:
    async def do(shop: ToolServer) -> None:
        with pytest.raises(ToolError):
            await Remember().run(arguments, shop.place())
        assert (await shop.services.store.memories(shop.owner)).total == 0

    run_with_tools(tmp_path, do)
