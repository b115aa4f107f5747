"""Pieces are put together and written in order, and nothing is lost or written twice."""

import asyncio
from typing import Any

import pytest

from agent_rooms import run
from open_token.entries import Step
from open_token.server.agent.scribe import Scribe


def data(text: str) -> dict[str, Any]:
    return {"turn_id": "t", "text": text}


def test_what_comes_soon_after_is_put_together() -> None:
    async def talk() -> None:
        written: list[list[Step]] = []
        told = asyncio.Event()

        async def write(steps: list[Step]) -> None:
            written.append(steps)
            told.set()

        scribe = Scribe(write)
        for word in "one two three".split():
            await scribe.piece("text.delta", data(word), len(word))
        assert written == []
        await told.wait()
        assert written == [[("text.delta", data("onetwothree"))]]
        await scribe.piece("text.delta", data("a"), 1)
        await scribe.piece("thinking.delta", data("b"), 1)
        await scribe.flush(("turn.ended", {"turn_id": "t"}))
        assert [kind for kind, _ in written[1]] == ["text.delta", "thinking.delta", "turn.ended"]
        await scribe.piece("text.delta", data("x" * 2000), 2000)
        assert len(written) == 3
        await scribe.piece("text.delta", data("left"), 4)
        await scribe.close()
        assert scribe.take() == [("text.delta", data("left"))]
        assert scribe.take() == []

    run(talk())


def test_what_went_wrong_is_told_to_the_next() -> None:
    async def talk() -> None:
        failed = asyncio.Event()

        async def write(_: list[Step]) -> None:
            failed.set()
            raise RuntimeError("fenced")

        scribe = Scribe(write)
        await scribe.piece("text.delta", data("a"), 1)
        await failed.wait()
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="fenced"):
            await scribe.piece("text.delta", data("b"), 1)
        await scribe.close()

    run(talk())
