"""Routes of shares: a token opens one session, for a time, without what is internal."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from helpers.server.server_client import ServerClient, run_with_server
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.server.clock import Clock


@pytest.fixture
def session_id(rest: RestServer) -> str:
    """A session in which somebody thought, called and remembered."""
    name = rest.session()
    rest.say(name, "hello")
    rest.write(
        name,
        [
            (
                "turn.opened",
                {
                    "turn": {
                        "turn_id": "turn_s",
                        "role": "system",
                        "status": "completed",
                        "blocks": [],
                    }
                },
            ),
            ("turn.opened", {"turn": {"turn_id": "turn_a", "role": "assistant", "odd": "inside"}}),
            ("thinking.delta", {"turn_id": "turn_a", "text": "secret thought"}),
            ("text.delta", {"turn_id": "turn_a", "text": "good day"}),
            (
                "memory.recalled",
                {"turn_id": "turn_a", "refs": [{"id": 1, "content_preview": "a preference"}]},
            ),
            ("turn.ended", {"turn_id": "turn_a"}),
        ],
    )
    return name


def view(rest: RestServer, session_id: str, **terms: Any) -> Any:
    token = rest.post(f"/api/sessions/{session_id}/share", terms)["token"]
    return rest.get(f"/api/share/{token}?details=true", key=None)


@pytest.mark.spec("share-create")
def test_a_token_opens_the_turns(rest: RestServer, session_id: str) -> None:
    made = rest.post(f"/api/sessions/{session_id}/share", {"ttl_seconds": 60})
    assert made["url"] == f"http://server.test/api/share/{made['token']}"
    assert made["expires_at"] > rest.services.clock.now()
    turns = rest.get(f"/api/share/{made['token']}", key=None)
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    seen = rest.get(f"/api/share/{made['token']}?details=true", key=None)
    assert seen["turns"] == turns
    assert seen["read_only"] is True
    assert rest.get(f"/api/sessions/{session_id}")["shared"] is True
    assert made.keys() == {"token", "url", "expires_at"}
    assert seen["expires_at"] == made["expires_at"]
    assert rest.post(f"/api/sessions/{session_id}/share")["expires_at"] is None


@pytest.mark.spec("share-read")
def test_shares_do_not_show_internal_turns(rest: RestServer, session_id: str) -> None:
    seen = str(view(rest, session_id))
    for hidden in ("secret thought", "a preference", "inside", rest.owner):
        assert hidden not in seen
    assert "good day" in seen


def test_thoughts_are_shown_when_that_was_said(rest: RestServer, session_id: str) -> None:
    seen = str(view(rest, session_id, include_thinking=True))
    assert "secret thought" in seen
    assert "a preference" not in seen
    seen = str(view(rest, session_id, include_internal=True))
    assert "secret thought" not in seen
    assert "a preference" in seen
    seen = str(view(rest, session_id, include_internal=True, include_thinking=True))
    assert "secret thought" in seen


@pytest.mark.spec("share-revoke")
def test_a_token_can_be_taken_back(rest: RestServer, session_id: str) -> None:
    place = f"/api/sessions/{session_id}/share"
    one, two = (rest.post(place)["token"] for _ in range(2))
    assert rest.delete(f"{place}/{one}") == {"revoked": True}
    assert rest.refused("GET", f"/api/share/{one}", key=None) == 404
    assert rest.refused("DELETE", f"{place}/{one}") == 404
    assert rest.get(f"/api/share/{two}", key=None)
    rest.patch(f"/api/sessions/{session_id}/sharing", {"shared": False})
    assert rest.refused("GET", f"/api/share/{two}", key=None) == 404


@pytest.mark.spec("share-read")
def test_only_the_owner_opens_and_closes(rest: RestServer, session_id: str) -> None:
    other, token = rest.person(), rest.post(f"/api/sessions/{session_id}/share")["token"]
    assert rest.refused("POST", f"/api/sessions/{session_id}/share", {}, key=other) == 404
    assert rest.refused("DELETE", f"/api/sessions/{session_id}/share/{token}", key=other) == 404
    assert rest.refused("POST", f"/api/sessions/{session_id}/share", {}, key=None) == 401
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert rest.refused(method, f"/api/share/{token}", {}, key=None) == 405
    assert rest.get(f"/api/share/{token}?details=true", key=None)


@pytest.mark.parametrize(
    "terms",
    [{"ttl_seconds": 0}, {"ttl_seconds": -5}, {"ttl_seconds": 1 << 60}, {"ttl_seconds": "x"}],
)
def test_wrong_times_are_refused(rest: RestServer, session_id: str, terms: object) -> None:
    assert rest.refused("POST", f"/api/sessions/{session_id}/share", terms) == 422


@pytest.mark.spec("share-read")
@pytest.mark.parametrize("token", ["x", "%00", "a" * 5000, "%F0%9F"])
def test_what_is_no_token_opens_nothing(rest: RestServer, token: str) -> None:
    assert rest.refused("GET", f"/api/share/{token}", key=None) == 404


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[RestServer]:
    server = RestServer(tmp_path / "closed", sharing=False)
    yield server
    server.close()


def test_a_server_may_have_no_shares(closed: RestServer) -> None:
    name = closed.session()
    assert closed.get("/api/config")["publicSharingEnabled"] is False
    assert closed.refused("POST", f"/api/sessions/{name}/share") == 403
    assert closed.refused("PATCH", f"/api/sessions/{name}/sharing", {"shared": True}) == 403


@pytest.mark.spec("share-create")
def test_a_share_ends_with_its_time(rest: RestServer, session_id: str) -> None:
    token = rest.post(f"/api/sessions/{session_id}/share", {"ttl_seconds": 60})["token"]
    rest.services.clock = Clock(moment=lambda: datetime.now(UTC) + timedelta(seconds=61))
    assert rest.refused("GET", f"/api/share/{token}", key=None) == 404


def test_secrets_are_masked_in_shares(rest: RestServer, session_id: str) -> None:
    token = fill_placeholders("ghp_{alnum:36}", "share")[0]
    rest.write(
        session_id,
        [
            ("turn.opened", {"turn": {"turn_id": "turn_b", "role": "assistant"}}),
            ("text.delta", {"turn_id": "turn_b", "text": f"use {token} or ask anna@tides.example"}),
            ("turn.ended", {"turn_id": "turn_b"}),
            ("session.changed", {"changes": {"intent": f"Try {token}"}}),
        ],
    )
    seen = view(rest, session_id)
    assert token not in str(seen)
    assert seen["session"]["intent"].startswith("Try [REDACTED:github_token:")
    assert "anna@tides.example" in str(seen)
    assert [turn["turn_id"] for turn in seen["turns"]][-1] == "turn_b"
    assert "anna@tides.example" not in str(view(rest, session_id, redact="pii"))
    assert token in str(view(rest, session_id, redact="none"))


def test_the_host_header_does_not_choose_where_a_token_is_sent(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        headers = {"host": "evil.example"}
        return (await ask("POST", "/api/sessions/sess_1/share", json={}, headers=headers)).json()

    assert run_with_server(tmp_path, test)["url"].startswith("http://server/api/share/")
    public = run_with_server(tmp_path / "b", test, public_url="https://agents.example")
    assert public["url"].startswith("https://agents.example/api/share/")


def test_a_browser_gets_a_page_with_what_a_share_shows(rest: RestServer, session_id: str) -> None:
    secret = fill_placeholders("ghp_{alnum:36}", "page")[0]
    rest.write(
        session_id,
        [
            ("turn.opened", {"turn": {"turn_id": "turn_b", "role": "assistant"}}),
            ("text.delta", {"turn_id": "turn_b", "text": f"<img src=x onerror=alert(1)> {secret}"}),
            ("turn.ended", {"turn_id": "turn_b"}),
        ],
    )
    token = rest.post(f"/api/sessions/{session_id}/share")["token"]
    answer = rest.call("GET", f"/api/share/{token}", key=None, headers={"accept": "text/html,*/*"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["vary"] == "Accept"
    page = answer.text
    assert "good day" in page
    assert "[REDACTED:" in page
    for hidden in (secret, "secret thought", "a preference", "inside", rest.owner, "<img"):
        assert hidden not in page
    assert "default-src 'none'; script-src 'sha256-" in page
    rest.call("DELETE", f"/api/sessions/{session_id}/share/{token}")
    gone = rest.call("GET", f"/api/share/{token}", key=None, headers={"accept": "text/html"})
    assert gone.status_code == 404
