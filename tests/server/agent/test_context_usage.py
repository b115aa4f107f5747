"""How full the window is, counted where the provider counts, else estimated."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import open_agent_session, run
from open_token.server.agent.context_usage import (
    build_context_stats,
    estimate_messages,
    estimate_text,
    estimate_tools,
    get_counted_tokens,
)
from open_token.server.agent.model_interface import Call, Media, Message, Result, Text, ToolSpec


def test_estimates() -> None:
    assert estimate_text("") == 0
    assert estimate_text("four" * 10) == 10
    assert estimate_text("汉字") == 2
    assert estimate_text("zwölf Wörter") == 3
    parts = [
        Text("a" * 40),
        Call("c", "Read", "{}"),
        Result("c", "Read", {"x": 1}),
        Media("image/png", url="u"),
    ]
    assert estimate_messages([Message("user", parts)]) == 4 + 10 + 2 + 2 + 1000
    assert estimate_tools([ToolSpec(name="Read", description="reads")]) > 5


def test_the_window_of_a_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            empty = build_context_stats(room.services, await room.state())
            assert (empty.model, empty.context_window, empty.estimated) == ("demo", 32_000, True)
            assert empty.parts.keys() == {"system", "tools", "memory", "history", "pending"}
            await room.send("hello")
            state = await room.state()
            full = build_context_stats(room.services, state)
            usage = room.turns()[-1]["usage"]
            assert (
                get_counted_tokens(state)
                == full.used_tokens
                == usage["input_tokens"] + usage["output_tokens"]
            )
            assert not full.estimated
            assert sum(full.parts.values()) == full.used_tokens
            assert full.parts["system"] > 0
            assert full.parts["history"] > 0
            await room.services.chat.compact(room.caller, room.id)
            after = await room.state()
            assert get_counted_tokens(after) is None
            assert build_context_stats(room.services, after).estimated

    run(scenario())


class Heavy:
    """A tool that takes many words to describe."""

    spec = ToolSpec(name="Heavy", description="word " * 400)


@pytest.mark.spec("context-stats")
def test_tools_are_a_part_of_the_window(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            tools: Any = [Heavy()]
            before = build_context_stats(room.services, await room.state(), tools)
            assert before.parts["tools"] == estimate_tools([Heavy.spec]) > 500
            assert before.used_tokens == sum(before.parts.values())
            await room.send("hello")
            after = build_context_stats(room.services, await room.state(), tools)
            assert (
                after.used_tokens
                == sum(after.parts.values())
                == get_counted_tokens(await room.state())
            )
            assert after.parts["tools"] > after.parts["history"] > 0
            await room.send("hello", mode="planning")
            assert build_context_stats(room.services, await room.state(), tools).parts["tools"] == 0

    run(scenario())
