"""Profiles and the agent of a session over REST."""

import asyncio
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from open_token.model.agent_settings import AgentSettings
from open_token.server.core import profiles

SETTINGS: dict[str, Any] = {
    "instructions": "Answer questions about orders.",
    "model": "demo",
    "temperature": 0.5,
    "max_output_tokens": 100,
    "thinking": False,
    "effort": "low",
    "tools": ["Read", "mcp__orders__*"],
    "client_tools": [{"name": "open_order", "description": "Opens an order"}],
    "approvals": [{"tool": "Bash", "action": "deny", "arguments": {"command": "rm *"}}],
    "compaction_ratio": 0.5,
    "context_window": 8000,
    "max_turns": 4,
    "budget": {"tokens": 1000, "cost": 0.5},
}


@pytest.mark.spec("profile-routes")
def test_the_life_of_a_profile(rest: RestServer) -> None:
    made = rest.post("/api/profiles", {"name": "support", "settings": SETTINGS})
    for name, value in SETTINGS.items():
        if name != "client_tools":
            assert made["settings"][name] == value
    assert made["settings"]["client_tools"][0]["name"] == "open_order"
    page = rest.get("/api/profiles")
    assert (page["items"], page["total"], page["limit"], page["offset"]) == ([made], 1, 20, 0)
    assert rest.get("/api/profiles/support") == rest.get(f"/api/profiles/{made['id']}") == made
    changes = {"name": "orders", "settings": {"temperature": None, "effort": "high"}}
    changed = rest.patch(f"/api/profiles/{made['id']}", changes)
    assert (changed["name"], changed["settings"]["effort"]) == ("orders", "high")
    assert "temperature" not in changed["settings"]
    assert changed["updated_at"] is not None
    assert rest.delete(f"/api/profiles/{made['id']}") == {"deleted": True}
    assert rest.refused("GET", f"/api/profiles/{made['id']}") == 404
    assert rest.refused("DELETE", f"/api/profiles/{made['id']}") == 404


@pytest.mark.spec("profile-routes")
@pytest.mark.parametrize(
    "settings",
    [
        {"unknown": 1},
        {"temperature": 3},
        {"model": "nobody:x"},
        {"model": "openai:gpt-5"},
        {"effort": "immense"},
        {"approvals": [{"tool": "Bash", "action": "perhaps"}]},
        {"client_tools": [{"name": "Agent"}]},
        {"client_tools": [{"name": "a"}, {"name": "a"}]},
        {"client_tools": [{"name": "a", "parameters": {"type": "string"}}]},
        {"budget": {"tokens": 0}},
        {"context_window": 10},
    ],
)
def test_wrong_settings_are_refused_everywhere(rest: RestServer, settings: Any) -> None:
    profile = rest.post("/api/profiles", {"name": "good"})
    name = rest.session()
    assert rest.refused("POST", "/api/profiles", {"name": "n", "settings": settings}) == 422
    assert rest.refused("POST", "/api/sessions", {"settings": settings}) == 422
    for path in (f"/api/profiles/{profile['id']}", f"/api/sessions/{name}/agent"):
        assert rest.refused("PATCH", path, {"settings": settings}) == 422
    assert rest.get("/api/profiles")["items"] == [profile]


@pytest.mark.spec("profile-routes")
def test_names_are_unique_for_each_person(rest: RestServer) -> None:
    rest.post("/api/profiles", {"name": "one"})
    two = rest.post("/api/profiles", {"name": "two"})
    assert rest.refused("POST", "/api/profiles", {"name": "one"}) == 409
    assert rest.refused("PATCH", f"/api/profiles/{two['id']}", {"name": "one"}) == 409
    ben = rest.person()
    assert rest.get("/api/profiles", key=ben)["total"] == 0
    assert rest.refused("GET", f"/api/profiles/{two['id']}", key=ben) == 404
    rest.post("/api/profiles", {"name": "one"}, key=ben)
    reader = rest.person("eve", "read")
    assert rest.refused("POST", "/api/profiles", {"name": "x"}, key=reader) == 403


