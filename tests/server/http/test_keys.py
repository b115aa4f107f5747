"""Routes of API keys: shown once, masked after, ended at once."""

import pytest

from helpers.server.rest_server import RestServer

PLACE = "/api/user/api-keys/"


@pytest.mark.spec("key-create", "key-routes", "type-api-key")
def test_a_key_is_shown_once(rest: RestServer) -> None:
    answer = rest.call("POST", PLACE, {"name": "laptop"})
    made = answer.json()
    assert answer.status_code == 201
    assert made["plaintext"].startswith("sk-ot-v1-")
    assert made["masked"] == f"sk-ot-v1-...{made['plaintext'][-4:]}"
    assert made["key"] == {
        **{name: made[name] for name in made if name != "key"},
        "plaintext": None,
    }
    listed = rest.get(PLACE)
    assert [item["name"] for item in listed] == ["first key", "laptop"]
    assert all(item["plaintext"] is None for item in listed)
    assert made["plaintext"] not in rest.call("GET", PLACE).text
    assert made["last_used_at"] is None
    assert rest.get("/api/auth/me", key=made["plaintext"])["scope"] == "full"
    (mine,) = [item for item in rest.get(PLACE) if item["id"] == made["id"]]
    assert mine["last_used_at"] >= made["created_at"]


@pytest.mark.spec("key-create")
def test_without_the_last_slash_it_is_the_same(rest: RestServer) -> None:
    assert rest.call("POST", PLACE.rstrip("/"), {"name": "x"}).status_code == 201
    assert len(rest.get(PLACE.rstrip("/"))) == 2


@pytest.mark.spec("key-routes")
def test_a_revoked_key_opens_nothing(rest: RestServer) -> None:
    made = rest.post(PLACE, {"name": "laptop"})
    assert rest.get("/api/sessions", key=made["plaintext"])["total"] == 0
    assert rest.call("DELETE", PLACE + made["id"]).status_code == 204
    assert rest.refused("GET", "/api/sessions", key=made["plaintext"]) == 401
    assert rest.refused("DELETE", PLACE + made["id"]) == 404


@pytest.mark.spec("key-routes")
def test_a_key_may_be_renamed(rest: RestServer) -> None:
    made = rest.post(PLACE, {"name": "laptop"})
    assert rest.patch(PLACE + made["id"], {"name": "desktop"})["name"] == "desktop"
    assert rest.refused("PATCH", PLACE + "key_none", {"name": "x"}) == 404
    assert rest.refused("PATCH", PLACE + made["id"], {"name": ""}) == 422


@pytest.mark.spec("type-scope")
def test_a_reading_key_changes_nothing(rest: RestServer) -> None:
    key = rest.post(PLACE, {"name": "viewer", "scope": "read"})["plaintext"]
    name = rest.session()
    assert rest.get(f"/api/sessions/{name}", key=key)["id"] == name
    assert rest.refused("POST", "/api/sessions", {}, key=key) == 403
    assert rest.refused("POST", PLACE, {"name": "more"}, key=key) == 403
    assert rest.refused("DELETE", f"/api/sessions/{name}", key=key) == 403


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": "x" * 51}, {"name": "x", "scope": "root"}, {"name": 1}]
)
def test_wrong_keys_are_not_made(rest: RestServer, body: object) -> None:
    assert rest.refused("POST", PLACE, body) == 422


@pytest.mark.spec("key-routes")
def test_keys_of_others_are_not_there(rest: RestServer) -> None:
    mine, other = rest.get(PLACE)[0]["id"], rest.person()
    assert rest.refused("PATCH", PLACE + mine, {"name": "x"}, key=other) == 404
    assert rest.refused("DELETE", PLACE + mine, key=other) == 404
    assert [item["name"] for item in rest.get(PLACE, key=other)] == ["theirs"]
