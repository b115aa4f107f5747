"""The tree of messages: every node once, branches where they fork, circles cut, whatever the
depth."""

import pytest

from open_token.builder.draft import Draft
from open_token.formats.shared.message_tree import BranchRecorder, walk_tree


def steps(
    parents: dict[str, str | None], leaf: str | None = None, rank: dict[str, int] | None = None
) -> str:
    signs = {"node": "", "begin": "(", "end": ")"}
    return "".join(
        ")" if what == "end" else signs[what] + key * (what == "node")
        for what, key in walk_tree(parents, leaf, rank)
    )


@pytest.mark.parametrize(
    ("parents", "leaf", "expected"),
    [
        ({}, None, ""),
        ({"a": None, "b": "a", "c": "b"}, "c", "abc"),
        ({"a": None, "b": "a", "c": "a"}, "b", "a(c)b"),
        ({"a": None, "b": "a", "c": "a"}, "c", "a(b)c"),
        ({"a": None, "b": "a", "c": "a"}, None, "a(b)c"),
        ({"a": None, "b": "a", "c": "b", "d": "b", "e": "a"}, "e", "a(b(c)d)e"),
        ({"a": None, "b": None}, "a", "(b)a"),
        ({"a": "gone", "b": "a"}, "nowhere", "ab"),
        ({"a": "a"}, "a", "a"),
        ({"a": "c", "b": "a", "c": "b"}, "c", "bca"),
        ({"c": "b", "b": "a", "a": None}, "c", "abc"),
    ],
)
def test_every_node_stands_once_behind_its_parent(
    parents: dict[str, str | None], leaf: str | None, expected: str
) -> None:
    assert steps(parents, leaf) == expected


def test_siblings_are_ordered_by_rank() -> None:
    parents = {"a": None, "d": "a", "c": "a", "b": "a"}
    assert steps(parents, "d", {"b": 0, "c": 1, "d": 2}) == "a(b)(c)d"


def test_depth_is_no_limit() -> None:
    line = {str(number): str(number - 1) if number else None for number in range(50_000)}
    assert sum(1 for _ in walk_tree(line, "49999")) == 50_000
    circle = {str(number): str((number + 1) % 50_000) for number in range(50_000)}
    assert sum(1 for _ in walk_tree(circle, "7")) == 50_000


def test_branches_lie_in_one_another() -> None:
    draft = Draft(branches="all")
    actor = draft.get_actor("human", "user")
    branches = BranchRecorder(draft, "left")
    branches.begin()
    branches.begin()
    draft.add_message("user", "inner", actor)
    branches.end()
    draft.add_message("user", "outer", actor)
    branches.end()
    branches.begin()
    branches.end()
    draft.add_message("user", "taken", actor)
    branches.close()
    events = list(draft.finish(lambda: "0" * 64).events)
    kinds = [event["content"].get("text", event["type"]) for event in events]
    assert kinds == ["span_start", "span_start", "inner", "span_end", "outer", "span_end", "taken"]
    spans = [event.get("links", {}).get("span_id", "") for event in events]
    assert spans[0] == spans[4] == spans[5] != spans[1] == spans[2] == spans[3]


def test_branches_are_left_out_otherwise() -> None:
    draft = Draft()
    actor = draft.get_actor("human", "user")
    branches = BranchRecorder(draft, "left")
    branches.begin()
    draft.add_message("user", "left", actor)
    branches.end()
    draft.add_message("user", "taken", actor)
    branches.close()
    assert [event["content"].get("text") for event in draft.finish(lambda: "0" * 64).events] == [
        "taken"
    ]
