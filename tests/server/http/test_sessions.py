"""Routes of sessions: made, listed, found, changed, deleted, read."""

import hashlib

import pytest

from helpers.server.rest_server import RestServer


@pytest.mark.spec("session-create", "session-read", "type-session")
def test_a_session_is_made_and_read(rest: RestServer) -> None:
    made = rest.post(
        "/api/sessions", {"intent": "Mend the build", "model": "demo", "template_id": "t1"}
    )
    assert made.keys() == {"session_id"}
    session = rest.get(f"/api/sessions/{made['session_id']}")
    assert session["id"] == made["session_id"]
    assert (session["intent"], session["model"], session["status"]) == (
        "Mend the build",
        "demo",
        "created",
    )
    assert session["template_id"] == "t1"
    assert session["created_at"].endswith("Z")
    assert (session["viewer_role"], session["solution"], session["primary_skill_snapshot"]) == (
        "owner",
        None,
        None,
    )
    assert session["session_setup"]["template_id"] == "t1"


@pytest.mark.spec("session-create", "session-read")
def test_everything_a_session_is_made_of_is_there_again(rest: RestServer) -> None:
    ours = {
        "model": "demo",
        "memory_enabled": False,
        "is_persistent": True,
        "solution_id": "sol",
        "biz_role_id": "role",
    }
    theirs = {
        "disable_tools": ["Bash"],
        "template_id": "t1",
        "primary_skill_id": "skill",
        "chat_group_id": "g",
        "metadata": {"deep": [1, None, "ü"]},
        "session_solution_asset_id": None,
    }
    agent = {"enable_thinking": True, "compaction_ratio": 0.5, "system_prompt": "Be brief."}
    name = rest.session(**ours, **theirs, **agent, env={"STAGE": "test"})
    session = rest.get(f"/api/sessions/{name}")
    said = {key: value for key, value in {**ours, **theirs}.items() if value is not None}
    assert {key: session[key] for key in said} == said
    settings = {"thinking": True, "compaction_ratio": 0.5, "instructions": "Be brief."}
    assert session["session_setup"] == {**said, "profile": None, "settings": settings}
    assert session["env"] == {"STAGE": "test"}
    (listed,) = rest.get("/api/sessions")["items"]
    assert {key: listed[key] for key in said} == said
    assert "env" not in listed


def test_an_empty_body_makes_a_session(rest: RestServer) -> None:
    assert rest.call("POST", "/api/sessions").status_code == 200
    assert rest.post(
        "/api/sessions", {"intent": "x", "model": None, "env": None, "disable_tools": ["Bash"]}
    )


