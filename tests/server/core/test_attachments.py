"""Files of messages: into the workspace, the log, the export, and to the model in its own form."""

import asyncio
import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.agent_session import ENV, AgentSession, Time, open_agent_session, run
from helpers.server.fake_provider import (
    Provider,
    anthropic_answer,
    chat_answer,
    provider,
    response_answer,
)
from helpers.server.rest_server import RestServer
from open_token.server.config import Limits
from open_token.server.errors import ApiError

Json = dict[str, Any]

PNG = b"\x89PNG\r\n\x1a\n-picture"
PDF = b"%PDF-1.7 document"
CSV = b"name,price\ntea,3\n"


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def build_files() -> list[Json]:
    """A text between a table, a picture and a document."""
    return [
        {"type": "file", "name": "prices.csv", "data": encode(CSV)},
        {"type": "text", "text": "Compare these."},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encode(PNG)}"}},
        {"type": "file", "file": {"filename": "offer.pdf", "file_data": encode(PDF)}},
    ]


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A server whose demo model does not wait, with small limits."""
    limits = Limits(requests_per_minute=1_000_000, attachment_bytes=1000)
    server = RestServer(tmp_path / "data", env=ENV, limits=limits)
    yield server
    server.close()


def send(rest: RestServer, session_id: str, message: Any, **more: Any) -> Json:
    sent: Json = rest.post(f"/api/sessions/{session_id}/messages", {"message": message, **more})
    return sent


def read_file(rest: RestServer, session_id: str, path: str) -> bytes:
    return rest.call("GET", f"/api/sessions/{session_id}/files/{path}").content


async def send_to(
    tmp_path: Path, answers: list[str], model: str, message: Any, **config: Any
) -> Provider:
    """Send a message to a model of a provider on the loopback, and another one after it."""
    async with provider(*answers) as result:
        env = {**ENV, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
        env |= {"ANTHROPIC_BASE_URL": result.url, "OPENAI_BASE_URL": f"{result.url}/v1"}
        if config.pop("is_local", False):
            config["base_url"] = f"{result.url}/v1"
        async with open_agent_session(tmp_path, Time(), **config) as open_room:
            room: AgentSession = await open_room(model=model)
            room.services.env = env
            await room.send(message)
            await room.send("And now?")
            await room.check()
        return result


@pytest.mark.spec("attachments")
def test_inline_files_land_in_the_workspace_and_in_the_log(rest: RestServer) -> None:
    session_id = rest.session()
    outcome = send(rest, session_id, build_files())
    assert outcome["status"] == "completed"
    blocks = outcome["turns"][0]["blocks"]
    assert [block["content"] for block in blocks] == [
        "[file: attachments/prices.csv]",
        "Compare these.",
        "[file: attachments/file.png]",
        "[file: attachments/offer.pdf]",
    ]
    for name, data in (("prices.csv", CSV), ("file.png", PNG), ("offer.pdf", PDF)):
        assert read_file(rest, session_id, f"attachments/{name}") == data
    # Neither the log nor what clients are sent has the content.
    entries = json.dumps([entry.data for entry in rest.entries(session_id)])
    for data in (CSV, PNG, PDF):
        assert encode(data) not in entries


def test_a_file_is_uploaded_first_and_then_named(rest: RestServer) -> None:
    session_id = rest.session()
    form = {"files": ("offer.pdf", io.BytesIO(PDF))}
    uploaded = rest.call("POST", f"/api/sessions/{session_id}/upload/in", files=form).json()
    assert uploaded["uploaded"] == ["in/offer.pdf"]
    outcome = send(rest, session_id, [{"type": "file", "path": "in/offer.pdf"}])
    assert "in/offer.pdf (application/pdf, 17 bytes)" in outcome["text"]
    assert rest.get(f"/api/sessions/{session_id}/ls/")[0]["name"] == "in"


def test_the_export_has_the_files_that_were_sent(rest: RestServer) -> None:
    session_id = rest.session()
    send(rest, session_id, build_files())
    # What becomes of the file later is another matter.
    rest.put(f"/api/sessions/{session_id}/files/attachments/prices.csv", {"content": "changed"})
    document = rest.get(f"/api/sessions/{session_id}/export?format=json")
    media = []
    for event in document["events"]:
        data = event["content"].get("data")
        if isinstance(data, list):
            media += [(part["type"], part["media_type"], part["base64"]) for part in data]
    assert media == [
        ("file", "text/csv", encode(CSV)),
        ("image", "image/png", encode(PNG)),
        ("file", "application/pdf", encode(PDF)),
    ]
    bundle = rest.call("GET", f"/api/sessions/{session_id}/export").content
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        assert archive.read("workspace/attachments/offer.pdf") == PDF


def test_the_same_name_for_another_file_and_the_same_file_again(rest: RestServer) -> None:
    session_id = rest.session()
    for data in (b"one", b"two", b"two", b"one"):
        send(rest, session_id, [{"type": "file", "name": "a.txt", "data": encode(data)}])
    listed = rest.get(f"/api/sessions/{session_id}/ls/attachments")
    assert {read_file(rest, session_id, entry["path"]) for entry in listed} == {b"one", b"two"}
    assert len(listed) == 2


def test_a_message_that_is_sent_twice_stores_its_files_once(rest: RestServer) -> None:
    session_id = rest.session()
    part = {"type": "file", "name": "a.txt", "data": encode(b"one")}
    first = send(rest, session_id, [part], client_message_id="order-1")
    rest.put(f"/api/sessions/{session_id}/files/attachments/a.txt", {"content": "changed"})
    assert send(rest, session_id, [part], client_message_id="order-1") == first
    assert len(rest.get(f"/api/sessions/{session_id}/ls/attachments")) == 1


@pytest.mark.parametrize(
    ("part", "status", "code"),
    [
        ({"data": encode(b"PK\x03\x04\xff\xfe")}, 422, "unsupported_attachment"),
        ({"data": encode(b"x" * 1001)}, 413, "too_large"),
        ({"data": "no base64"}, 422, "bad_attachment"),
        ({"data": "data:text/plain,plain"}, 422, "bad_attachment"),
        ({"data": encode(b"x"), "sha256": "0" * 64}, 422, "bad_attachment"),
        ({"path": "missing.txt"}, 404, "not_found"),
        ({"path": "../outside"}, 400, "bad_path"),
        ({"name": "a.txt"}, 422, "bad_request"),
        ({"sha256": "0" * 64}, 422, "bad_attachment"),
        ({"name": "a.txt", "data": encode(b"x"), "path": "b.txt"}, 422, "bad_request"),
        ({"url": "https://example.org/a.pdf"}, 422, "bad_request"),
        ({"data": encode(b"x"), "colour": "red"}, 422, "bad_request"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused(
    rest: RestServer, part: Json, status: int, code: str
) -> None:
    session_id = rest.session()
    message = [{"type": "text", "text": "Look"}, {"type": "file", **part}]
    answer = rest.call("POST", f"/api/sessions/{session_id}/messages", {"message": message})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert rest.get(f"/api/sessions/{session_id}/messages") == []
    assert rest.get(f"/api/sessions/{session_id}/ls/") == []


def test_the_limit_holds_for_all_files_of_a_message(rest: RestServer) -> None:
    session_id = rest.session()
    parts = [{"type": "file", "name": f"{n}.txt", "data": encode(b"x" * 600)} for n in range(2)]
    send(rest, session_id, parts[:1])
    assert rest.refused("POST", f"/api/sessions/{session_id}/messages", {"message": parts}) == 413


def test_files_of_a_message_that_waits_reach_the_model(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path, Time()) as open_room:
            room: AgentSession = await open_room()
            await room.send("long", wait=False)
            part = {"type": "file", "name": "a.csv", "data": encode(CSV)}
            acknowledged = await room.send([part], wait=False)
            assert acknowledged["queued"]
            await room.rest()
            assert "attachments/a.csv (text/csv, 17 bytes)" in room.texts()[-1]
            await room.check()

    run(scenario())


@pytest.mark.spec("attachments")
def test_anthropic_is_sent_text_image_and_document_in_order(tmp_path: Path) -> None:
    result = asyncio.run(
        send_to(
            tmp_path, [anthropic_answer("Seen.")] * 2, "anthropic:claude-sonnet-4-5", build_files()
        )
    )
    for _, _, body in result.asked:
        content = body["messages"][0]["content"]
        kinds = [part["type"] for part in content]
        assert kinds == ["text", "text", "text", "image", "text", "document"]
        assert "attachments/prices.csv" in content[0]["text"]
        assert CSV.decode() in content[0]["text"]
        assert content[1]["text"] == "Compare these."
        assert content[3]["source"] == {
            "type": "base64",
            "media_type": "image/png",
            "data": encode(PNG),
        }
        assert content[5]["source"]["media_type"] == "application/pdf"
        assert content[5]["source"]["data"] == encode(PDF)


@pytest.mark.spec("attachments")
def test_openai_is_sent_text_image_and_file_in_order(tmp_path: Path) -> None:
    result = asyncio.run(send_to(tmp_path, [response_answer()] * 2, "openai:gpt-5", build_files()))
    content = result.asked[0][2]["input"][1]["content"]
    kinds = [part["type"] for part in content]
    assert kinds[-4:] == ["input_text", "input_image", "input_text", "input_file"]
    assert CSV.decode() in content[0]["text"]
    image = next(part for part in content if part["type"] == "input_image")
    assert image["image_url"] == f"data:image/png;base64,{encode(PNG)}"
    assert content[-1]["file_data"] == f"data:application/pdf;base64,{encode(PDF)}"


def test_a_compatible_service_gets_images_and_with_a_setting_documents(tmp_path: Path) -> None:
    image = build_files()[1:3]
    result = asyncio.run(
        send_to(tmp_path / "a", [chat_answer("Yes.")] * 2, "openai:qwen", image, is_local=True)
    )
    content = result.asked[0][2]["messages"][1]["content"]
    assert [part["type"] for part in content] == ["text", "text", "image_url"]
    with pytest.raises(ApiError, match="takes no PDF documents"):
        asyncio.run(send_to(tmp_path / "b", [], "openai:qwen", build_files(), is_local=True))


def test_a_model_that_takes_no_images_is_told_of_earlier_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with provider(chat_answer("One."), chat_answer("Two.")) as result:
            config = {"base_url": f"{result.url}/v1"}
            async with open_agent_session(tmp_path, Time(), **config) as open_room:
                room: AgentSession = await open_room(model="openai:qwen")
                await room.send(build_files()[1:3])
                await room.send("And now?", settings={"accepts": []})
                with pytest.raises(ApiError, match="takes no images"):
                    await room.send(build_files()[1:3], settings={"accepts": []})
                link = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
                with pytest.raises(ApiError, match="takes no images"):
                    await room.send([link], settings={"accepts": []})
        second = json.dumps(result.asked[1][2]["messages"])
        assert encode(PNG) not in second
        assert "attachments/file.png, image/png, 16 bytes, not shown" in second

    run(scenario())


def test_an_image_that_the_provider_would_refuse_is_refused_here(tmp_path: Path) -> None:
    big = PNG + b"x" * (4 << 20)
    message = [{"type": "file", "name": "photo.png", "data": encode(big)}]
    with pytest.raises(ApiError, match="images of at most") as refused:
        asyncio.run(send_to(tmp_path, [], "anthropic:claude-sonnet-4-5", message))
    assert refused.value.status == 413


def test_the_middle_of_a_long_text_is_left_to_the_tools(tmp_path: Path) -> None:
    long = "\n".join(f"line {number}" for number in range(20_000)).encode()
    message = [{"type": "file", "name": "log.txt", "data": encode(long)}]
    result = asyncio.run(
        send_to(tmp_path, [chat_answer("Read.")] * 2, "openai:qwen", message, is_local=True)
    )
    text = json.dumps(result.asked[0][2]["messages"][1])
    assert len(text) < 40_000
    assert "line 19999" in text
    assert "characters omitted" in text
