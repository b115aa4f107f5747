"""Random requests made after the OpenAPI document: no 500, every refusal in one form, every answer
of its schema."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from helpers.server.openapi_strategies import requests
from helpers.server.rest_server import RestServer


@pytest.fixture(scope="module")
def server() -> Iterator[RestServer]:
    with tempfile.TemporaryDirectory() as folder:
        rest = RestServer(Path(folder) / "data")
        yield rest
        rest.close()


@pytest.fixture(scope="module")
def document(server: RestServer) -> Any:
    return server.get("/openapi.json", key=None)


def fill(rest: RestServer) -> dict[str, list[str]]:
    """Something of everything; what a request deletes is made anew."""
    name = rest.session(env={"A": "b"})
    rest.say(name, "hello", "again")
    memory = rest.post("/api/memories", {"content": "likes tea"})["id"]
    key = rest.post("/api/user/api-keys/", {"name": "laptop"})["id"]
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    return {
        "session_id": [name],
        "memory_id": [str(memory)],
        "key_id": [key],
        "token": [token],
        "sha256": ["0" * 64],
    }


HELD: dict[int, dict[str, list[str]]] = {}


def known_to(server: RestServer) -> dict[str, list[str]]:
    known = HELD.get(id(server))
    if (
        known is None
        or server.call("GET", f"/api/sessions/{known['session_id'][0]}").status_code != 200
    ):
        known = HELD[id(server)] = fill(server)
    return known


def try_one(server: RestServer, document: Any, data: st.DataObject) -> None:
    known = known_to(server)
    # What is drawn must not depend on what the server happens to hold: ids take their places
    # afterwards.
    operation, method, path, sent = data.draw(
        requests(document, {name: [f"known-{name}"] for name in known})
    )
    for name, ids in known.items():
        path = path.replace(f"known-{name}", ids[0])
    answer = server.call(method, path, **sent)
    assert answer.status_code < 500, (method, path, answer.text)
    said = (
        operation["responses"]
        .get(str(answer.status_code), {})
        .get("content", {})
        .get("application/json")
    )
    if answer.status_code >= 400:
        # Clients of OpenAI's API find the message under `error`, too.
        expected = {"detail", "code"} | ({"error"} if path.startswith("/v1/") else set())
        assert answer.json().keys() == expected, (method, path)
    elif said and answer.headers["content-type"] == "application/json":
        jsonschema.validate(
            answer.json(), {**said.get("schema", {}), "components": document["components"]}
        )


@settings(
    max_examples=100,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
    database=None,
    derandomize=True,
)
@given(data=st.data())
def test_random_requests(server: RestServer, document: Any, data: st.DataObject) -> None:
    """The same requests each time; schemathesis tries others in `make test-full`."""
    try_one(server, document, data)
