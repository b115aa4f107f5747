"""What both dialects send has the shapes of the specification: live, and after a restart."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.live_events import run
from helpers.server.socket_server import Client
from helpers.server.strict_types import (
    find_event_faults,
    find_patch_faults,
    find_session_faults,
    find_turn_faults,
)
from open_token.server import listener
from open_token.server.agent.models import demo
from open_token.server.config import ServerConfig

MESSAGES: tuple[dict[str, Any], ...] = (
    {"message": "think, list files, a card, the bridge, a plan; remember green tea"},
    {"message": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": "https://x"}]},
    {"message": "subagent list files"},
    {"message": "ask"},
    {"askuser_answer": {"selections": {"0": [1]}}},
    {"message": "how?", "mode": "planning"},
    {"message": "do it", "mode": "executing"},
    {"message": "fail"},
    {"message": "hello"},
)


def test_the_validator_finds_faults() -> None:
    patch = {"session_id": "s", "sequence": 1, "turn_id": "t", "loop_id": "root"}
    call = {"id": "c", "tool_name": "T", "display_name": "T", "status": "pending"}
    empty = {**patch, "patch_type": "add_tool_call", "data": {**call, "arguments": ""}}
    assert list(find_patch_faults(empty)) == ["call.arguments is no JSON: ''"]
    block = {"type": "text", "content": [{"type": "text", "text": "a"}]}
    assert list(find_patch_faults({**patch, "patch_type": "add_content", "data": block})) == [
        "block text holds list"
    ]


async def send_all(client: Client, session_id: str) -> list[tuple[str, Any]]:
    heard: list[tuple[str, Any]] = []
    for message in MESSAGES:
        client.events.clear()
        sent = {"session_id": session_id, "message": "", **message}
        ack = await client.io.call("chat:send", sent)
        assert ack["status"] == "ok", ack
        await client.first("chat:end")
        await asyncio.sleep(0.05)  # the session follows the end of the run
        heard += client.events
    return heard


@pytest.mark.spec("turn-events")
def test_every_shape_in_both_dialects_live_and_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = ServerConfig(data=tmp_path, port=0)
        async with listener.run_server(config, {demo.DELAY: "0"}) as server:
            key = server.first_key or ""
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx2.AsyncClient(base_url=server.address, headers=headers) as http:
                session_id = (await http.post("/api/sessions", json={})).json()["session_id"]
            async with Client(server.address, key) as client, Client(server.address, key) as raw:
                await client.subscribe(session_id)
                await raw.subscribe(session_id, event_format="raw", after_sequence=0)
                heard = await send_all(client, session_id)
                live = [(item["type"], item["payload"]) for item in raw.items()]
        statuses = [payload["status"] for name, payload in heard if name == "session:updated"]
        assert {"running", "completed", "failed", "waiting_for_input"} <= set(statuses)
        async with listener.run_server(config, {demo.DELAY: "0"}) as server:
            async with httpx2.AsyncClient(base_url=server.address, headers=headers) as http:
                turns = (await http.get(f"/api/sessions/{session_id}/messages")).json()
                session = (await http.get(f"/api/sessions/{session_id}")).json()
            async with Client(server.address, key) as again:
                await again.subscribe(session_id, event_format="raw", after_sequence=0, resume=True)
                last = session.get("stream_sequence") or len(live)
                await again.until(lambda: again.mirror.seen >= last)
                later = [(item["type"], item["payload"]) for item in again.items()]
        faults = [fault for turn in turns for fault in find_turn_faults(turn)]
        faults += find_session_faults(session)
        for name, payload in [*heard, *live, *later]:
            faults += [f"{name}: {fault}" for fault in find_event_faults(name, payload)]
        assert faults == []
        kinds = {payload["patch_type"] for name, payload in live if name == "turn:patch"}
        assert {"add_content", "add_tool_call", "tool_result", "set_status"} <= kinds
        for events in (heard, live, later):
            assert any(name == "turn:patch" for name, _ in events)

    run(scenario())
