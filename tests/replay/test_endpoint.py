"""The provider on loopback: all protocols, streaming, and misbehaving clients."""

import contextlib
import gzip
import json
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from helpers.replay_clients import WIRES, connect, over_http, played, post
from open_token.api import export
from open_token.errors import OpenTokenError
from open_token.replay import endpoint as module
from open_token.replay.endpoint import Endpoint
from open_token.replay.player import ReplayRules, ReplaySession, Verdict
from open_token.replay.recording import build_recording
from open_token.replay.report import build_report

EXAMPLES = sorted((ROOT / "examples").glob("*.json*"))
SESSION = ROOT / "examples" / "openai_chat.json"
HELLO = {
    "model": "m",
    "messages": [{"role": "user", "content": "Hello"}],
    "tools": [{"function": {"name": "x"}}],
}
PLAIN = {"content-type": "application/json"}


@cache
def read_session() -> Any:
    return export(SESSION, redact="none")


@contextlib.contextmanager
def listening(conversation: Any, rules: ReplayRules | None = None) -> Iterator[Endpoint]:
    verdicts: list[Verdict] = []
    endpoint = Endpoint(
        ReplaySession(build_recording(conversation), rules or ReplayRules()), 0, verdicts.append
    )
    with endpoint.serving(0.01):
        yield endpoint


@pytest.fixture
def url() -> Iterator[str]:
    with listening(read_session()) as endpoint:
        yield endpoint.url


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_recorded_agent_gets_every_answer_in_turn(path: Path, wire: str, stream: bool) -> None:
    conversation = export(path, redact="none")
    with listening(conversation) as endpoint:
        assert played(over_http(endpoint.url), conversation, wire, stream=stream) == 0
        if path.stem != "open_token":
            assert endpoint.finished.wait(60)
        report = build_report(endpoint.session, str)
    subagents = {"open_token": 2}.get(path.stem, 0)
    assert (report.missed, report.repeated, report.aside) == (0, 0, 0)
    assert report.served == report.steps - subagents
    assert report.is_same == (not subagents)


@pytest.mark.parametrize("path", [wire.request([], [], False)[0] for wire in WIRES.values()])
def test_a_miss_is_an_error_in_the_form_of_its_protocol(path: str, url: str) -> None:
    tools = {"tools": [{"name": "x", "functionDeclarations": [{"name": "x"}]}]}
    asked = {
        "messages": [{"role": "user", "content": "Hi"}],
        "contents": [{"parts": [{"text": "Hi"}]}],
        "input": "Hi",
    }
    status, body = post(url, path, {**asked, **tools})
    assert status == 400
    result = json.loads(body)
    assert "expected step 1 of 4" in result["error"]["message"]
    assert "Gull Rock" not in body.decode()
    if "messages" in path:
        assert result["type"] == "error"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:80"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Host": "localhost:1"}, 400),
        ({"Host": "[::1]:99"}, 400),
        ({"Origin": "http://127.0.0.1:5000"}, 400),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "x"}, 400),
        ({"Content-Length": "99999999999"}, 413),
        ({"Content-Encoding": "br"}, 415),
        ({"Content-Encoding": "gzip"}, 400),
    ],
)
def test_who_may_ask_and_how(headers: dict[str, str], status: int, url: str) -> None:
    connection, base = connect(url)
    data = json.dumps(HELLO).encode()
    own = {name.lower() for name in headers}
    connection.putrequest(
        "POST", f"{base}/v1/chat/completions", skip_host="host" in own, skip_accept_encoding=True
    )
    for name, value in {
        **({} if "content-length" in own else {"Content-Length": str(len(data))}),
        **headers,
    }.items():
        connection.putheader(name, value)
    connection.endheaders(data)
    assert connection.getresponse().status == status
    connection.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"messages":' * 50_000,
        b"{}",
        b'{"messages": 3}',
    ],
)
@pytest.mark.parametrize("path", [wire.request([], [], True)[0] for wire in WIRES.values()])
def test_rubbish_is_refused_and_never_fatal(path: str, body: bytes, url: str) -> None:
    assert post(url, path, body)[0] in (200, 400)
    assert post(url, "/v1/chat/completions", HELLO)[0] == 400


