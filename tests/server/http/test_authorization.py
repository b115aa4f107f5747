"""Who may call which route: every route of OpenAPI, with every kind of credential.

What a route needs follows from its method and its path. A new route is covered without a word
here; one that is public, or needs less than its method says, has to be named."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.clock import Clock

PUBLIC = {
    "GET /healthz",
    "GET /api/health",
    "GET /api/health/runtime",
    "GET /api/version",
    "GET /client.js",
    "GET /api/share/{token}",
    "POST /api/auth/sdk/token",
}
LOOK_BACK = "POST /api/sessions/{session_id}/checkout"
CHANGE_NOTHING = {
    LOOK_BACK,
    "POST /api/auth/refresh",
    "POST /api/auth/login",
    "POST /api/auth/logout",
    "POST /api/sessions/tokenize/prompt",
    "POST /api/sessions/tokenize/messages",
}
"""Routes that a key which may only read may call, although they are no GET."""
OWNER_ONLY = re.compile(r"/api/users\b|/metrics$")
FOR_EVERY_TOKEN = {"GET /api/auth/me", "GET /api/config", "GET /api/config/models"}
OWNERS_OF_A_SESSION = re.compile(
    r"(PATCH|DELETE) /api/sessions/\{session_id\}$"
    r"|(?!GET)\w+ /api/sessions/\{session_id\}/(env|pin|share|sharing|memory)(?![-\w])"
)
"""What a token for a session may not change."""
NAMES_OF_THE_CALLER = re.compile(r"/(preferences|env-buckets|by_task|skills)/\{")
"""Routes whose name is one that every user may have, or that of a skill of the server."""


class Matrix:
    """A server with objects of its owner, and callers who may do less."""

    def __init__(self, rest: RestServer) -> None:
        self.rest = rest
        self.routes = dict(_iterate_routes(rest.app.openapi()))
        self.names = {
            "session_id": rest.session(),
            "key_id": rest.post("/api/user/api-keys/", {"name": "other"})["id"],
            "user_id": rest.owner,
            "profile_id": rest.post("/api/profiles", {"name": "mine", "settings": {}})["id"],
            "memory_id": rest.post("/api/memories", {"content": "x"})["id"],
            "task_id": "task_none",
        }
        self.other_session = rest.session()

    def call(self, route: str, key: str | None, **names: str) -> Any:
        """Call a route with the example of its body."""
        method, _, path = route.partition(" ")
        known = {**self.names, **names}
        filled = re.sub(r"\{(\w+)\}", lambda match: str(known.get(match[1], "none")), path)
        content = self.routes[route].get("requestBody", {}).get("content", {})
        body = content.get("application/json", {}).get("example", {})
        if "multipart/form-data" in content:
            return self.rest.call(method, filled, key=key, files={"file": ("x", b"x")})
        return self.rest.call(method, filled, body if content else None, key=key)

    def mint(self, **wanted: Any) -> str:
        return str(self.rest.post("/api/tokens", wanted)["token"])

    def count_entries(self) -> int:
        """Return the size of all that the owner has."""
        sessions = (self.names["session_id"], self.other_session)
        kept = [
            self.rest.get("/api/profiles"),
            self.rest.get("/api/memories"),
            self.rest.get("/api/user/api-keys/"),
            self.rest.get("/api/sessions"),
            self.rest.get("/api/users"),
        ]
        total = sum(listed["total"] if isinstance(listed, dict) else len(listed) for listed in kept)
        return int(total) + sum(len(self.rest.entries(name)) for name in sessions)


def _iterate_routes(document: Any) -> Iterator[tuple[str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.fixture
def matrix(rest: RestServer) -> Matrix:
    return Matrix(rest)


def find_faults(
    matrix: Matrix, key: str | None, routes: Iterator[tuple[str, set[int]]], **names: str
) -> list[str]:
    """Return the routes that answer a caller otherwise than with one of these statuses."""
    before = matrix.count_entries()
    faults = []
    count = 0
    for route, expected in routes:
        count += 1
        answer = matrix.call(route, key, **names)
        if answer.status_code not in expected:
            faults.append(f"{route}: {answer.status_code} {answer.text[:200]}")
    assert count, "no route was called"
    assert matrix.count_entries() == before, "a refused request changed something"
    return faults


def test_the_document_says_which_routes_are_public(matrix: Matrix) -> None:
    open_routes = {name for name, operation in matrix.routes.items() if "security" not in operation}
    assert open_routes == PUBLIC
    assert matrix.routes.keys() >= CHANGE_NOTHING | FOR_EVERY_TOKEN


@pytest.mark.parametrize(
    "credential",
    ["none", "unknown", "revoked key", "expired token", "token of a revoked key", "changed token"],
)
def test_without_a_valid_credential_no_route_answers(rest: RestServer, credential: str) -> None:
    matrix = Matrix(rest)
    made = rest.post("/api/user/api-keys/", {"name": "mine"})
    key: str | None = "sk-ot-v1-unknown"
    if credential == "none":
        key = None
    elif credential == "revoked key":
        key = made["plaintext"]
    elif credential == "expired token":
        key = matrix.mint(ttl_seconds=1)
        later = Clock(moment=lambda: Clock().moment().replace(year=2100))
        rest.services.clock = later
    elif credential == "token of a revoked key":
        key = rest.post("/api/tokens", {}, key=made["plaintext"])["token"]
    elif credential == "changed token":
        body, _, signature = matrix.mint().rpartition(".")
        key = f"{body}.{signature[::-1]}"
    if "revoked" in credential:
        rest.delete(f"/api/user/api-keys/{made['id']}")
    routes = ((route, {401}) for route in matrix.routes if route not in PUBLIC)
    assert find_faults(matrix, key, routes) == []


def test_a_key_that_may_only_read_changes_nothing(matrix: Matrix) -> None:
    key = matrix.rest.post("/api/user/api-keys/", {"name": "v", "scope": "read"})["plaintext"]
    token = matrix.mint(scope="read")
    changing = [route for route in matrix.routes if not route.startswith("GET ")]
    for credential in (key, token):
        routes = ((route, {403}) for route in changing if route not in PUBLIC | CHANGE_NOTHING)
        assert find_faults(matrix, credential, routes) == []


@pytest.mark.parametrize("kind", ["key", "minted token"])
def test_other_users_find_nothing_of_the_owner(matrix: Matrix, kind: str) -> None:
    key = matrix.rest.person() if kind == "key" else matrix.mint(external_user="customer-7")
    routes = (
        (route, {403} if OWNER_ONLY.search(route) else {404, 422})
        for route in matrix.routes
        if "{" in route and route not in PUBLIC and not NAMES_OF_THE_CALLER.search(route)
    )
    assert find_faults(matrix, key, routes) == []


@pytest.mark.parametrize("kind", ["key", "minted token"])
def test_users_do_not_manage_users(matrix: Matrix, kind: str) -> None:
    key = matrix.rest.person() if kind == "key" else matrix.mint(external_user="customer-7")
    routes = ((route, {403}) for route in matrix.routes if OWNER_ONLY.search(route))
    assert find_faults(matrix, key, routes) == []


def test_a_token_for_a_session_opens_that_session_only(matrix: Matrix) -> None:
    token = matrix.mint(session_id=matrix.names["session_id"])
    outside = (
        (route, {403})
        for route in matrix.routes
        if "/sessions/{session_id}" not in route and route not in PUBLIC | FOR_EVERY_TOKEN
    )
    assert find_faults(matrix, token, outside) == []
    another = ((route, {403}) for route in matrix.routes if "/sessions/{session_id}" in route)
    assert find_faults(matrix, token, another, session_id=matrix.other_session) == []
    owners = ((route, {403}) for route in matrix.routes if OWNERS_OF_A_SESSION.match(route))
    assert find_faults(matrix, token, owners) == []


def test_a_token_that_may_only_read_a_session_changes_nothing(matrix: Matrix) -> None:
    token = matrix.mint(session_id=matrix.names["session_id"], scope="read")
    routes = (
        (route, {403})
        for route in matrix.routes
        if not route.startswith("GET ") and route not in PUBLIC | {LOOK_BACK}
    )
    assert find_faults(matrix, token, routes) == []


def test_tokens_make_no_credentials(matrix: Matrix) -> None:
    routes = ["POST /api/tokens", "POST /api/user/api-keys/", "POST /api/auth/login"]
    for token in (matrix.mint(), matrix.mint(external_user="customer-7")):
        assert find_faults(matrix, token, ((route, {403}) for route in routes)) == []


def test_a_token_in_the_address_opens_event_streams_only(matrix: Matrix) -> None:
    token = matrix.mint()
    for route in matrix.routes.keys() - PUBLIC:
        method, _, path = route.partition(" ")
        if path.endswith("/events"):
            continue
        filled = re.sub(r"\{(\w+)\}", lambda match: str(matrix.names.get(match[1], "none")), path)
        answer = matrix.rest.call(method, f"{filled}?token={token}", key=None)
        assert answer.status_code == 401, route


def test_what_callers_may_read_they_can_read(matrix: Matrix) -> None:
    """The other side: the refusals above are not refusals of everything."""
    session = matrix.names["session_id"]
    read_key = matrix.rest.post("/api/user/api-keys/", {"name": "v", "scope": "read"})["plaintext"]
    for credential in ("", read_key, matrix.mint(), matrix.mint(session_id=session, scope="read")):
        for path in ("", "/messages", "/history", "/checkpoints", "/ls/", "/agent"):
            answer = matrix.rest.call("GET", f"/api/sessions/{session}{path}", key=credential)
            assert answer.status_code == 200, path