@pytest.mark.spec("session-create")
@pytest.mark.parametrize("name", ["odd", "id", "status", "user_id", "shared", "app_context"])
def test_fields_without_effect_are_refused_by_name(rest: RestServer, name: str) -> None:
    answer = rest.call("POST", "/api/sessions", json={"intent": "x", name: "secret"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert name in answer.json()["detail"]
    assert "secret" not in answer.text
    assert rest.get("/api/sessions")["total"] == 0


@pytest.mark.spec("session-create")
@pytest.mark.parametrize(
    "body",
    [
        {"intent": 5},
        {"memory_enabled": "yes"},
        {"env": {"A": 1}},
        {"env": {"1A": "x"}},
        {"env": {"A": "\0"}},
        {"env": {"A": "x" * 70_000}},
        {"solution_id": []},
        {"intent": "x" * 300_000},
        {"metadata": {"x": "x" * 300_000}},
        {"runtime_type": "cloud"},
        {"settings": {"temperature": 3}},
        {"settings": {"unknown": 1}},
        {"settings": {"model": "openai:none"}},
        [],
        "text",
    ],
)
def test_wrong_bodies_are_refused_and_nothing_is_made(rest: RestServer, body: object) -> None:
    assert rest.refused("POST", "/api/sessions", body) == 422
    assert rest.get("/api/sessions")["total"] == 0


@pytest.mark.parametrize(
    "raw", [b"{", b'{"intent": NaN}', b'{"intent": "\\ud800"}', b'{"n": 1e999}', b"\xff"]
)
def test_what_is_no_json_is_refused(rest: RestServer, raw: bytes) -> None:
    for kind in ("application/json", "text/plain"):
        answer = rest.call("POST", "/api/sessions", content=raw, headers={"Content-Type": kind})
        assert answer.status_code == 422 or kind == "text/plain", answer.text
        assert answer.status_code < 500


def test_a_long_number_is_kept_as_it_is(rest: RestServer) -> None:
    raw = b'{"metadata": {"n": 1' + b"0" * 40 + b"}}"
    answer = rest.call(
        "POST", "/api/sessions", content=raw, headers={"Content-Type": "application/json"}
    )
    assert rest.get(f"/api/sessions/{answer.json()['session_id']}")["metadata"] == {"n": 10**40}


def test_a_bottomless_body_is_refused(rest: RestServer) -> None:
    raw = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    answer = rest.call(
        "POST", "/api/sessions", content=raw, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422


@pytest.mark.spec("session-list", "session-flags")
def test_the_list_shows_pinned_ones_first_then_the_newest(rest: RestServer) -> None:
    names = [rest.session(intent=f"number {number}") for number in range(5)]
    pinned = rest.patch(f"/api/sessions/{names[1]}/pin", {"pinned": True})
    assert (pinned["id"], pinned["is_pinned"], pinned["intent"]) == (names[1], True, "number 1")
    page = rest.get("/api/sessions", params={"limit": 3})
    assert [item["id"] for item in page["items"]] == [names[1], names[4], names[3]]
    assert (page["total"], page["limit"], page["offset"], page["content_match_truncated"]) == (
        5,
        3,
        0,
        False,
    )
    assert [item["id"] for item in rest.get("/api/sessions?limit=3&offset=3")["items"]] == [
        names[2],
        names[0],
    ]
    rest.patch(f"/api/sessions/{names[1]}/pin", {"pinned": False})
    assert not rest.get(f"/api/sessions/{names[1]}")["is_pinned"]
    changed = rest.get(f"/api/sessions/{names[1]}")["updated_at"]
    while rest.services.clock.now() <= changed:
        pass  # within one millisecond none of them is newer
    rest.say(names[0], "something new")
    assert rest.get("/api/sessions")["items"][0]["id"] == names[0]


@pytest.mark.spec("session-list")
def test_a_part_has_twenty_unless_another_number_is_said(rest: RestServer) -> None:
    for _ in range(21):
        rest.session()
    page = rest.get("/api/sessions")
    assert (len(page["items"]), page["total"], page["limit"], page["offset"]) == (20, 21, 20, 0)
    assert (
        rest.get("/api/sessions?limit=0")["items"],
        rest.get("/api/sessions?offset=21")["items"],
    ) == ([], [])


@pytest.mark.spec("session-list")
def test_the_list_is_searched_by_titles_and_words(rest: RestServer) -> None:
    one, two = rest.session(intent="Mend the build"), rest.session(intent="Something else")
    rest.say(two, "why does the compiler complain")
    assert [item["id"] for item in rest.get("/api/sessions", params={"q": "mend"})["items"]] == [
        one
    ]
    assert [
        item["id"] for item in rest.get("/api/sessions", params={"q": "compiler"})["items"]
    ] == [two]
    assert rest.get("/api/sessions", params={"q": "nowhere"})["total"] == 0
    assert (
        rest.get("/api/sessions", params={"q": "mend compiler"})["content_match_truncated"] is False
    )


@pytest.mark.spec("session-list")
def test_the_list_is_narrowed_to_a_template(rest: RestServer) -> None:
    daily, weekly = (
        rest.session(template_id="report.daily"),
        rest.session(template_id="report.weekly"),
    )
    rest.session(template_id="other")
    found = rest.get("/api/sessions", params={"template_id_prefix": "report."})
    assert ([item["id"] for item in found["items"]], found["total"]) == ([weekly, daily], 2)
    assert (
        rest.get("/api/sessions", params={"template_id_prefix": "report.d", "q": "mend"})["items"][
            0
        ]["id"]
        == daily
    )


@pytest.mark.spec("rest-conventions")
@pytest.mark.parametrize(
    "query",
    [
        "limit=-1",
        "limit=x",
        "offset=-1",
        "limit=99999",
        "q=" + "x" * 2000,
        "template_id_prefix=" + "x" * 201,
    ],
)
def test_wrong_questions_are_refused(rest: RestServer, query: str) -> None:
    assert rest.refused("GET", f"/api/sessions?{query}") == 422


@pytest.mark.spec("session-rename")
def test_the_title_can_be_changed(rest: RestServer) -> None:
    name = rest.session()
    renamed = rest.patch(f"/api/sessions/{name}", {"intent": "Another"})
    assert (renamed["id"], renamed["intent"], renamed["status"]) == (name, "Another", "created")
    assert rest.get(f"/api/sessions/{name}")["intent"] == "Another"
    assert rest.patch(f"/api/sessions/{name}", {})["intent"] == "Another"
    before = rest.state(name).seq
    rest.patch(f"/api/sessions/{name}", {"intent": "Another"})
    assert rest.state(name).seq == before
    assert rest.refused("PATCH", f"/api/sessions/{name}", {"intent": []}) == 422
    assert rest.refused("PATCH", f"/api/sessions/{name}", {"intent": "x" * 300_000}) == 422
    assert rest.get(f"/api/sessions/{name}")["intent"] == "Another"


@pytest.mark.spec("session-delete")
def test_deleting_takes_all_of_it(rest: RestServer) -> None:
    name = rest.session(env={"A": "b"})
    rest.say(name, "hello")
    token = rest.post(f"/api/sessions/{name}/share")["token"]
    assert rest.delete(f"/api/sessions/{name}?delete_workspace=true") == {"deleted": True}
    assert rest.refused("GET", f"/api/sessions/{name}") == 404
    assert rest.refused("DELETE", f"/api/sessions/{name}") == 404
    assert rest.refused("GET", f"/api/sessions/{name}/messages") == 404
    assert rest.refused("GET", f"/api/share/{token}", key=None) == 404
    assert rest.run(rest.services.store.setting(f"env/{name}")) is None


@pytest.mark.spec("session-delete")
@pytest.mark.parametrize(
    ("query", "stays"),
    [("", True), ("?delete_workspace=false", True), ("?delete_workspace=true", False)],
)
def test_files_go_with_a_session_only_when_that_is_said(
    rest: RestServer, query: str, stays: bool
) -> None:
    name = rest.session()
    rest.put(f"/api/sessions/{name}/files/a.txt", {"content": "kept"})
    file = rest.services.workspaces.get(name).folder / "a.txt"
    assert file.read_text() == "kept"
    assert rest.delete(f"/api/sessions/{name}{query}") == {"deleted": True}
    assert file.exists() == stays
    assert rest.refused("GET", f"/api/sessions/{name}/files/a.txt") == 404


@pytest.mark.spec("session-environment")
def test_the_environment_is_kept_out_of_the_log_and_masked(rest: RestServer) -> None:
    secret = "se" + "same"
    name = rest.session(env={"STAGE": "test"})
    shown = rest.put(f"/api/sessions/{name}/env", {"env": {"STAGE": "live", "API_TOKEN": secret}})
    assert shown["env"] == {"STAGE": "live", "API_TOKEN": "********"}
    assert shown["id"] == name
    assert rest.get(f"/api/sessions/{name}")["env"] == shown["env"]
    rest.put(f"/api/sessions/{name}/env", {"env": {**shown["env"], "NEW": "1"}})
    held = rest.run(rest.services.store.setting(f"env/{name}"))
    assert held == '{"STAGE":"live","API_TOKEN":"' + secret + '","NEW":"1"}'
    log = rest.run(rest.services.store.read_log(rest.owner, name))
    assert secret not in repr(log)
    assert rest.put(f"/api/sessions/{name}/env", {"env": {}})["env"] == {}
    assert rest.refused("PUT", f"/api/sessions/{name}/env", {"env": {"A B": "x"}}) == 422
    assert rest.refused("PUT", "/api/sessions/sess_none/env", {"env": {}}) == 404


@pytest.mark.spec("session-flags")
def test_the_switches(rest: RestServer) -> None:
    name = rest.session()
    assert rest.patch(f"/api/sessions/{name}/memory", {"memory_enabled": False}) == {
        "memory_enabled": False
    }
    assert rest.get(f"/api/sessions/{name}")["memory_enabled"] is False
    assert rest.patch(f"/api/sessions/{name}/sharing", {"shared": True}) == {"shared": True}
    assert rest.get(f"/api/sessions/{name}")["shared"] is True
    for place, body in (("memory", {}), ("sharing", {"shared": 1}), ("pin", {"pinned": None})):
        assert rest.refused("PATCH", f"/api/sessions/{name}/{place}", body) == 422


@pytest.mark.spec("session-messages")
def test_messages_are_the_turns_of_the_branch(rest: RestServer) -> None:
    name = rest.session()
    rest.say(name, "one", "two")
    turns = rest.get(f"/api/sessions/{name}/messages")
    assert [turn["blocks"][0]["content"] for turn in turns] == ["one", "two"]
    assert [turn["sequence"] for turn in turns] == [0, 1]


@pytest.mark.spec("session-messages")
def test_messages_show_words_that_still_stream(rest: RestServer) -> None:
    name = rest.session()
    rest.say(name, "hello")
    rest.write(name, [("turn.opened", {"turn": {"turn_id": "turn_a", "role": "assistant"}})])
    rest.write(name, [("text.delta", {"turn_id": "turn_a", "text": "half a"})])
    last = rest.get(f"/api/sessions/{name}/messages")[-1]
    assert (last["status"], last["blocks"][0]["content"]) == ("streaming", "half a")
    rest.write(name, [("turn.ended", {"turn_id": "turn_a"})])
    last = rest.get(f"/api/sessions/{name}/messages")[-1]
    assert (last["status"], last["blocks"][0]["content"]) == ("completed", "half a")


@pytest.mark.spec("session-blobs")
@pytest.mark.parametrize("size", [10, (1 << 20) * 2 + 7])
def test_blobs_are_read_by_who_has_the_session(rest: RestServer, size: int) -> None:
    name, data = rest.session(), bytes(range(256)) * (size // 256 + 1)
    blob = rest.run(rest.services.store.put_blob(data, "application/octet-stream"))
    assert rest.refused("GET", f"/api/sessions/{name}/blobs/{blob.sha256}") == 404
    rest.write(name, [("notice.given", {"message": "kept"})], blobs=[blob.sha256])
    answer = rest.call("GET", f"/api/sessions/{name}/blobs/{blob.sha256}")
    assert hashlib.sha256(answer.content).hexdigest() == blob.sha256
    assert answer.headers["content-disposition"].startswith("attachment")
    assert (
        rest.refused("GET", f"/api/sessions/{name}/blobs/{blob.sha256}", key=rest.person()) == 404
    )
    assert rest.refused("GET", f"/api/sessions/{name}/blobs/..%2Fpepper") == 404


def test_what_is_anothers_is_not_there(rest: RestServer) -> None:
    name, other = rest.session(), rest.person()
    assert rest.get("/api/sessions", key=other)["total"] == 0
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"intent": "x"}),
        ("DELETE", "", None),
        ("PUT", "/env", {"env": {}}),
        ("PATCH", "/pin", {"pinned": True}),
        ("PATCH", "/sharing", {"shared": True}),
        ("PATCH", "/memory", {"memory_enabled": True}),
        ("GET", "/messages", None),
    ):
        assert rest.refused(method, f"/api/sessions/{name}{path}", body, key=other) == 404
    assert rest.get(f"/api/sessions/{name}")["intent"] == "Mend the build"
