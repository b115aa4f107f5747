"""Routes of logins."""

from pathlib import Path

import pytest

from helpers.server.rest_server import RestServer

PAGE = "https://chat.example"
CODE = {"code": "user_none.x", "state": "", "client_origin": PAGE}


@pytest.mark.spec("login-routes")
def test_a_login_has_a_key_of_its_own_until_the_logout(rest: RestServer) -> None:
    answer = rest.call("POST", "/api/auth/login")
    made = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert (made["token_type"], made["user"]["id"]) == ("bearer", rest.owner)
    key = made["access_token"]
    assert key != rest.key
    assert rest.get("/api/auth/me", key=key)["scope"] == "full"
    again = rest.post("/api/auth/refresh", key=key)["access_token"]
    assert rest.refused("GET", "/api/auth/me", key=key) == 401
    assert rest.post("/api/auth/logout", key=again) == {"ok": True, "revoked": True}
    assert rest.refused("GET", "/api/auth/me", key=again) == 401


def test_other_keys_outlive_a_logout(rest: RestServer) -> None:
    assert rest.post("/api/auth/logout") == {"ok": True, "revoked": False}
    assert rest.get("/api/auth/me")["id"] == rest.owner


@pytest.mark.spec("login-routes")
@pytest.mark.parametrize("path", ["login", "refresh", "logout"])
def test_a_key_that_may_only_read_makes_no_other(rest: RestServer, path: str) -> None:
    assert rest.refused("POST", f"/api/auth/{path}", key=rest.person(scope="read")) == 403
    assert rest.refused("POST", f"/api/auth/{path}", key=None) == 401


@pytest.mark.spec("sdk-authorization")
def test_a_page_of_another_origin_logs_in_by_a_code(tmp_path: Path) -> None:
    rest = RestServer(tmp_path / "data", cors=(PAGE, "*"))
    asked = {"client_origin": PAGE, "state": "x7"}
    promised = rest.get("/api/auth/sdk/authorize", params=asked)
    assert promised == {**asked, "code": promised["code"], "expires_in": 60}
    given = {name: promised[name] for name in ("code", "state", "client_origin")}
    elsewhere = {"Origin": "https://other.example"}
    assert rest.refused("POST", "/api/auth/sdk/token", given, key=None, headers=elsewhere) == 403
    made = rest.post("/api/auth/sdk/token", given, key=None, headers={"Origin": PAGE})
    assert made.keys() == {"access_token", "token_type", "user"}
    assert rest.get("/api/auth/me", key=made["access_token"])["id"] == rest.owner
    assert rest.refused("POST", "/api/auth/sdk/token", given, key=None) == 422
    for origin in ("https://other.example", "*", ""):
        assert (
            rest.refused("GET", "/api/auth/sdk/authorize", params={"client_origin": origin}) == 403
        )
    rest.close()


@pytest.mark.parametrize(
    "body", [{}, [], {**CODE, "code": 5}, {**CODE, "code": ""}, CODE, {**CODE, "code": "x" * 9999}]
)
def test_what_is_no_code_is_refused(rest: RestServer, body: object) -> None:
    assert rest.refused("POST", "/api/auth/sdk/token", body, key=None) == 422
    assert rest.refused("GET", "/api/auth/sdk/authorize") == 422
