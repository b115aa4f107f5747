"""Routes about the server itself; health is reported truthfully."""

from pathlib import Path

import pytest

from helpers.server.rest_server import PLENTY, RestServer
from open_token import __version__
from open_token.errors import StoreError


@pytest.mark.spec("health-routes")
def test_health_is_open_and_says_what_it_tried(rest: RestServer) -> None:
    for path in ("/api/health", "/api/health/runtime", "/healthz"):
        assert rest.get(path, key=None) == {"status": "ok", "checks": {"store": "ok", "disk": "ok"}}


@pytest.mark.spec("health-routes")
def test_health_reports_a_disk_that_cannot_be_written(rest: RestServer) -> None:
    async def fails(key: str, value: str | None) -> None:
        raise StoreError("the disk is full")

    rest.services.store.set_setting = fails  # type: ignore[method-assign]
    answer = rest.call("GET", "/api/health", key=None)
    assert answer.status_code == 503
    assert answer.json() == {
        "status": "failed",
        "checks": {"store": "ok", "disk": "the disk is full"},
    }


def test_health_reports_a_log_that_cannot_be_written(rest: RestServer) -> None:
    name, append = rest.session(), rest.services.store.append

    async def fails(step: object) -> None:
        raise StoreError("the disk is full", code="store.full")

    rest.services.store.append = fails  # type: ignore[method-assign,assignment]
    assert (
        rest.call("PATCH", f"/api/sessions/{name}", json={"intent": "Another"}).status_code == 503
    )
    answer = rest.call("GET", "/api/health", key=None)
    assert (answer.status_code, answer.json()["checks"]["disk"]) == (503, "the disk is full")
    rest.services.store.append = append  # type: ignore[method-assign]
    assert (
        rest.call("PATCH", f"/api/sessions/{name}", json={"intent": "Another"}).status_code == 200
    )
    assert rest.services.journal.recent_failure is None


def test_health_is_not_tried_anew_for_everybody(rest: RestServer) -> None:
    tried: list[str] = []
    write = rest.services.store.set_setting

    async def counted(key: str, value: str | None) -> None:
        tried.append(key)
        await write(key, value)

    rest.services.store.set_setting = counted  # type: ignore[method-assign]
    for _ in range(5):
        rest.get("/healthz", key=None)
    assert tried == ["health"]


@pytest.mark.spec("version-route", "config-route", "model-list", "current-user")
def test_version_config_models_and_me(rest: RestServer) -> None:
    assert rest.get("/api/version", key=None) == {"version": __version__, "min_sdk": "0.1.0"}
    limits = {name: getattr(PLENTY, name) for name in ("body_bytes", "upload_bytes", "event_bytes")}
    offered = {
        "publicSharingEnabled": True,
        "memoryEnabled": True,
        "version": __version__,
        "limits": limits,
    }
    assert rest.get("/api/config") == offered
    demo = {"id": "demo", "name": "demo", "label": "Demo (offline)"}
    assert rest.get("/api/config/models") == {"default": "demo", "models": [demo], "baseUrl": None}
    me = rest.get("/api/auth/me")
    assert me["created_at"].endswith("Z")
    assert me == {
        "id": rest.owner,
        "username": "owner",
        "avatar_url": None,
        "created_at": me["created_at"],
        "role": "owner",
        "scope": "full",
    }
    viewer = rest.get("/api/auth/me", key=rest.person(scope="read"))
    assert (viewer["id"], viewer["username"], viewer["role"], viewer["scope"]) == (
        "user_ben",
        "ben",
        "user",
        "read",
    )


@pytest.mark.spec("config-route", "model-list")
def test_what_is_offered_follows_the_settings(tmp_path: Path) -> None:
    service = "http://127.0.0.1:11434/v1"
    rest = RestServer(
        tmp_path / "data", sharing=False, memory=False, model="openai:small", base_url=service
    )
    config, models = rest.get("/api/config"), rest.get("/api/config/models")
    rest.close()
    assert (config["publicSharingEnabled"], config["memoryEnabled"]) == (False, False)
    assert (models["default"], models["baseUrl"]) == ("openai:small", service)
    assert {model["id"] for model in models["models"]} >= {"openai:small", "demo"}
    assert all(model.keys() == {"id", "name", "label"} for model in models["models"])


@pytest.mark.spec("metrics-route")
def test_metrics_count_without_names(rest: RestServer) -> None:
    name = rest.session()
    rest.say(name, "hello")
    rest.get(f"/api/sessions/{name}")
    text = rest.call("GET", "/metrics").text
    assert (
        'open_token_requests_total{method="GET",route="/api/sessions/{session_id}",status="200"} 1\n'
        in text
    )
    assert "open_token_events_total 4\n" in text
    assert (
        'open_token_request_seconds_bucket{method="GET",route="/api/sessions/{session_id}",le="+Inf"} 1\n'
        in text
    )
    assert "process_resident_memory_bytes" in text
    assert name not in text


@pytest.mark.spec("metrics-route")
def test_metrics_are_the_owners(rest: RestServer) -> None:
    assert rest.refused("GET", "/metrics", key=rest.person()) == 403
    assert rest.refused("GET", "/metrics", key=None) == 401


def test_models_that_are_not_listed_can_be_refused(tmp_path: Path) -> None:
    env = {"OPENAI_API_KEY": "none"}
    server = RestServer(tmp_path, env=env, models=("openai:gpt-5",), only_listed_models=True)
    try:
        path = f"/api/sessions/{server.session()}/messages"
        given = {"message": "hello", "model": "openai:gpt-5-pro"}
        answer = server.call("POST", path, given)
        assert (answer.status_code, answer.json()["code"]) == (422, "no_model")
        assert server.post(path, {"message": "hello", "model": "demo"})["status"] == "completed"
    finally:
        server.close()


def test_the_address_of_a_local_service_is_shown_only_to_the_owner(tmp_path: Path) -> None:
    server = RestServer(tmp_path, base_url="http://127.0.0.1:1/v1")
    try:
        assert server.get("/api/config/models")["baseUrl"] == "http://127.0.0.1:1/v1"
        assert server.get("/api/config/models", key=server.person())["baseUrl"] is None
    finally:
        server.close()
