"""Routes of memories: CRUD, filters, batches."""

from typing import Any

import pytest

from helpers.server.rest_server import RestServer

PLACE = "/api/memories"


def add(rest: RestServer, content: str = "Prefers small commits", **more: Any) -> Any:
    return rest.post(PLACE, {"content": content, **more})


@pytest.mark.spec("memory-routes", "type-memory")
def test_a_memory_is_made_read_changed_and_forgotten(rest: RestServer) -> None:
    answer = rest.call(
        "POST", PLACE, {"content": "Prefers small commits", "type": "feedback", "topic": "style"}
    )
    made = answer.json()
    assert answer.status_code == 201
    assert (made["topic"], made["disabled"], made["hit_count"]) == ("style", False, 0)
    place = f"{PLACE}/{made['id']}"
    assert rest.get(place) == made
    changed = rest.put(place, {"content": "Prefers large ones", "type": "experience"})
    assert (changed["content"], changed["type"], changed["topic"]) == (
        "Prefers large ones",
        "experience",
        "style",
    )
    assert rest.put(place, {"content": None, "owner": "ada"})["content"] == "Prefers large ones"
    assert rest.patch(place, {"disabled": True})["disabled"] is True
    assert rest.delete(place) == {"ok": True}
    assert rest.refused("GET", place) == 404


@pytest.mark.spec("memory-list", "type-memory-type", "type-record-type")
def test_filters(rest: RestServer) -> None:
    add(
        rest,
        "uses tabs",
        topic="style",
        type="feedback",
        owner="ada",
        scope="team",
        skill_name="fmt",
    )
    add(rest, "uses spaces", topic="style", type="experience", record_type="skill_comment")
    off = add(rest, "likes tea", disabled=True)
    old = add(rest, "works at night")
    new = add(rest, "works by day", supersedes=[old["id"]])

    def found(**which: str) -> list[str]:
        return [item["content"] for item in rest.get(PLACE, params=which)["items"]]

    assert found(keyword="uses") == ["uses spaces", "uses tabs"]
    assert found(topic="style", type="experience") == ["uses spaces"]
    assert found(owner="ada") == found(scope="team") == found(skill_name="fmt") == ["uses tabs"]
    assert found(record_type="skill_comment") == ["uses spaces"]
    assert found(status="disabled") == [off["content"]]
    assert found(status="superseded") == [old["content"]]
    assert found(status="active") == [new["content"], "uses spaces", "uses tabs"]
    page = rest.get(PLACE, params={"limit": "2", "offset": "1"})
    assert (len(page["items"]), page["total"], page["limit"], page["offset"]) == (2, 5, 2, 1)
    assert rest.get(f"{PLACE}/{old['id']}")["superseded_by"] == new["id"]


@pytest.mark.spec("memory-batch")
def test_batches_count_what_there_was(rest: RestServer) -> None:
    ids = [add(rest, f"fact {number}")["id"] for number in range(3)]
    assert rest.post(f"{PLACE}/batch", {"action": "disable", "ids": [*ids, 999]}) == {
        "ok": True,
        "count": 3,
    }
    assert rest.get(PLACE, params={"status": "disabled"})["total"] == 3
    assert rest.post(f"{PLACE}/batch", {"action": "enable", "ids": ids[:1]}) == {
        "ok": True,
        "count": 1,
    }
    assert rest.post(f"{PLACE}/batch", {"action": "delete", "ids": ids}) == {"ok": True, "count": 3}
    assert rest.post(f"{PLACE}/batch", {"action": "delete", "ids": []}) == {"ok": True, "count": 0}


@pytest.mark.spec("memory-length")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", PLACE, {}),
        ("POST", PLACE, {"content": ""}),
        ("POST", PLACE, {"content": "  "}),
        ("POST", PLACE, {"content": "x" * 501}),
        ("POST", PLACE, {"content": "x", "type": "rumour"}),
        ("POST", PLACE, {"content": "x", "supersedes": [0]}),
        ("POST", PLACE, {"content": "x", "supersedes": [1 << 70]}),
        ("POST", f"{PLACE}/batch", {"action": "burn", "ids": []}),
        ("POST", f"{PLACE}/batch", {"action": "delete", "ids": ["x"]}),
        ("GET", f"{PLACE}/x", None),
        ("GET", f"{PLACE}/0", None),
        ("GET", f"{PLACE}/{1 << 70}", None),
        ("GET", f"{PLACE}?status=odd", None),
        ("GET", f"{PLACE}?type=odd", None),
    ],
)
def test_what_makes_no_sense_is_refused(
    rest: RestServer, method: str, path: str, body: object
) -> None:
    assert rest.refused(method, path, body) == 422


def test_an_empty_content_does_not_replace(rest: RestServer) -> None:
    place = f"{PLACE}/{add(rest)['id']}"
    assert rest.refused("PUT", place, {"content": " "}) == 422
    assert rest.get(place)["content"] == "Prefers small commits"


def test_memories_of_others_are_not_there(rest: RestServer) -> None:
    mine, other = add(rest)["id"], rest.person()
    place = f"{PLACE}/{mine}"
    assert rest.get(PLACE, key=other)["total"] == 0
    for method, body in (
        ("GET", None),
        ("PUT", {"content": "x"}),
        ("PATCH", {"disabled": True}),
        ("DELETE", None),
    ):
        assert rest.refused(method, place, body, key=other) == 404
    assert rest.post(f"{PLACE}/batch", {"action": "delete", "ids": [mine]}, key=other)["count"] == 0
    assert add(rest, "theirs", supersedes=[])["id"] != mine
    assert rest.get(place)["content"] == "Prefers small commits"
