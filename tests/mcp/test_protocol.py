"""JSON-RPC: initialization, errors, and that no line ends the server."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.errors import InputError
from open_token.mcp.protocol import (
    MAX_LINE_BYTES,
    STATELESS_VERSION,
    VERSIONS,
    answer_line,
    serve,
)

PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": STATELESS_VERSION, f"{PREFIX}clientCapabilities": {}}


class Fake:
    """Two tools."""

    instructions = "Ask."

    def list_tools(self) -> list[dict[str, Any]]:
        return [{"name": "echo"}]

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any] | None:
        if name == "fail":
            raise InputError("it is broken", where="/secret/place", help="correct it")
        if name == "crash":
            raise RuntimeError("secret words")
        return {"said": given} if name == "echo" else None

    def list_resources(self) -> list[dict[str, Any]]:
        return [{"uri": "ui://one"}]

    def list_resource_templates(self) -> list[dict[str, Any]]:
        return []

    def read_resource(self, uri: str) -> dict[str, Any] | None:
        if uri == "crash":
            raise RuntimeError("secret words")
        if uri == "fail":
            raise InputError("it is broken", where="/secret/place", help="correct it")
        return {"uri": uri, "text": "page"} if uri == "ui://one" else None


def ask(method: Any, params: Any = None, **more: Any) -> Any:
    asked = (
        {"jsonrpc": "2.0", "id": 1, "method": method}
        | ({} if params is None else {"params": params})
        | more
    )
    return answer_line(json.dumps(asked).encode(), Fake())


def code(answer: Any) -> int:
    found: int = answer["error"]["code"]
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_supported_version_is_confirmed(version: str) -> None:
    answer = ask(
        "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x"}}
    )
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 1)
    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["serverInfo"]["name"] == "open-token"
    assert answer["result"]["capabilities"]["tools"] == {"listChanged": False}
    assert f"{PREFIX}ui" in answer["result"]["capabilities"]["extensions"]


@pytest.mark.parametrize("version", ["2024-11-05", "2099-01-01", 7, None])
def test_any_other_is_offered_the_newest(version: Any) -> None:
    assert (
        ask("initialize", {"protocolVersion": version})["result"]["protocolVersion"] == VERSIONS[0]
    )


def test_lists_calls_and_pings() -> None:
    assert ask("ping")["result"] == {}
    assert ask("tools/list", {})["result"] == {"tools": [{"name": "echo"}]}
    assert ask("tools/call", {"name": "echo", "arguments": {"a": 1}}, id="x") == {
        "jsonrpc": "2.0",
        "id": "x",
        "result": {
            "content": [{"type": "text", "text": '{"said":{"a":1}}'}],
            "isError": False,
            "structuredContent": {"said": {"a": 1}},
        },
    }


def test_errors_of_a_tool_are_reported_without_content() -> None:
    failed = ask("tools/call", {"name": "fail"})["result"]
    assert failed == {
        "content": [{"type": "text", "text": "it is broken\nhelp: correct it"}],
        "isError": True,
    }
    crashed = ask("tools/call", {"name": "crash"})["result"]
    assert crashed["isError"]
    assert "secret" not in json.dumps(crashed)


def test_invalid_requests_get_error_codes() -> None:
    assert code(answer_line(b"{", Fake())) == -32700
    assert code(answer_line(b"7", Fake())) == -32600
    assert code(answer_line(b"[]", Fake())) == -32600
    assert code(ask("ping", jsonrpc="1.0")) == -32600
    assert code(ask(7)) == -32600
    assert code(ask("ping", id=None)) == -32600
    assert code(ask("prompts/list")) == -32601
    assert code(ask("resources/read", {"uri": "ui://other"})) == -32002
    assert code(ask("resources/read", {"uri": 1})) == -32602
    assert code(ask("ping", [1])) == -32602
    assert code(ask("tools/call", {"name": "nothing"})) == -32602
    assert code(ask("tools/call", {"name": 1})) == -32602
    assert code(ask("tools/call", {"name": "echo", "arguments": [1]})) == -32602


def ask_stateless(method: str, **params: Any) -> Any:
    return ask(method, {**params, "_meta": META})


def test_versions_are_discovered_without_initialization() -> None:
    result = ask_stateless("server/discover")["result"]
    assert result["supportedVersions"] == [STATELESS_VERSION, *VERSIONS]
    assert result["resultType"] == "complete"
    assert result["instructions"] == "Ask."
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "open-token"


def test_stateless_results_say_how_long_they_hold() -> None:
    listed = ask_stateless("tools/list")["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert listed["ttlMs"] > 0
    read = ask_stateless("resources/read", uri="ui://one")["result"]
    assert read["contents"] == [{"uri": "ui://one", "text": "page"}]
    assert read["ttlMs"] == 0
    called = ask_stateless("tools/call", name="echo", arguments={"a": 1})["result"]
    assert called["structuredContent"] == {"said": {"a": 1}}
    assert "ttlMs" not in called
    # What was removed from this version is unknown in it.
    assert code(ask_stateless("ping")) == -32601
    assert code(ask_stateless("initialize")) == -32601
    assert code(ask_stateless("resources/read", uri="ui://other")) == -32602


def test_stateless_requests_describe_their_client() -> None:
    version = f"{PREFIX}protocolVersion"
    assert code(ask("server/discover")) == -32602
    assert code(ask("server/discover", {"_meta": {version: 7}})) == -32602
    assert code(ask("tools/list", {"_meta": {version: STATELESS_VERSION}})) == -32602
    newer = ask("tools/list", {"_meta": {**META, version: "2099-01-01"}})
    assert code(newer) == -32022
    assert newer["error"]["data"] == {
        "supported": [STATELESS_VERSION, *VERSIONS],
        "requested": "2099-01-01",
    }


def test_errors_of_a_resource_are_reported_without_content() -> None:
    failed = ask("resources/read", {"uri": "fail"})["error"]
    assert (failed["code"], failed["message"]) == (-32602, "it is broken\nhelp: correct it")
    assert "secret" not in json.dumps(ask("resources/read", {"uri": "crash"}))


def test_nobody_waits_for_an_answer_to_a_notification() -> None:
    assert answer_line(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', Fake()) is None
    assert answer_line(b'{"jsonrpc":"2.0","id":1,"result":{}}', Fake()) is None


def test_several_requests_in_one_line() -> None:
    asked = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in (1, 2)]
    output = [{"jsonrpc": "2.0", "method": "notifications/initialized"}]
    assert [
        answer["id"] for answer in answer_line(json.dumps(asked + output).encode(), Fake())
    ] == [
        1,
        2,
    ]
    assert answer_line(json.dumps(output).encode(), Fake()) is None
    assert code(answer_line(json.dumps(asked * 50).encode(), Fake())) == -32600


def test_lines_in_lines_out_until_the_end() -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    out = io.BytesIO()
    serve(
        io.BytesIO(b"\n".join([ping, b"", b"x" * (3 * MAX_LINE_BYTES), ping, b"\xff", ping])),
        out,
        Fake(),
    )
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer.get("error", {}).get("code", 0) for answer in answers] == [
        0,
        -32600,
        0,
        -32700,
        0,
    ]


@given(
    st.binary(max_size=200)
    | st.recursive(st.text() | st.integers(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_line_raises(line: bytes) -> None:
    json.dumps(answer_line(line, Fake()))
