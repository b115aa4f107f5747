"""Pieces are put together and written in order, and nothing is lost or written twice."""

import asyncio
from typing import Any

import pytest

from helpers.server.agent_session import run
from open_token.model.log_events import NewEvent
from open_token.server.agent.model_turn import StreamWriter


def data(text: str) -> dict[str, Any]:
    return {"turn_id": "t", "text": text}


def test_what_comes_soon_after_is_put_together() -> None:
    async def scenario() -> None:
        written: list[list[NewEvent]] = []
        result = asyncio.Event()

        async def write(steps: list[NewEvent]) -> None:
            written.append(steps)
            result.set()

        writer = StreamWriter(write)
        for word in "one two three".split():
            await writer.add_delta("text.delta", data(word), len(word))
        assert written == []
        await result.wait()
        assert written == [[("text.delta", data("onetwothree"))]]
        await writer.add_delta("text.delta", data("a"), 1)
        await writer.add_delta("thinking.delta", data("b"), 1)
        await writer.flush(("turn.ended", {"turn_id": "t"}))
        assert [kind for kind, _ in written[1]] == ["text.delta", "thinking.delta", "turn.ended"]
        await writer.add_delta("text.delta", data("x" * 2000), 2000)
        assert len(written) == 3
        await writer.add_delta("text.delta", data("left"), 4)
        await writer.close()
        assert writer.take() == [("text.delta", data("left"))]
        assert writer.take() == []

    run(scenario())


def test_what_went_wrong_is_reported_to_the_next() -> None:
    async def scenario() -> None:
        failed = asyncio.Event()

        async def write(_: list[NewEvent]) -> None:
            failed.set()
            raise RuntimeError("fenced")

        writer = StreamWriter(write)
        await writer.add_delta("text.delta", data("a"), 1)
        await failed.wait()
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="fenced"):
            await writer.add_delta("text.delta", data("b"), 1)
        await writer.close()

    run(scenario())
