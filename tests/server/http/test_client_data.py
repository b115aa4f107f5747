"""What clients keep on the server, and the skills of the server, by the documented routes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.server.rest_server import RestServer
from open_token.server.core import client_data, user_documents
from open_token.server.core.environments import MASK


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestServer]:
    """A server with one skill, whose demo model does not wait."""
    skill = tmp_path / "greet"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people.\n---\nSay hi.\n")
    (skill / "scripts" / "hi.sh").write_text("echo hi\n")
    env = {"OPEN_TOKEN_DEMO_DELAY": "0"}
    server = RestServer(tmp_path / "data", env=env, skills=(skill,))
    yield server
    server.close()


@pytest.mark.spec("preferences")
def test_preferences_belong_to_a_person(rest: RestServer) -> None:
    path = "/api/user/preferences/theme"
    assert rest.get(path) == {"value": None}
    assert rest.put(path, {"value": "dark"}) == {"value": "dark"}
    assert rest.get(path) == {"value": "dark"}
    assert rest.get(path, key=rest.person()) == {"value": None}
    assert rest.put(path, {"value": None}) == {"value": None}
    assert rest.refused("PUT", path, {"value": 1}) == 422
    assert rest.refused("PUT", path, {"value": "x", "scope": "all"}) == 422
    assert rest.refused("GET", "/api/user/preferences/a%20b") == 422


@pytest.mark.spec("env-buckets")
def test_a_session_gets_the_variables_of_a_named_environment(rest: RestServer) -> None:
    place = "/api/user/env-buckets/staging"
    assert rest.refused("GET", place) == 404
    rest.put(place, {"env": {"STAGE": "test", "API_KEY": "k-1"}})
    shown = {"bucket": "staging", "env": {"STAGE": "test", "API_KEY": MASK}}
    assert rest.get(place) == shown
    assert rest.get("/api/user/env-buckets") == [shown]
    # What was read may be sent back: the masked value stays.
    rest.put(place, {"env": {**shown["env"], "STAGE": "live"}})  # type: ignore[dict-item]
    session_id = rest.session(env_bucket="staging", env={"MORE": "1"})
    stored = rest.run(rest.services.store.setting(f"env/{session_id}"))
    assert stored == '{"STAGE":"live","API_KEY":"k-1","MORE":"1"}'
    assert rest.refused("POST", "/api/sessions", {"env_bucket": "none"}) == 404
    assert rest.delete(place) == {"bucket": "staging", "status": "deleted"}
    assert rest.refused("DELETE", place) == 404


@pytest.mark.spec("extra-info")
def test_extra_information_is_added_to_and_found_by_its_task(rest: RestServer) -> None:
    session_id = rest.session()
    place = f"/api/sessions/{session_id}"
    assert rest.get(f"{place}/extra_info")["extra"] == {}
    rest.post(f"{place}/upset_extra_info", {"extra": {"task_id": "17", "team": "a"}})
    info = rest.post(f"{place}/upset_extra_info", {"extra": {"team": "b"}})
    assert info["extra"] == {"task_id": "17", "team": "b"}
    assert rest.get(f"{place}/extra_info") == info
    assert rest.get("/api/sessions/extra_info/by_task/17") == info
    assert rest.get("/api/sessions/extra_info/by_task/18")["session_id"] is None
    assert rest.refused("GET", f"{place}/extra_info", key=rest.person()) == 404
    rest.delete(place)
    assert rest.get("/api/sessions/extra_info/by_task/17")["session_id"] is None


def test_what_clients_keep_is_bounded(rest: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_data, "MAX_ENTRIES", 2)
    monkeypatch.setattr(user_documents, "_MAX_BYTES", 2000)
    place = "/api/user/preferences"
    for name in ("a", "b"):
        rest.put(f"{place}/{name}", {"value": "x"})
    assert rest.refused("PUT", f"{place}/c", {"value": "x"}) == 409
    assert rest.refused("PUT", f"{place}/b", {"value": "x" * 2000}) == 422
    assert rest.get(f"{place}/b") == {"value": "x"}
    extra = f"/api/sessions/{rest.session()}/upset_extra_info"
    rest.post(extra, {"extra": {"a": "x" * 1000}})
    assert rest.refused("POST", extra, {"extra": {"b": "x" * 1000}}) == 422


@pytest.mark.spec("share-file")
def test_a_file_is_copied_to_the_shared_folder(rest: RestServer) -> None:
    place = f"/api/sessions/{rest.session()}"
    rest.put(f"{place}/files/out/a.csv", {"content": "a,b"})
    shared = rest.post(f"{place}/share-file", {"source_path": "out/a.csv"})
    assert shared == {"path": ".share/a.csv", "target": "out/a.csv"}
    named = {"source_path": "out/a.csv", "link_name": "b.csv", "share_folder": "week"}
    assert rest.post(f"{place}/share-file", named)["path"] == ".share/week/b.csv"
    assert rest.call("GET", f"{place}/files/.share/week/b.csv").text == "a,b"
    assert rest.refused("POST", f"{place}/share-file", {"source_path": "none"}) == 404
    outside = {"source_path": "out/a.csv", "share_folder": "../.."}
    assert rest.refused("POST", f"{place}/share-file", outside) == 400


@pytest.mark.spec("skill-routes")
def test_skills_of_the_server_are_listed_searched_and_read(rest: RestServer) -> None:
    skills = rest.get("/api/skills")
    assert [skill["id"] for skill in skills] == ["greet", "stream-of-consciousness"]
    assert rest.get("/api/skills/installed") == skills
    found = rest.get("/api/skills/search?q=who+greets+people")["results"]
    assert found[0]["id"] == "greet"
    assert rest.get("/api/skills/search?q=zebra") == {"results": []}
    whole = rest.get("/api/skills/greet")
    assert "Say hi." in whole["content"]
    assert sorted(whole["files"]) == ["SKILL.md", "scripts/hi.sh"]
    assert rest.refused("GET", "/api/skills/none") == 404


@pytest.mark.spec("skill-install")
def test_a_skill_is_installed_into_a_session_and_its_use_counted(rest: RestServer) -> None:
    session_id = rest.session()
    place = f"/api/sessions/{session_id}"
    installed = rest.post(f"{place}/skills/install", {"skill_id": "greet"})
    assert (installed["skill_dir"], installed["file_count"]) == (".skills/greet", 2)
    sources = {skill["name"]: skill["source"] for skill in rest.get(f"{place}/skills")}
    assert sources["greet"] == "session"
    assert rest.post(f"{place}/skills:resync")["count"] == 2
    assert rest.get(f"{place}/skill-stats") == {"skills": {}, "total": 0}
    turn = {"turn_id": "turn_1"}
    call = {"id": "c1", "tool_name": "Skill", "arguments": '{"name": "greet"}'}
    steps = [
        ("turn.opened", {"turn": {**turn, "loop_id": "root"}}),
        ("tool.called", {**turn, "call": call}),
        ("tool.result", {**turn, "tool_call_id": "c1", "result": "hi", "status": "done"}),
        ("turn.ended", turn),
    ]
    rest.write(session_id, steps)
    assert rest.get(f"{place}/skill-stats") == {"skills": {"greet": 1}, "total": 1}
    assert rest.refused("POST", f"{place}/skills/install", {"skill_id": "none"}) == 404


@pytest.mark.spec("file-rename-copy")
def test_a_copy_without_a_name_gets_one(rest: RestServer) -> None:
    place = f"/api/sessions/{rest.session()}/files/a.txt"
    rest.put(place, {"content": "a"})
    assert rest.call("POST", f"{place}/copy").json() == {"path": "a_copy.txt"}
    assert rest.call("POST", f"{place}/copy").json() == {"path": "a_copy_2.txt"}


def test_a_field_that_is_not_known_is_refused_everywhere(rest: RestServer) -> None:
    place = f"/api/sessions/{rest.session()}"
    bodies = (
        ("PATCH", place, {"intent": "x"}),
        ("PATCH", f"{place}/pin", {"pinned": True}),
        ("PATCH", f"{place}/memory", {"memory_enabled": True}),
        ("POST", f"{place}/replay", {"speed": 1}),
        ("PUT", f"{place}/files/a.txt", {"content": "a"}),
        ("POST", "/api/memories", {"content": "likes tea"}),
        ("POST", "/api/user/api-keys/", {"name": "k"}),
        ("POST", "/api/scheduled-tasks", {"title": "t", "prompt": "p", "cron": "0 9 * * *"}),
        ("POST", "/api/sessions/tokenize/prompt", {"prompt": "a"}),
    )
    for method, path, body in bodies:
        answer = rest.call(method, path, {**body, "colour": "red"})
        assert answer.status_code == 422, path
        assert "colour" in answer.json()["detail"], path
