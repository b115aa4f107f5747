"""A run while it is worked on: its orders, and that nobody writes for a run that is over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.server.agent_session import (
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent.run_context import RunContext, RunRequest
from open_token.server.store.interface import FencedError


def test_orders_are_small() -> None:
    assert msgspec.json.encode(RunRequest(model="demo")) == b'{"model":"demo"}'


def test_nothing_is_written_for_a_run_that_is_over(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    async def scenario() -> None:
        kept: list[Any] = []

        class Keeps(FakeTool):
            async def run(self, arguments: dict[str, Any], place: Any) -> Any:
                kept.append(place)
                return place.workspace.folder.name

        fakes(ScriptedModel(build_call_pieces("T"), "end"), Keeps("T", lambda _: 1))
        async with open_agent_session(tmp_path, display_names={"T": "Werkzeug"}) as opened:
            room = await opened()
            await room.send("go")
            call = room.turns()[1]["tool_calls"][0]
            assert (call["result"], call["display_name"]) == (room.id, "Werkzeug")
            assert (kept[0].tool_call_id, kept[0].loop_id, kept[0].session_id) == (
                "c1",
                "root",
                room.id,
            )
            row = (await room.services.store.runs(room.caller.user.id, room.id))[0]
            late = RunContext(room.services, row, RunRequest(model="demo"), ScriptedModel(), {})
            with pytest.raises(FencedError):
                await late.write([("notice.given", {"message": "late"})])

    run(scenario())
