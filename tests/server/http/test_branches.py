"""Routes of the tree: history, checkpoints, going back and across."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.rest_server import RestServer
from helpers.server.server_client import ServerClient, run_with_server


def words(rest: RestServer, name: str) -> list[str]:
    return [turn["blocks"][0]["content"] for turn in rest.get(f"/api/sessions/{name}/messages")]


@pytest.mark.spec("session-messages", "rewind-and-switch")
def test_going_back_and_across(rest: RestServer) -> None:
    name = rest.session()
    place = f"/api/sessions/{name}"
    first, second = rest.say(name, "one", "two")
    went = rest.post(f"{place}/rewind", {"checkpoint_id": second})
    turn = rest.get(f"{place}/messages")[-1]
    assert went == {
        "session_id": name,
        "checkpoint_id": second,
        "head": turn["id"],
        "turn_id": turn["turn_id"],
        "leaf_id": first,
    }
    assert words(rest, name) == ["one"]
    (third,) = rest.say(name, "another two")
    assert words(rest, name) == ["one", "another two"]
    across = rest.post(f"{place}/switch-branch", {"checkpoint_id": second})
    assert words(rest, name) == ["one", "two"]
    assert (across["head"], across["leaf_id"]) == (rest.get(f"{place}/messages")[-1]["id"], second)
    rest.post(f"{place}/switch-branch", {"checkpoint_id": third})
    assert words(rest, name) == ["one", "another two"]
    assert rest.post(f"{place}/rewind", {"checkpoint_id": first})["head"] is None
    assert words(rest, name) == []
    nodes = rest.get(f"{place}/history")["nodes"]
    assert [node["turn"]["blocks"][0]["content"] for node in nodes] == ["one", "two", "another two"]
    assert not any(node["active"] for node in nodes)


@pytest.mark.spec("session-history", "type-history-node")
def test_history_has_the_whole_tree(rest: RestServer) -> None:
    name = rest.session()
    _, second = rest.say(name, "one", "two")
    rest.post(f"/api/sessions/{name}/rewind", {"checkpoint_id": second})
    (third,) = rest.say(name, "another two")
    tree = rest.get(f"/api/sessions/{name}/history")
    assert tree.keys() == {"nodes", "system_prompt_tokens", "tools_tokens", "tokenizer_model"}
    assert [node["active"] for node in tree["nodes"]] == [True, False, True]
    assert [node["parent_id"] for node in tree["nodes"]] == [
        None,
        tree["nodes"][0]["id"],
        tree["nodes"][0]["id"],
    ]
    turn = rest.get(f"/api/sessions/{name}/messages")[-1]
    assert tree["nodes"][1]["checkpoint_id"] == second
    assert tree["nodes"][2] == {
        "id": turn["id"],
        "parent_id": tree["nodes"][0]["id"],
        "kind": "message",
        "turn_id": turn["turn_id"],
        "role": "user",
        "created_at": turn["started_at"],
        "checkpoint_id": third,
        "active": True,
        "turn": turn,
    }


@pytest.mark.spec("session-checkpoints", "type-checkpoint")
def test_checkpoints_and_their_last(rest: RestServer) -> None:
    name = rest.session()
    first, second = rest.say(name, "one", "two")
    made = rest.get(f"/api/sessions/{name}/checkpoints")
    assert [point["checkpoint_id"] for point in made["nodes"]] == [first, second]
    assert made["leaf_id"] == second
    assert [point["is_leaf"] for point in made["nodes"]] == [False, True]
    turn = rest.get(f"/api/sessions/{name}/messages")[-1]
    assert made["nodes"][1] == {
        "checkpoint_id": second,
        "turn_id": turn["turn_id"],
        "parent_id": first,
        "label": None,
        "created_at": turn["started_at"],
        "is_leaf": True,
    }


@pytest.mark.spec("checkout-preview")
@pytest.mark.parametrize(("position", "seen"), [("before", ["one"]), ("turn_end", ["one", "two"])])
def test_looking_changes_nothing(rest: RestServer, position: str, seen: list[str]) -> None:
    name = rest.session()
    _, second, _ = rest.say(name, "one", "two", "three")
    before = rest.state(name).seq
    made = rest.post(
        f"/api/sessions/{name}/checkout", {"checkpoint_id": second, "position": position}
    )
    assert [turn["blocks"][0]["content"] for turn in made["turns"]] == seen
    assert rest.state(name).seq == before


def test_an_agent_at_work_is_not_moved(rest: RestServer) -> None:
    name = rest.session()
    (first,) = rest.say(name, "one")
    rest.write(name, [("run.started", {"run_id": "run_1"})])
    assert rest.refused("POST", f"/api/sessions/{name}/rewind", {"checkpoint_id": first}) == 409
    assert words(rest, name) == ["one"]


@pytest.mark.spec("rewind-and-switch")
@pytest.mark.parametrize("verb", ["rewind", "switch-branch", "checkout"])
def test_wrong_places_are_refused(rest: RestServer, verb: str) -> None:
    place = f"/api/sessions/{rest.session()}/{verb}"
    assert rest.refused("POST", place, {"checkpoint_id": "cp_none"}) == 404
    assert rest.refused("POST", place, {}) == 422
    assert rest.refused("POST", place, {"checkpoint_id": 7}) == 422
    assert rest.refused("POST", f"/api/sessions/none/{verb}", {"checkpoint_id": "x"}) == 404
    if verb == "checkout":
        assert rest.refused("POST", place, {"checkpoint_id": "x", "position": "after"}) == 422


@pytest.mark.spec("session-history", "context-stats", "type-context-stats")
def test_what_fills_the_window(rest: RestServer) -> None:
    name = rest.session()
    rest.say(name, "some words")
    stats = rest.get(f"/api/sessions/{name}/context-stats")
    assert stats.keys() == {"model", "context_window", "used_tokens", "parts", "estimated"}
    assert stats["parts"].keys() == {"system", "tools", "memory", "history", "pending"}
    assert stats["used_tokens"] == sum(stats["parts"].values())
    assert (stats["model"], stats["context_window"], stats["estimated"]) == ("demo", 32_000, True)
    assert stats["parts"]["pending"] > 0
    assert stats["parts"]["tools"] > 100
    tree = rest.get(f"/api/sessions/{name}/history")
    assert (tree["system_prompt_tokens"], tree["tools_tokens"]) == (
        stats["parts"]["system"],
        stats["parts"]["tools"],
    )
    assert tree["tokenizer_model"] == "estimate"
    bare = rest.session(disable_tools=True)
    assert rest.get(f"/api/sessions/{bare}/context-stats")["parts"]["tools"] == 0


@pytest.mark.spec("session-compact")
def test_compacting_is_the_chats_matter(rest: RestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    name, asked = rest.session(), []

    async def compact(caller: object, session_id: str) -> dict[str, object]:
        asked.append(session_id)
        return {"status": "ok", "message": "done", "code": None}

    monkeypatch.setattr(rest.services.chat, "compact", compact)
    assert rest.post(f"/api/sessions/{name}/compact") == {
        "status": "ok",
        "message": "done",
        "code": None,
    }
    assert asked == [name]


@pytest.mark.spec("session-compact")
def test_a_compaction_is_answered_with_its_entry(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.services.journal.create(ask.owner, {"id": "sess_0"})
        refused = await ask("POST", "/api/sessions/sess_0/compact")
        await ask.create_session()
        made = await ask("POST", "/api/sessions/sess_1/compact")
        return refused, made.json(), (await ask("GET", "/api/sessions/sess_1/messages")).json()

    refused, made, turns = run_with_server(tmp_path, test)
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_compact")
    entry = turns[-1]
    assert (entry["kind"], entry["role"], entry["status"]) == ("compaction", "system", "completed")
    assert made["entry"] == entry
    names = ("id", "turn_id", "compaction_id", "summary_preview", "summary_full", "archived_count")
    names += ("tokens_before", "tokens_after", "saved_ratio", "trigger")
    assert {name: made[name] for name in names} == {name: entry[name] for name in names}
    assert (made["status"], made["trigger"], made["archived_count"]) == ("ok", "manual", 3)
    assert [turn["turn_id"] for turn in turns[:-1]] == ["turn_1", "turn_2", "turn_3"]


def test_trees_of_others_are_not_there(rest: RestServer) -> None:
    name, other = rest.session(), rest.person()
    (first,) = rest.say(name, "one")
    for method, verb in (
        ("GET", "history"),
        ("GET", "checkpoints"),
        ("GET", "context-stats"),
        ("POST", "rewind"),
        ("POST", "switch-branch"),
        ("POST", "checkout"),
        ("POST", "compact"),
    ):
        body = {"checkpoint_id": first} if method == "POST" else None
        assert rest.refused(method, f"/api/sessions/{name}/{verb}", body, key=other) == 404
