"""What the model sees of results that are too long for the log, and of pictures."""

import base64
import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import (
    AgentSession,
    FakeTool,
    ScriptedModel,
    build_call_pieces,
    open_agent_session,
    run,
)
from open_token.server.agent import tool_results
from open_token.server.agent.model_interface import Media, Result
from open_token.server.agent.run_context import RunContext
from open_token.server.config import Limits

Fakes = Callable[..., None]
PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


def picture(data: bytes = PIXEL, **more: Any) -> dict[str, Any]:
    return {
        "media_type": "image/png",
        "encoding": "base64",
        "base64": base64.b64encode(data).decode(),
        **more,
    }


def run_tool(
    tmp_path: Path, fakes: Fakes, given: Any, window: int = 100_000
) -> tuple[Result, Any, AgentSession]:
    """What the model received of a result, and what clients received."""
    model = ScriptedModel(build_call_pieces("T"), "end", context_window=window)
    fakes(model, FakeTool("T", lambda _: given))
    found: list[Any] = []

    async def scenario() -> None:
        async with open_agent_session(tmp_path, limits=Limits(frame_bytes=3000)) as opened:
            room = await opened()
            await room.send("go")
            found.append((room.turns()[1]["tool_calls"][0]["result"], room))
            await room.check()

    run(scenario())
    (result,) = model.requests[1].messages[-1].parts
    assert isinstance(result, Result)
    return result, *found[0]


@pytest.mark.spec("long-results")
@pytest.mark.parametrize("letter", ["a", "ü", "数", "🎉"])
@pytest.mark.parametrize("count", [29_990, 40_000, 300_000])
def test_both_ends_of_a_long_text(tmp_path: Path, fakes: Fakes, letter: str, count: int) -> None:
    text = f"begin{letter * (count - 8)}end"
    result, shown, _ = run_tool(tmp_path, fakes, text)
    assert shown.keys() == {"blob", "size", "media_type", "preview"}
    assert shown["preview"] == text[:2000]
    assert shown["blob"] == hashlib.sha256(text.encode()).hexdigest()
    if count < tool_results.MAX_CHARACTERS:
        assert result.content == text
        return
    first, note, last = result.content.split("\n")
    assert (first, last) == (text[:15_000], text[-15_000:])
    in_bytes = len(text.encode()) > 120_000
    left_out, whole = (
        len(part.encode()) if in_bytes else len(part) for part in (text[15_000:-15_000], text)
    )
    assert note.startswith(
        f"[... {left_out} of {whole} {'bytes' if in_bytes else 'characters'} omitted"
    )


def test_a_small_window_gets_less(tmp_path: Path, fakes: Fakes) -> None:
    result, _, _ = run_tool(tmp_path, fakes, "word " * 10_000, window=8000)
    assert 8000 < len(result.content) < 8200


def test_what_only_looks_like_a_reference_is_reported_as_it_is(
    tmp_path: Path, fakes: Fakes
) -> None:
    given = {"blob": "0" * 64, "size": 10**6, "media_type": "text/plain", "preview": '"base64"'}
    assert run_tool(tmp_path, fakes, given)[0].content == given
    given["preview"] = "x"
    assert run_tool(tmp_path, fakes, given)[0].content == given


@pytest.mark.parametrize("data", [PIXEL[:300], PIXEL])
def test_a_picture_is_a_picture(tmp_path: Path, fakes: Fakes, data: bytes) -> None:
    given = {
        "file_path": "a.png",
        "media": picture(data),
        "list": [{"type": "image", **picture(data)}],
    }
    result, shown, _ = run_tool(tmp_path, fakes, given)
    assert result.content == {
        "file_path": "a.png",
        "media": {"media_type": "image/png"},
        "list": [{"type": "image", "media_type": "image/png"}],
    }
    assert list(result.media) == [Media("image/png", data=data)] * 2
    assert ("blob" in shown) == (data is PIXEL)


@pytest.mark.parametrize(
    "odd", [{"base64": "*"}, {"base64": 5}, {"media_type": "image/x"}, {"encoding": "hex"}]
)
def test_what_is_no_picture_stays(tmp_path: Path, fakes: Fakes, odd: dict[str, Any]) -> None:
    given = {"media": {**picture(b"x"), **odd}}
    result, _, _ = run_tool(tmp_path, fakes, given)
    assert (result.content, list(result.media)) == (given, [])


def test_the_newest_pictures_have_room(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_results, "MAX_IMAGE_BYTES", 2 * len(PIXEL))
    model = ScriptedModel(
        *[build_call_pieces("T", f"c{number}") for number in range(4)],
        "end",
        context_window=100_000,
    )
    fakes(model, FakeTool("T", lambda _: {"media": picture()}))

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            await (await opened()).send("go")

    run(scenario())
    found = [
        part
        for message in model.requests[-1].messages
        for part in message.parts
        if isinstance(part, Result)
    ]
    assert [len(part.media) for part in found] == [0, 0, 1, 1]
    assert all("base64" not in str(part.content) for part in found)


@pytest.mark.parametrize(
    ("most", "reads"), [(1 << 20, [1, 1, 1, 1]), (45_000, [4, 2, 1, 1]), (0, [8, 6, 4, 2])]
)
def test_so_much_of_them_is_kept_between_requests(
    tmp_path: Path, fakes: Fakes, monkeypatch: pytest.MonkeyPatch, most: int, reads: list[int]
) -> None:
    monkeypatch.setattr(tool_results, "MAX_CACHED_BYTES", most)
    texts = [str(number) * 20_000 for number in range(4)]
    model = ScriptedModel(
        *[build_call_pieces("T", f"c{number}") for number in range(4)],
        "end",
        context_window=100_000,
    )
    left, read, seen, sizes = list(texts), tool_results._read_blob, Counter[str](), []
    fakes(model, FakeTool("T", lambda _: left.pop(0)))

    async def counted(work: RunContext, held: Any) -> Any:
        seen[held["preview"][0]] += 1
        sizes.append(sum(size for size, _ in work.shown.values()))
        return await read(work, held)

    monkeypatch.setattr(tool_results, "_read_blob", counted)

    async def scenario() -> None:
        async with open_agent_session(tmp_path, limits=Limits(frame_bytes=3000)) as opened:
            await (await opened()).send("go")

    run(scenario())
    found = [
        part
        for message in model.requests[-1].messages
        for part in message.parts
        if isinstance(part, Result)
    ]
    assert [part.content for part in found] == texts
    assert max(sizes) <= most
    assert [seen[str(number)] for number in range(4)] == reads
