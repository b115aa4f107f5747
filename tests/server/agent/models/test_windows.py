"""The context window of a model behind a URL is what its service reports."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.agent_session import AgentSession, Time, open_agent_session, run
from helpers.server.fake_provider import chat_answer, provider
from open_token.server.agent.context_usage import build_context_stats
from open_token.server.agent.models import windows
from open_token.server.agent.models.windows import ask_window, get_window

USUAL = 128_000


def list_models(*models: dict[str, Any]) -> dict[str, Any]:
    return {"/v1/models": {"object": "list", "data": list(models)}}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (list_models({"id": "other"}, {"id": "m", "max_model_len": 8192}), 8192),
        (list_models({"id": "m", "context_length": 32_768}), 32_768),
        (list_models({"id": "m", "context_window": 16_384}), 16_384),
        (list_models({"id": "m", "max_context_length": 4096}), 4096),
        (
            {
                **list_models({"id": "m", "meta": {"n_ctx_train": 131_072}}),
                "/props": {"default_generation_settings": {"n_ctx": 4096}},
            },
            4096,
        ),
        ({}, USUAL),
        (list_models({"id": "other", "max_model_len": 8192}), USUAL),
        (list_models({"id": "m", "max_model_len": "8192"}), USUAL),
        (list_models({"id": "m", "max_model_len": -1}), USUAL),
        (list_models({"id": "m", "max_model_len": 10**30}), USUAL),
        (list_models({"id": "m", "max_model_len": 8192, "about": "x" * (8 << 20)}), USUAL),
        ({"/v1/models": [{"id": "m"}], "/props": {"default_generation_settings": 1}}, USUAL),
        ({"/v1/models": {"data": ["m"]}, "/props": "n_ctx"}, USUAL),
    ],
)
def test_the_window_that_a_service_reports(pages: dict[str, Any], expected: int) -> None:
    async def scenario() -> None:
        async with provider() as service, httpx2.AsyncClient() as client:
            service.pages = pages
            base_url = f"{service.url}/v1"
            assert get_window("openai:m", base_url) == USUAL
            await ask_window(client, base_url, "m", "k")
            assert get_window("openai:m", base_url) == expected
            assert get_window("openai:m", None) == USUAL
            assert get_window("anthropic:m", base_url) == 200_000

    run(scenario())


def test_a_service_that_is_not_there_has_the_usual_window() -> None:
    async def scenario() -> None:
        async with provider() as service:
            base_url = f"{service.url}/v1"
        async with httpx2.AsyncClient() as client:
            await ask_window(client, base_url, "gone", "k")
        assert get_window("openai:gone", base_url) == USUAL

    asyncio.run(scenario())


def test_a_service_that_answers_slowly_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each piece comes in time, but the answer never ends."""
    monkeypatch.setattr(windows, "_TIMEOUT", 0.2)

    async def drip() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.01)

    async def scenario() -> None:
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=drip()))
        async with httpx2.AsyncClient(transport=transport) as client, asyncio.timeout(60):
            await ask_window(client, "http://slow.test/v1", "m", "k")
        assert get_window("openai:m", "http://slow.test/v1") == USUAL

    asyncio.run(scenario())


@pytest.mark.spec("agent-settings", "context-stats")
def test_a_conversation_is_compacted_within_the_window_of_the_service(tmp_path: Path) -> None:
    async def scenario() -> None:
        answers = [chat_answer(text) for text in ("one", "a summary", "two", "three")]
        async with provider(*answers) as service:
            service.pages = list_models({"id": "small", "max_model_len": 8192})
            config = {"base_url": f"{service.url}/v1"}
            async with open_agent_session(tmp_path, Time(), **config) as opened:
                room: AgentSession = await opened(model="openai:small")
                await room.send("word " * 7000)
                await room.send("and now?")
                turns = room.turns()
                windows = {turn["context_window"] for turn in turns if turn["role"] != "user"}
                assert windows == {8192}
                assert [turn["kind"] for turn in turns].count("compaction") == 1
                stats = build_context_stats(room.services, await room.state())
                assert stats.context_window == 8192
                await room.send("go on", settings={"context_window": 50_000})
                assert room.turns()[-1]["context_window"] == 50_000

    run(scenario())