@pytest.mark.spec("session-agent")
def test_a_session_copies_its_profile_and_may_differ(rest: RestServer) -> None:
    profile = rest.post("/api/profiles", {"name": "support", "settings": SETTINGS})
    name = rest.session(profile="support", settings={"temperature": 1.5})
    reference = {"id": profile["id"], "name": "support"}
    agent = rest.get(f"/api/sessions/{name}/agent")
    assert agent["profile"] == reference
    assert agent["settings"]["temperature"] == 1.5
    assert agent["settings"]["max_turns"] == 4
    assert rest.get(f"/api/sessions/{name}")["model"] == "demo"
    rest.delete(f"/api/profiles/{profile['id']}")
    path = f"/api/sessions/{name}/agent"
    assert rest.get(path) == agent
    changed = rest.patch(path, {"settings": {"tools": None, "max_turns": 9}})
    assert "tools" not in changed["settings"]
    assert changed["settings"]["max_turns"] == 9
    other = rest.post("/api/profiles", {"name": "other", "settings": {"effort": "high"}})
    replaced = rest.patch(path, {"profile": other["id"], "settings": {"thinking": True}})
    assert replaced["settings"] == {"effort": "high", "thinking": True}
    assert rest.refused("PATCH", path, {"profile": "nobody"}) == 404
    kinds = [entry.kind for entry in rest.entries(name)]
    assert kinds.count("agent.changed") == 3
    options = "format=json&include=include-internal&internal=full"
    document = rest.get(f"/api/sessions/{name}/export?{options}")
    annotated = [
        event["content"]["data"]
        for event in document["events"]
        if event["type"] == "annotation" and event["content"]["data"]["kind"] == "agent_settings"
    ]
    assert [data["profile"] for data in annotated] == [
        reference,
        reference,
        {"id": other["id"], "name": "other"},
    ]
    assert annotated[0]["settings"]["instructions"] == SETTINGS["instructions"]


def test_concurrent_changes_of_profiles_are_all_kept(rest: RestServer) -> None:
    async def create_many() -> None:
        names = [f"p{number}" for number in range(8)]
        await asyncio.gather(
            *(
                profiles.create_profile(rest.services, owner, name, "", AgentSettings())
                for name in names
            )
        )

    owner = rest.owner
    rest.run(create_many())
    assert rest.get("/api/profiles")["total"] == 8


@pytest.mark.spec("session-agent")
def test_every_setting_is_in_the_session_and_in_its_export(rest: RestServer) -> None:
    settings = {
        "instructions": "Be short.",
        "model": "demo",
        "temperature": 0.3,
        "max_output_tokens": 100,
        "thinking": True,
        "effort": "low",
        "tools": ["Read"],
        "client_tools": [{"name": "look"}],
        "approvals": [{"tool": "Read", "action": "ask"}],
        "compaction_ratio": 0.5,
        "context_window": 9000,
        "accepts": ["image"],
        "max_turns": 3,
        "budget": {"tokens": 100_000},
    }
    assert settings.keys() == set(AgentSettings.__struct_fields__)
    session_id = rest.session(settings=settings)
    shown = rest.get(f"/api/sessions/{session_id}/agent")["settings"]
    sent = {"message": "hello", "settings": {"temperature": 1.0}}
    rest.post(f"/api/sessions/{session_id}/messages", sent)
    document = rest.get(f"/api/sessions/{session_id}/export?format=json")
    annotations = {}
    for event in document["events"]:
        if event["type"] == "annotation":
            data = event["content"]["data"]
            annotations[data["kind"]] = data
    exported = annotations["agent_settings"]["settings"]
    assert exported == shown
    # A client tool has its defaults, too.
    assert {**exported, "client_tools": settings["client_tools"]} == settings
    assert annotations["run_settings"]["settings"] == {"temperature": 1.0}
