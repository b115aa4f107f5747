"""A model that plays the model's side of an Open-Token file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.server.agent_session import FakeTool, open_agent_session, run
from open_token.server.errors import ApiError


def document() -> str:
    def event(number: int, kind: str, **more: object) -> dict[str, object]:
        return {"id": f"evt_{number:06}", "seq": number, "type": kind, **more}

    call = {"tool_name": "Look", "arguments": {"where": "here"}}
    result = [
        event(1, "message", role="user", actor_id="act_001", content={"mime": "text/plain", "text": "hi"}),
        event(2, "message", role="assistant", actor_id="act_002", content={"mime": "text/plain", "text": "I look. "}),
        event(3, "tool_use", actor_id="act_002", links={"call_id": "call_000001"},
              content={"mime": "application/json", "data": call}),
        event(4, "tool_result", actor_id="act_003", links={"call_id": "call_000001"},
              content={"mime": "text/plain", "text": "old"}),
        event(5, "message", role="assistant", actor_id="act_002", content={"mime": "text/plain", "text": "Seen."}),
    ]  # fmt: skip
    people = [
        {"actor_id": f"act_00{n}", "kind": kind}
        for n, kind in enumerate(["human", "model", "tool"], 1)
    ]
    return json.dumps({
        "open_token_version": "0.1", "conversation": {"id": "conv_1"}, "participants": people, "events": result,
    })  # fmt: skip


def test_recorded_model_repeats_messages_and_calls(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    looks = FakeTool("Look", lambda _: "new")
    fakes(None, looks)
    (tmp_path / "recordings").mkdir(parents=True)
    (tmp_path / "recordings" / "session.json").write_text(document())

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened(model="recorded:session.json")
            await room.send("hello")
            assert looks.called == [{"where": "here"}]
            assert room.texts()[1:] == ["I look. ", "Seen."]
            assert room.turns()[1]["tool_calls"][0]["result"] == "new"
            await room.send("more")
            assert "ends here" in room.texts()[-1]
            await room.check()

    run(scenario())


@pytest.mark.spec("chat-send-fields")
def test_a_message_may_name_its_model(tmp_path: Path) -> None:
    (tmp_path / "recordings").mkdir(parents=True)
    (tmp_path / "recordings" / "session.json").write_text(document())

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened(model="demo")
            await room.send("json")
            await room.send("hello", model="recorded:session.json")
            await room.send("json")
            used = [turn["model"] for turn in room.turns() if turn["role"] == "assistant"]
            assert set(used[1:-1]) == {"recorded:session.json"}
            assert (used[0], used[-1]) == ("demo", "demo")
            result = [payload["model"] for name, payload in room.heard if name == "chat:start"]
            assert result == ["demo", "recorded:session.json", "demo"]

    run(scenario())


def test_a_recording_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            with pytest.raises(ApiError):
                await room.send("hi", model="nobody:session.json")
            await room.send("hi", model="recorded:none.json")
            assert room.mirror.session["status"] == "failed"
            assert "not a valid Open-Token file" in str(room.mirror.ended)

    run(scenario())
