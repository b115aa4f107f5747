"""Around every request: headers, a line without content, figures, no traceback."""

import asyncio
import logging
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.http.middleware import RequestLog
from open_token.server.metrics import Metrics


def fields(record: logging.LogRecord) -> dict[str, Any]:
    return dict(record.__dict__["fields"])


def test_a_line_for_each_request_without_what_it_held(
    rest: RestServer, caplog: pytest.LogCaptureFixture
) -> None:
    name = rest.session()
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    with caplog.at_level(logging.INFO, logger="open_token.server"):
        rest.get(f"/api/share/{token}?q=words", key=None)
        rest.patch(f"/api/sessions/{name}", {"intent": "secret words"})
        rest.get(f"/api/sessions/{name}/messages")
        rest.call("GET", "/nowhere/at/all", key=None)
    result = [fields(record) for record in caplog.records]
    assert [(line["method"], line["route"], line["status"]) for line in result] == [
        ("GET", "/api/share/{token}", 200),
        ("PATCH", "/api/sessions/{session_id}", 200),
        ("GET", "/api/sessions/{session_id}/messages", 200),
        ("GET", "", 404),
    ]
    assert [line.get("user") for line in result] == [None, rest.owner, rest.owner, None]
    text = repr([record.__dict__ for record in caplog.records])
    for content in (token, name, "words", "nowhere", rest.key):
        assert content not in text


def test_security_headers_stand_on_every_answer(rest: RestServer) -> None:
    for path in ("/api/version", "/nowhere", "/api/sessions"):
        headers = rest.call("GET", path, key=None).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"


def test_what_breaks_inside_is_a_plain_500(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("somebody's words")

    result: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        result.append(message)

    metrics = Metrics()
    asyncio.run(
        RequestLog(breaks, metrics)({"type": "http", "method": "BREW", "path": "/x"}, None, send)
    )
    assert result[0]["status"] == 500
    assert b"somebody" not in result[1]["body"]
    assert "somebody" not in repr([record.__dict__ for record in caplog.records])
    assert fields(caplog.records[0])["error"] == "ValueError"
    assert 'method="OTHER",route="",status="500"' in metrics.render()
