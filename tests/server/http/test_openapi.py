"""The OpenAPI document: complete, true to what is sent, and no route without it lets anybody in."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from rest import Rest

OPEN = {
    "/api/health",
    "/api/health/runtime",
    "/healthz",
    "/api/version",
    "/api/share/{token}",
    "/api/auth/sdk/token",
}
READING = {"/api/sessions/{session_id}/checkout", "/api/sessions/tokenize/prompt", "/api/sessions/tokenize/messages"}
"""What is posted and changes nothing."""


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.fixture
def document(rest: Rest) -> Any:
    return rest.get("/openapi.json", key=None)


def schemas(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from schemas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from schemas(inner)


def test_every_reference_leads_somewhere(document: Any) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(schemas(document)) - known == set()
    assert not any("\ue000" in key for key in str(document))


def test_every_operation_says_what_it_takes_gives_and_refuses(document: Any) -> None:
    lacking = []
    for method, path, operation in operations(document):
        name = f"{method} {path}"
        if not operation.get("description"):
            lacking.append(f"{name} has no words")
        if not any(status.startswith("2") for status in operation["responses"]):
            lacking.append(f"{name} never goes well")
        if (path not in OPEN) != ("401" in operation["responses"]):
            lacking.append(f"{name}: who may ask?")
        if path not in OPEN and not operation.get("security"):
            lacking.append(f"{name} wants no key")
    assert lacking == []


def test_examples_are_of_their_schemas(document: Any) -> None:
    wrong = []
    for method, path, operation in operations(document):
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [response.get("content", {}) for response in operation["responses"].values()]
        for content in contents:
            held = content.get("application/json", {})
            if "example" in held:
                schema = {**held.get("schema", {}), "components": document["components"]}
                faults = jsonschema.Draft202012Validator(schema).iter_errors(held["example"])
                wrong += [f"{method} {path}: {fault.message}" for fault in faults]
    assert wrong == []


def test_answers_are_of_their_schemas(rest: Rest, document: Any) -> None:
    name = rest.session(env={"A": "b"})
    rest.say(name, "hello", "again")
    memory = rest.post("/api/memories", {"content": "likes tea"})["id"]
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    places = {"session_id": name, "memory_id": str(memory), "token": token}
    seen = 0
    for method, path, operation in operations(document):
        known = set(re.findall(r"{(\w+)", path)) <= places.keys()
        schema = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema")
        if method != "GET" or not known or not schema:
            continue
        answer = rest.call("GET", re.sub(r"{(\w+)(:\w+)?}", lambda found: places[found[1]], path))
        if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
            jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
            seen += 1
    assert seen >= 14


@pytest.mark.parametrize("who", ["nobody", "other", "reader", "revoked"])
def test_nobody_gets_in_who_may_not(rest: Rest, document: Any, who: str) -> None:
    name = rest.session()
    (checkpoint,) = rest.say(name, "hello")
    memory = rest.post("/api/memories", {"content": "likes tea"})["id"]
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    own = rest.post("/api/user/api-keys/", {"name": "mine"})
    rest.call("DELETE", f"/api/user/api-keys/{own['id']}")
    reader = rest.post("/api/user/api-keys/", {"name": "viewer", "scope": "read"})
    keys = {"nobody": None, "other": rest.person(), "reader": reader["plaintext"], "revoked": own["plaintext"]}
    places = {
        "session_id": name,
        "memory_id": str(memory),
        "token": token,
        "key_id": reader["id"],
        "sha256": "0" * 64,
    }
    let_in = []
    for method, path, operation in operations(document):
        place = re.sub(r"{(\w+)(:\w+)?}", lambda found: places.get(found[1], "1"), path)
        example = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("example")
        if isinstance(example, dict) and "checkpoint_id" in example:
            example = {**example, "checkpoint_id": checkpoint}
        if who == "reader" and "text/event-stream" in str(operation["responses"]):
            continue  # it may be read, and goes on for as long as the session does
        answer = rest.call(method, place, example, key=keys[who])
        if answer.status_code < 300 and not expected(who, method, path):
            let_in.append(f"{method} {path} -> {answer.status_code}")
        if who in ("nobody", "revoked") and path not in OPEN:
            assert answer.status_code == 401, (method, path, answer.status_code)
    assert let_in == []
    assert rest.get(f"/api/sessions/{name}")["intent"] == "Mend the build"
    assert rest.get(f"/api/memories/{memory}")["content"] == "likes tea"


def expected(who: str, method: str, path: str) -> bool:
    """Whether somebody may have an answer: what is open, what is their own, what only reads."""
    if path in OPEN:
        return True
    if who == "reader":
        return method == "GET" or path in READING
    return who == "other" and not re.search(r"{(session_id|memory_id|key_id|token)", path)
