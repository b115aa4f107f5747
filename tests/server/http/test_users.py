"""People and keys over REST, and short-lived tokens for sessions, for users of an application, and of
an identity provider."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx2
import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from helpers.server.rest_server import PLENTY, RestServer
from open_token.server.core import access_tokens, storage_quota


def mint(rest: RestServer, **wanted: Any) -> Any:
    return rest.post("/api/tokens", wanted)


@pytest.mark.spec("user-routes")
def test_the_owner_adds_people_and_their_keys(rest: RestServer) -> None:
    person = rest.post("/api/users", {"username": "anna"})
    assert rest.refused("POST", "/api/users", {"username": "anna"}) == 409
    key = rest.post(f"/api/users/{person['id']}/api-keys", {"name": "laptop"})
    assert rest.get("/api/auth/me", key=key["plaintext"])["username"] == "anna"
    assert [item["username"] for item in rest.get("/api/users")["items"]] == ["owner", "anna"]
    rest.patch(f"/api/users/{person['id']}", {"disabled": True})
    assert rest.refused("GET", "/api/auth/me", key=key["plaintext"]) == 401
    rest.patch(f"/api/users/{person['id']}", {"disabled": False})
    keys = rest.get(f"/api/users/{person['id']}/api-keys")
    assert [item["plaintext"] for item in keys] == [None]
    rest.delete(f"/api/users/{person['id']}/api-keys/{key['id']}")
    assert rest.refused("GET", "/api/auth/me", key=key["plaintext"]) == 401
    rest.delete(f"/api/users/{person['id']}")
    assert rest.refused("DELETE", f"/api/users/{person['id']}") == 404


@pytest.mark.spec("user-routes")
def test_only_the_owner_does_so(rest: RestServer) -> None:
    key = rest.person()
    assert rest.refused("POST", "/api/users", {"username": "eve"}, key=key) == 403
    assert rest.refused("GET", "/api/users", key=key) == 403
    assert rest.refused("PATCH", "/api/users/user_ben", {"disabled": False}, key=key) == 403
    assert rest.refused("POST", "/api/users/user_ben/api-keys", {"name": "x"}, key=key) == 403
    assert rest.refused("POST", "/api/tokens", {"external_user": "x"}, key=key) == 403
    owner = rest.owner
    assert rest.refused("PATCH", f"/api/users/{owner}", {"disabled": True}) == 404
    assert rest.refused("DELETE", f"/api/users/{owner}") == 404
    reader = rest.post("/api/user/api-keys/", {"name": "viewer", "scope": "read"})["plaintext"]
    assert rest.refused("POST", "/api/users", {"username": "eve"}, key=reader) == 403


@pytest.mark.spec("token-route")
def test_a_token_of_a_session_opens_that_session_only(rest: RestServer) -> None:
    session_id, other = rest.session(), rest.session()
    token = mint(rest, session_id=session_id)["token"]
    path = f"/api/sessions/{session_id}"
    assert rest.get(path, key=token)["id"] == session_id
    assert rest.post(f"{path}/messages", {"message": "think"}, key=token)["status"] == "completed"
    rest.put(f"{path}/files/a.txt", {"content": "x"}, key=token)
    refused = [
        ("GET", f"/api/sessions/{other}"),
        ("GET", f"/api/sessions/{session_id}x"),
        ("GET", "/api/sessions"),
        ("POST", "/api/sessions"),
        ("DELETE", path),
        ("POST", f"{path}/share"),
        ("PUT", f"{path}/env"),
        ("POST", "/api/tokens"),
        ("POST", "/api/user/api-keys/"),
        ("POST", "/api/auth/login"),
        ("GET", "/api/memories"),
    ]
    for method, place in refused:
        body = {} if method != "GET" else None
        assert rest.refused(method, place, body, key=token) == 403
    assert rest.call("POST", "/v1/responses", {"input": "x"}, key=token).status_code == 403
    reading = mint(rest, session_id=session_id, scope="read")["token"]
    assert rest.get(path, key=reading)["id"] == session_id
    assert rest.refused("POST", f"{path}/messages", {"message": "x"}, key=reading) == 403


@pytest.mark.spec("token-route")
def test_a_token_of_an_external_user_is_that_users(rest: RestServer) -> None:
    first = mint(rest, external_user="customer-17")
    second = mint(rest, external_user="customer-17", ttl_seconds=60)
    assert first["user_id"] == second["user_id"]
    session_id = rest.post("/api/sessions", {"intent": "Mine"}, key=first["token"])["session_id"]
    path = f"/api/sessions/{session_id}"
    assert rest.get(path, key=second["token"])["intent"] == "Mine"
    assert rest.refused("GET", path) == 404
    outsider = mint(rest, external_user="customer-18")["token"]
    assert rest.refused("GET", path, key=outsider) == 404
    for place in ("/api/tokens", "/api/user/api-keys/", "/api/auth/login"):
        given = {"name": "x"} if "keys" in place else {}
        assert rest.refused("POST", place, given, key=first["token"]) == 403


def test_a_token_ends_with_its_time_its_key_and_its_user(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rest.post("/api/user/api-keys/", {"name": "backend"})
    token = rest.post("/api/tokens", {"external_user": "a"}, key=key["plaintext"])
    assert rest.get("/api/auth/me", key=token["token"])["id"] == token["user_id"]
    rest.patch(f"/api/users/{token['user_id']}", {"disabled": True})
    assert rest.refused("GET", "/api/auth/me", key=token["token"]) == 401
    rest.patch(f"/api/users/{token['user_id']}", {"disabled": False})
    rest.delete(f"/api/user/api-keys/{key['id']}")
    assert rest.refused("GET", "/api/auth/me", key=token["token"]) == 401
    token = mint(rest, external_user="a", ttl_seconds=1)
    assert rest.get("/api/auth/me", key=token["token"])["id"] == token["user_id"]
    time.sleep(1.1)
    assert rest.refused("GET", "/api/auth/me", key=token["token"]) == 401


def test_a_changed_token_opens_nothing(rest: RestServer) -> None:
    token = mint(rest, external_user="a")["token"]
    body, _, signature = token.removeprefix(access_tokens.PREFIX).partition(".")
    changed = [
        token[:-2] + ("AA" if token[-2:] != "AA" else "BB"),
        f"{access_tokens.PREFIX}{body}",
        f"{access_tokens.PREFIX}{body}.",
        f"{access_tokens.PREFIX}.{signature}",
        f"{access_tokens.PREFIX}{body[1:]}.{signature}",
        access_tokens.PREFIX,
        access_tokens.PREFIX + "x" * 5000,
        access_tokens.PREFIX + "\u00fc.\u00fc",
    ]
    for wrong in changed:
        headers = {"Authorization": f"Bearer {wrong}".encode("latin-1")}
        assert rest.call("GET", "/api/auth/me", key=None, headers=headers).status_code == 401


def test_an_event_source_uses_a_token_in_the_address(rest: RestServer) -> None:
    session_id = rest.session()
    token = mint(rest, session_id=session_id, scope="read")["token"]
    path = f"/api/sessions/{session_id}"

    async def first_line() -> str:
        async def read() -> str:
            received = asyncio.Event()
            sent: list[bytes] = []

            async def receive() -> Any:
                await received.wait()
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message.get("body", b""))
                if b"data:" in sent[-1]:
                    received.set()

            scope = {
                "type": "http",
                "method": "GET",
                "path": f"{path}/events",
                "query_string": f"token={token}".encode(),
                "headers": [],
                "client": ("127.0.0.1", 1),
                "server": ("server.test", 80),
                "scheme": "http",
                "root_path": "",
            }
            await rest.app(scope, receive, send)
            return b"".join(sent).decode()

        return await asyncio.wait_for(read(), 10)

    assert "session:updated" in rest.run(first_line())
    assert rest.refused("GET", f"{path}?token={token}", key=None) == 401
    assert rest.refused("GET", f"{path}/events?token={rest.key}", key=None) == 401


def test_keys_and_tasks_are_limited(tmp_path: Path) -> None:
    limits = {"keys_per_user": 3, "tasks_per_user": 1}
    values = {name: getattr(PLENTY, name) for name in PLENTY.__struct_fields__}
    server = RestServer(tmp_path, limits=type(PLENTY)(**{**values, **limits}))
    try:
        for _ in range(2):
            server.post("/api/user/api-keys/", {"name": "x"})
        assert server.refused("POST", "/api/user/api-keys/", {"name": "x"}) == 409
        assert server.refused("POST", "/api/auth/login", {}) == 409
        task = {"title": "Daily", "prompt": "hello", "cron": "0 9 * * *"}
        server.post("/api/scheduled-tasks", task)
        assert server.refused("POST", "/api/scheduled-tasks", task) == 409
    finally:
        server.close()


def test_storage_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_quota, "_MAX_AGE_WHEN_FULL", -1.0)
    limits = msgspec.structs.replace(PLENTY, storage_per_user=100_000)
    server = RestServer(tmp_path, limits=limits)
    try:
        path = f"/api/sessions/{server.session()}"
        other = server.person()
        server.put(f"{path}/files/a", {"content": "x" * 60_000})
        document = {"model": "demo", "messages": [{"role": "user", "content": "x" * 60_000}]}
        adding = [
            lambda: server.call("PUT", f"{path}/files/b", {"content": "x" * 60_000}),
            lambda: server.call("POST", f"{path}/upload/", files={"files": ("b", b"x" * 60_000)}),
            lambda: server.call("POST", f"{path}/messages", {"message": "x" * 60_000}),
            lambda: server.call(
                "POST", "/api/sessions/import", files={"file": ("c.json", json.dumps(document))}
            ),
        ]
        for add in adding:
            answer = add()
            assert (answer.status_code, answer.json()["code"]) == (413, "storage_full")
        assert server.get(f"{path}/ls/")[0]["name"] == "a"
        assert server.post("/api/sessions", {}, key=other)["session_id"]
        server.delete(f"{path}/files/a")
        assert [add().status_code for add in adding[:1]] == [200]
        assert server.refused("POST", f"{path}/messages", {"message": "x" * 60_000}) == 413
        server.delete(f"{path}/files/b")
        assert adding[3]().status_code == 200
    finally:
        server.close()


@pytest.fixture
def provider(tmp_path: Path) -> tuple[Ed25519PrivateKey, Path]:
    """The key of an identity provider, and its key set."""
    private = Ed25519PrivateKey.generate()
    key = json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(private.public_key()))
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [{**key, "kid": "k1", "alg": "EdDSA", "use": "sig"}]}))
    return private, path


def test_tokens_of_an_identity_provider(
    tmp_path: Path, provider: tuple[Ed25519PrivateKey, Path]
) -> None:
    private, keys = provider
    server = RestServer(
        tmp_path / "data",
        jwt_keys=str(keys),
        jwt_issuer="https://id.example",
        jwt_audience="agents",
    )
    claims = {
        "iss": "https://id.example",
        "aud": "agents",
        "sub": "person-1",
        "exp": int(time.time()) + 600,
    }

    def sign(key: Any = private, algorithm: str = "EdDSA", kid: str = "k1", **more: Any) -> str:
        return jwt.encode({**claims, **more}, key, algorithm, headers={"kid": kid})

    try:
        token = sign()
        session_id = server.post("/api/sessions", {"intent": "Mine"}, key=token)["session_id"]
        assert server.get("/api/sessions", key=sign(jti="2"))["total"] == 1
        assert server.get("/api/sessions", key=sign(sub="person-2"))["total"] == 0
        reader = sign(scope="openid open-token:read")
        path = f"/api/sessions/{session_id}/messages"
        assert server.refused("POST", path, {"message": "x"}, key=reader) == 403
        wrong = [
            sign(aud="others"),
            sign(iss="https://evil.example"),
            sign(exp=int(time.time()) - 600),
            sign(Ed25519PrivateKey.generate()),
            sign(kid="k2"),
            jwt.encode(claims, "x" * 32, "HS256", headers={"kid": "k1"}),
            jwt.encode(claims, None, "none", headers={"kid": "k1"}),
            "a.b.c",
        ]
        for credential in wrong:
            assert server.refused("GET", "/api/sessions", key=credential) == 401
        assert server.get("/api/auth/me")["role"] == "owner"
    finally:
        server.close()


def test_runs_of_one_user_do_not_take_all_workers(tmp_path: Path) -> None:
    values = {name: getattr(PLENTY, name) for name in PLENTY.__struct_fields__}
    limits = type(PLENTY)(**{**values, "runs_per_user": 1, "runs": 2})
    server = RestServer(tmp_path, limits=limits)
    try:
        sessions = [server.session() for _ in range(3)]
        for session_id in sessions:
            path = f"/api/sessions/{session_id}/messages?wait=false"
            server.post(path, {"message": "long"})
        key = server.person()
        mine = server.post("/api/sessions", key=key)["session_id"]
        headers = {"Authorization": f"Bearer {key}"}

        async def ask() -> httpx2.Response:
            path = f"/api/sessions/{mine}/messages"
            return await server.client.post(path, json={"message": "think"}, headers=headers)

        answer = server.run(asyncio.wait_for(ask(), 20))
        assert answer.json()["status"] == "completed"
        for session_id in sessions:
            server.post(f"/api/sessions/{session_id}/stop")
    finally:
        server.close()
