"""The OpenAPI document: complete, true to what is sent, and no route without it lets anybody in."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from helpers.server.rest_server import RestServer

OPEN = {
    "/api/health",
    "/api/health/runtime",
    "/healthz",
    "/api/version",
    "/client.js",
    "/api/share/{token}",
    "/api/auth/sdk/token",
}
COMMON = {"/api/auth/me", "/api/config", "/api/config/models"}
"""What a token for one session may read besides."""
READING = {
    "/api/sessions/{session_id}/checkout",
    "/api/sessions/tokenize/prompt",
    "/api/sessions/tokenize/messages",
}
"""What is posted and changes nothing."""


def operations(document: Any) -> Iterator[tuple[str, str, Any]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.fixture
def document(rest: RestServer) -> Any:
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


@pytest.mark.spec("rest-conventions")
def test_answers_are_of_their_schemas(rest: RestServer, document: Any) -> None:
    name = rest.session(env={"A": "b"})
    rest.say(name, "hello", "again")
    memory = rest.post("/api/memories", {"content": "likes tea"})["id"]
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    places = {
        "session_id": name,
        "memory_id": str(memory),
        "token": token,
        "task_id": planned(rest),
        "key": "theme",
        "bucket": rest.put("/api/user/env-buckets/staging", {"env": {"STAGE": "test"}})["bucket"],
        "client_task_id": "task-17",
        "skill_id": "stream-of-consciousness",
        "profile_id": rest.post("/api/profiles", {"name": "p"})["id"],
    }
    seen, times = 0, set[str]()
    for method, path, operation in operations(document):
        known = set(re.findall(r"{(\w+)", path)) <= places.keys()
        schema = (
            operation["responses"]
            .get("200", {})
            .get("content", {})
            .get("application/json", {})
            .get("schema")
        )
        if method != "GET" or not known or not schema:
            continue
        answer = rest.call("GET", re.sub(r"{(\w+)(:\w+)?}", lambda found: places[found[1]], path))
        if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
            jsonschema.validate(answer.json(), {**schema, "components": document["components"]})
            times.update(moments(answer.json()))
            seen += 1
    assert seen >= 14
    assert len(times) >= 4
    assert [
        time for time in times if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    ] == []


def moments(value: Any) -> Iterator[str]:
    """The times in an answer: whatever is called so."""
    if isinstance(value, list):
        for item in value:
            yield from moments(item)
    for name, item in value.items() if isinstance(value, dict) else ():
        if name.endswith("_at") and item is not None:
            yield item
        yield from moments(item)


ARRAYS = (
    "/api/user/api-keys/",
    "/api/scheduled-tasks",
    "/api/scheduled-tasks/{task_id}/runs",
    "/api/skills",
    "/api/skills/installed",
    "/api/sessions/{session_id}/skills",
    "/api/sessions/{session_id}/tasks",
    "/api/sessions/{session_id}/background-tasks",
)


@pytest.mark.spec("rest-conventions")
def test_every_list_comes_in_parts(rest: RestServer, document: Any) -> None:
    """`limit` is 20 and `offset` 0 unless they are said, and the answer has them and the
    `total`; what is documented as an array is a page when one of them is said."""
    places = {"session_id": rest.session(), "task_id": planned(rest)}
    lists = []
    for method, path, _ in operations(document):
        if method != "GET" or path.endswith("/calendar"):  # which is cut by its times
            continue
        known = set(re.findall(r"{(\w+)", path)) <= places.keys()
        answer = rest.call("GET", filled(path, places)) if known and "/events" not in path else None
        said = (
            answer.json()
            if answer and answer.headers["content-type"] == "application/json"
            else None
        )
        if isinstance(said, dict) and "items" in said:
            lists.append(path)
            assert (said["limit"], said["offset"]) == (20, 0), path
            assert isinstance(said["total"], int), path
            none = rest.get(filled(path, places), params={"limit": "1", "offset": "1000"})
            assert none == {**said, "items": [], "limit": 1, "offset": 1000}, path
            for query in ("limit=-1", "limit=x", "offset=-1", "offset=x"):
                assert rest.refused("GET", f"{filled(path, places)}?{query}") == 422, path
        elif path in ARRAYS:
            lists.append(path)
            page = rest.get(filled(path, places), params={"offset": "0"})
            assert page["items"] == said, path
            assert (page["limit"], page["offset"], page["total"]) == (20, 0, len(said)), path
            for query in ("limit=-1", "limit=x", "offset=-1", "offset=x"):
                assert rest.refused("GET", f"{filled(path, places)}?{query}") == 422, path
    assert set(ARRAYS) < set(lists)
    assert len(lists) >= 12


def planned(rest: RestServer) -> str:
    """A task of the owner's."""
    task = {"title": "Report", "prompt": "Write it", "cron": "0 9 * * *", "enabled": False}
    return str(rest.post("/api/scheduled-tasks", task)["id"])


def filled(path: str, places: dict[str, str]) -> str:
    return re.sub(r"{(\w+)(:\w+)?}", lambda found: places[found[1]], path)


