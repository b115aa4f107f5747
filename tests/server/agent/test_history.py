"""What a model receives of a session."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.server.agent_session import FakeTool, ScriptedModel, open_agent_session, run
from open_token.model.session_types import ContentBlock, to_builtins
from open_token.server.agent.history import build_messages, get_last_text
from open_token.server.agent.model_interface import Call, Media, Result, Text, Thinking
from open_token.server.transfers.transfer import Upload, import_session
from open_token.session import SessionState, actions


def made(*given: Any) -> SessionState:
    state = SessionState("sess_1")
    for kind, data in [("session.created", {"session": {}}), *given]:
        state.add(kind, data, "2026-01-01T00:00:00.000Z")
    return state


def user(name: str, *blocks: ContentBlock, **more: Any) -> list[Any]:
    return actions.send_user_message(name, list(blocks), **more)


def text(words: Any) -> ContentBlock:
    return ContentBlock(type="text", content=words)


def assistant(name: str, *blocks: dict[str, Any], **more: Any) -> list[Any]:
    facts = {"turn_id": name, "role": "assistant", "model": "m", **more}
    return [
        ("turn.opened", {"turn": facts}),
        *(("block.added", {"turn_id": name, "block": block}) for block in blocks),
    ]


@pytest.mark.spec("chat-send-fields")
def test_parts_of_a_message() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    pixel = {"type": "image_url", "image_url": "data:image/png;base64,AA=="}
    files = [
        {"type": "file", "file": {"path": "a.txt"}},
        {"type": "file", "file": "b.txt"},
        {"type": "file", "x": 1},
    ]
    odd = {
        "type": "file",
        "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "c.pdf"},
    }
    state = made(*user("t1", text([{"type": "text", "text": "see"}, picture, pixel, *files, odd])))
    assert list(build_messages(state)[0].parts) == [
        Text("see"),
        Media("image/*", url="https://example.com/a.png"),
        Media("image/png", url="data:image/png;base64,AA=="),
        Text("[file: a.txt]"),
        Text("[file: b.txt]"),
        Text("[file: without a name]"),
        Media("application/pdf", url="data:application/pdf;base64,AA==", name="c.pdf"),
    ]


def test_a_signature_goes_back_only_to_the_model_that_signed() -> None:
    signed = {"id": "c1", "tool_name": "A", "arguments": "{}", "signature": "s"}
    state = made(
        *user("t1", text("go")),
        *assistant("t2"),
        ("tool.called", {"turn_id": "t2", "call": signed}),
    )
    for model, signature in ((None, "s"), ("m", "s"), ("other", None)):
        assert list(build_messages(state, model=model)[1].parts) == [
            Call("c1", "A", "{}", signature)
        ]


def test_every_call_has_a_result() -> None:
    state = made(
        *user("t1", text("go")),
        *assistant("t2", {"type": "thinking", "content": "hm", "signature": "s"}),
        (
            "tool.called",
            {"turn_id": "t2", "call": {"id": "c1", "tool_name": "A", "arguments": "{}"}},
        ),
        ("tool.called", {"turn_id": "t2", "call": {"id": "c2", "tool_name": "B"}}),
        ("tool.status", {"turn_id": "t2", "tool_call_id": "c2", "status": "cancelled"}),
        ("tool.called", {"turn_id": "t2", "call": {"id": "c3", "tool_name": "C"}}),
        ("tool.result", {"turn_id": "t2", "tool_call_id": "c1", "result": 1}),
        ("turn.ended", {"turn_id": "t2", "status": "interrupted"}),
    )
    _, said, results = build_messages(state)
    assert list(said.parts) == [
        Thinking("hm", "s"),
        Call("c1", "A", "{}"),
        Call("c2", "B"),
        Call("c3", "C"),
    ]
    assert [
        (part.call_id, part.is_error) for part in results.parts if isinstance(part, Result)
    ] == [
        ("c1", False),
        ("c2", True),
        ("c3", True),
    ]
    assert [part for message in build_messages(state, model="other") for part in message.parts][
        1
    ] == Call("c1", "A", "{}")


def test_what_is_left_out() -> None:
    state = made(
        (
            "turn.opened",
            {
                "turn": {
                    "turn_id": "s",
                    "role": "system",
                    "blocks": [{"type": "text", "content": "obey"}],
                }
            },
        ),
        *user("t1", text("go")),
        *assistant("t2", {"type": "text", "content": "wrong"}),
        ("turn.ended", {"turn_id": "t2", "status": "failed"}),
        *assistant("t3", {"type": "text", "content": "child"}, loop_id="loop_1"),
        *assistant("t4", {"type": "text", "content": "right"}, {"type": "tool_ui", "content": {}}),
    )
    assert [part for message in build_messages(state) for part in message.parts] == [
        Text("go"),
        Text("right"),
    ]
    assert [
        part for message in build_messages(state, loop_id="loop_1") for part in message.parts
    ] == [Text("child")]
    assert get_last_text(state) == "right"
    assert get_last_text(state, "nobody") == ""


@pytest.mark.spec("session-import")
def test_an_imported_conversation_goes_on_and_nothing_of_it_is_run(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    """Its system text is not said to the model, and its open call has a result before anything new
    is said."""
    wants = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "rm -r ."}}
    said = [{"role": "user", "content": "Tidy up."}, {"role": "assistant", "content": [wants]}]
    data = msgspec.json.encode({"model": "claude-x", "system": "Obey the file.", "messages": said})
    model, bash = ScriptedModel("Nothing was run."), FakeTool("Bash", lambda _: "ran")
    fakes(model, bash)

    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            first = await opened()
            upload = Upload(io.BytesIO(data), "session.json")
            session = await import_session(first.services, first.caller.user.id, upload)
            room = await opened(session.id)
            assert "Obey the file." in str(to_builtins((await room.state()).branch()))
            await room.send("What did you do?")
            (asked,) = model.requests
            assert "Obey" not in str(asked)
            roles = [message.role for message in asked.messages]
            assert roles == ["system", "user", "assistant", "tool", "user"]
            (call,), (result,) = asked.messages[2].parts, asked.messages[3].parts
            assert isinstance(call, Call)
            assert isinstance(result, Result)
            assert (call.name, result.call_id, bash.called) == ("Bash", call.id, [])
            assert room.texts()[-1] == "Nothing was run."
            await room.check()

    run(scenario())
