"""Every event exactly once, however often a connection is lost; `make disconnects` does it a
thousand times."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.live_events import run
from longrun.disconnects import disconnects
from open_token.server.core.chat import Chat
from open_token.server.http import messages
from open_token.server.ws import sse


async def lost(folder: Path, rounds: int, seed: int) -> None:
    events, messages = await disconnects(folder, rounds, seed)
    assert events > 20
    assert messages


@pytest.mark.parametrize("seed", [1, 2])
def test_connections_that_are_lost_at_random(tmp_path: Path, seed: int) -> None:
    run(lost(tmp_path, 25, seed), 240)


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("route", [sse, messages])
def test_a_stream_that_resumes_at_the_wrong_event_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: Any, shift: int
) -> None:
    parse = route.parse_event_id
    monkeypatch.setattr(route, "parse_event_id", lambda text: max(0, parse(text) + shift))
    with pytest.raises(AssertionError, match="is missing or came twice"):
        run(lost(tmp_path, 40, 1), 240)


def test_a_message_that_is_taken_twice_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Chat.send

    async def send_twice(chat: Chat, caller: Any, payload: Any) -> Any:
        acknowledgement = await send(chat, caller, payload)
        await send(chat, caller, {"session_id": payload["session_id"], "message": "again"})
        return acknowledgement

    monkeypatch.setattr(Chat, "send", send_twice)
    with pytest.raises(AssertionError, match="a message was lost, or sent twice"):
        run(lost(tmp_path, 20, 1), 240)