def body_of(operation: Any, document: Any) -> Any:
    """A body that a route takes, as the document shows it."""
    held = operation.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in held:
        (name,) = {"file", "files"} & set(
            str(resolved(held["multipart/form-data"]["schema"], document)).split("'")
        )
        return {"files": {name: ("a.json", b"{}")}}
    said = held.get("application/json", {})
    shown = [said["example"]] if "example" in said else []
    shown += [item["value"] for item in said.get("examples", {}).values()]
    schema = resolved(said.get("schema", {}), document)
    shown += schema.get("examples", []) + ([schema["example"]] if "example" in schema else [])
    return {"json": shown[0]} if shown else {}


def resolved(schema: Any, document: Any) -> Any:
    for choice in (schema, *schema.get("anyOf", ())):
        if name := choice.get("$ref", "").rpartition("/")[2]:
            return document["components"]["schemas"][name]
    return schema


@pytest.mark.spec("bearer-authorization")
@pytest.mark.parametrize("who", ["nobody", "other", "reader", "revoked", "token"])
def test_nobody_gets_in_who_may_not(rest: RestServer, document: Any, who: str) -> None:
    """Everything that a path names is there, and every body is one that the owner could send."""
    places = owned(rest)
    own = rest.post("/api/user/api-keys/", {"name": "mine"})
    rest.call("DELETE", f"/api/user/api-keys/{own['id']}")
    reader = rest.post("/api/user/api-keys/", {"name": "viewer", "scope": "read"})
    keys = {
        "nobody": None,
        "other": rest.person(),
        "reader": reader["plaintext"],
        "revoked": own["plaintext"],
        "token": rest.post("/api/tokens", {"session_id": rest.session()})["token"],
    }
    before = kept(rest, places)
    for method, path, operation in operations(document):
        if who == "reader" and method == "GET" and "/events" in path:
            continue
        more = body_of(operation, document)
        if "checkpoint_id" in more.get("json", {}):
            more["json"] = {**more["json"], "checkpoint_id": places["checkpoint_id"]}
        # No test of this file leaves a command running; the routes of those have tests of their
        # own.
        task = places["schedule"] if path.startswith("/api/scheduled-tasks") else "task_none"
        place = filled(path, {**places, "task_id": task})
        if path.endswith("/calendar"):
            more["params"] = {"from": "2026-01-01", "to": "2026-01-02"}
        status = rest.call(method, place, key=keys[who], **more).status_code
        assert status in expected(who, method, path), (method, path, status)
    assert kept(rest, places) == before


def owned(rest: RestServer) -> dict[str, str]:
    """Something of everything that the owner can have, by the names that paths give it."""
    name = rest.session()
    (checkpoint,) = rest.say(name, "hello")
    blob = rest.run(rest.services.store.put_blob(b"data", "text/plain"))
    rest.write(name, [("notice.given", {"message": "kept"})], blobs=[blob.sha256])
    rest.put(f"/api/sessions/{name}/files/a/b.txt", {"content": "mine"})
    return {
        "session_id": name,
        "checkpoint_id": checkpoint,
        "memory_id": str(rest.post("/api/memories", {"content": "likes tea"})["id"]),
        "token": rest.post(f"/api/sessions/{name}/share")["token"],
        "key_id": rest.get("/api/user/api-keys/")[0]["id"],
        "sha256": blob.sha256,
        "path": "a/b.txt",
        "dir": "a",
        "schedule": planned(rest),
        "user_id": rest.post("/api/users", {"username": "carl"})["id"],
        "user_key_id": "key_none",
        "webhook_id": rest.post("/api/webhooks", {"url": "http://127.0.0.1:9/"})["id"],
        "response_id": rest.post("/v1/responses", {"input": "think"})["id"],
        "key": "theme",
        "bucket": rest.put("/api/user/env-buckets/staging", {"env": {"STAGE": "test"}})["bucket"],
        "client_task_id": "task-17",
        "skill_id": "stream-of-consciousness",
        "profile_id": rest.post("/api/profiles", {"name": "p"})["id"],
    }


def kept(rest: RestServer, places: dict[str, str]) -> list[Any]:
    """What the owner has; who may not change it leaves it so."""
    name = places["session_id"]
    session = f"/api/sessions/{name}"
    looked = [
        session,
        f"{session}/messages",
        f"{session}/ls/a",
        f"{session}/skills",
        "/api/sessions",
        "/api/memories",
        "/api/profiles",
    ]
    looked += ["/api/scheduled-tasks", f"/api/scheduled-tasks/{places['schedule']}/runs"]
    names = [item["id"] for item in rest.get("/api/user/api-keys/")]
    return [rest.get(path) for path in looked] + [names, rest.state(name).seq]


def expected(who: str, method: str, path: str) -> set[int]:
    """How somebody may be answered: what is open, what is their own, what only reads, what is not
    there for them."""
    if path in OPEN:
        return {200, 204, 422}
    if who in ("nobody", "revoked"):
        return {401}
    if who == "token":
        return {200} if path in COMMON and method == "GET" else {403}
    if who == "reader":
        if path == "/api/skills/search":
            return {422}  # without a query
        if method == "GET" and path != "/api/auth/sdk/authorize":
            return {404} if "background-tasks/" in path else {200}
        return {200} if path in READING else {403}
    if re.search(r"{(session_id|memory_id|key_id|task_id|response_id|profile_id|webhook_id)", path):
        return {404}
    if "{bucket}" in path:
        return {200, 404}  # a name of their own, which may be the same
    return {200, 201, 403, 422}  # what is their own, or the owner's alone