def test_wrong_types_in_every_place(url: str) -> None:
    wrong: list[Any] = [None, 1, "x", [], {}, [None], [1], [[]], [{}], {"a": 1}, True]
    names = [
        "messages",
        "input",
        "contents",
        "tools",
        "system",
        "model",
        "generationConfig",
        "response_format",
        "text",
    ]
    names += ["max_tokens", "stream_options", "systemInstruction", "output_config"]
    inner = [
        "content",
        "parts",
        "role",
        "tool_calls",
        "type",
        "arguments",
        "function",
        "functionCall",
        "call_id",
    ]
    for value in wrong:
        for wire in WIRES.values():
            body = dict.fromkeys(names, value)
            assert post(url, wire.request([], [], False)[0], body)[0] in (200, 400)
            deep = {
                name: [{**dict.fromkeys(inner, value), "role": "assistant"}, {"parts": value}]
                for name in names
            }
            assert post(url, wire.request([], [], False)[0], deep)[0] in (200, 400)


def test_a_body_in_chunks_and_in_gzip(url: str) -> None:
    data = json.dumps(HELLO).encode()
    packed = gzip.compress(data)
    assert (
        post(url, "/v1/chat/completions", packed, {**PLAIN, "Content-Encoding": "gzip"})[0] == 400
    )
    connection, base = connect(url)
    connection.request(
        "POST",
        f"{base}/v1/chat/completions",
        iter([data[:9], data[9:]]),
        PLAIN,
        encode_chunked=True,
    )
    answer = json.loads(connection.getresponse().read())
    assert answer["error"]["code"] == "replay_miss"
    connection.close()


def test_what_unpacks_to_too_much(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REQUEST_BYTES", 10_000)
    bomb = gzip.compress(b" " * 1_000_000)
    assert post(url, "/v1/chat/completions", bomb, {**PLAIN, "Content-Encoding": "gzip"})[0] == 413
    assert post(url, "/v1/chat/completions", b" " * 10_001)[0] == 413


def test_other_questions(url: str) -> None:
    assert post(url, "/v1/messages/count_tokens?beta=true", {})[1] == b'{"input_tokens":1}'
    assert post(url, "/v1beta/models/m:countTokens", {})[1] == b'{"totalTokens":1}'
    assert post(url, "/api/event_logging", {})[:2] == (200, b"{}")
    connection, base = connect(url)
    connection.request("HEAD", "/")
    assert connection.getresponse().status == 200
    connection.close()
    connection.request("GET", f"{base}/v1/models")
    assert connection.getresponse().status == 404
    connection.close()


def test_only_so_many_connections_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    with listening(read_session()) as endpoint:
        address = ("127.0.0.1", endpoint.server_address[1])
        waiting = [socket.create_connection(address, 60) for _ in range(2)]
        late = socket.create_connection(address, 60)
        assert late.recv(1) == b""
        for connection in (*waiting, late):
            connection.close()


def test_a_connection_that_lasts_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTION_SECONDS", 0.0)
    with listening(read_session()) as endpoint:
        connection = socket.create_connection(("127.0.0.1", endpoint.server_address[1]), 60)
        assert connection.recv(1) == b""
        connection.close()


def test_a_port_that_is_taken() -> None:
    run = ReplaySession(build_recording(read_session()), ReplayRules())
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OpenTokenError, match="cannot listen on port"),
    ):
        Endpoint(run, taken.getsockname()[1], lambda _: None)


def test_endpoint_listens_on_loopback_only() -> None:
    with listening(read_session()) as endpoint:
        assert endpoint.socket.getsockname()[0] == "127.0.0.1"
        assert endpoint.url.startswith(f"http://127.0.0.1:{endpoint.server_address[1]}/")


def test_who_does_not_know_the_token_reads_nothing() -> None:
    conversation = read_session()
    with listening(conversation) as endpoint, listening(conversation) as other:
        address, _, token = endpoint.url.rpartition("/")
        assert len(token) == 32
        assert not other.url.endswith(token)
        for base in (address, f"{address}/", f"{address}/{token[:-1]}", f"{address}/{token}x"):
            for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
                status, body = post(base, path, HELLO)
                assert status == 403
                assert b"with its token" in body
        assert endpoint.session.verdicts == []
