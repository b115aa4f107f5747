"""Records that are told by what differs: shorter, and the same again."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from open_token.folding import Carried, Room, fold, unfold_all
from open_token.likeness import liken
from open_token.nearby import Nearby
from open_token.walk import MAX_DEPTH
from there_and_back import exactly

LONG = "A long sentence that an event carries, word for word, with the number"
MINUTE = 1767225600000


def event(number: int) -> Any:
    return {
        "id": f"evt_{number:06d}",
        "ts": f"2026-01-01T00:00:{number:02d}.500Z",
        "content": {
            "text": f"{LONG} {number}",
            "data": {"native_call_id": f"call_of_the_tool_{number:04d}"},
        },
        "usage": {"output_tokens": 100 + number},
    }


EVENTS = [event(number) for number in range(1, 30)]


def resolve(reference: str) -> Any:
    name, _, pointer = reference.partition("#/")
    value = EVENTS[int(name[4:]) - 1]
    for step in pointer.split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def told(records: list[Any]) -> list[Any]:
    carried = Carried(EVENTS)
    made = liken([fold(record, carried.find) for record in records], Nearby(EVENTS))
    assert exactly(unfold_all(made, resolve, Room(1 << 30)), records)
    return made


def test_only_what_differs_is_told_of_records_with_the_same_keys() -> None:
    records = [{"id": n, "cwd": "/work", "type": "user"} for n in range(3)]
    assert liken(records) == [records[0], {"$like": [0, {"id": 1}]}, {"$like": [1, {"id": 2}]}]
    deep = [{"a": {"same": "x", "n": n}, "b": n} for n in range(2)]
    assert liken(deep) == [deep[0], {"$like": [0, {"a": {"$in": {"n": 1}}, "b": 1}]}]
    listed = [
        {"content": [{"type": "text", "cut": False, "citations": None, "n": n}, {"x": "y"}]}
        for n in range(2)
    ]
    assert liken(listed)[1] == {"$like": [0, {"content": {"$in": {"0": {"$in": {"n": 1}}}}}]}


def test_one_and_true_are_not_the_same() -> None:
    told([{"a": 1, "b": 1.0, "c": True}, {"a": True, "b": 1, "c": 1.0}])


def test_what_the_event_tells_is_not_told_again() -> None:
    records = [
        {
            "time": f"2026-01-01T00:00:{n:02d}.500Z",
            "ms": MINUTE + n * 1000 + 500,
            "call": f"call_of_the_tool_{n:04d}",
            "said": f"{LONG} {n}",
            "output": 100 + n,
        }
        for n in range(1, 20, 2)
    ]
    made = told(records)
    assert made[0]["said"] == {"$ref": "evt_000001#/content/text"}
    assert made[1:] == [{"$like": [n, {}, 2]} for n in range(9)]


def test_what_stood_in_an_earlier_record_is_named_by_its_place() -> None:
    names = [f"a-name-of-a-record-{n:04d}" for n in range(8)]
    records = [
        {"uuid": name, "parent": before} for name, before in zip(names[1:], names, strict=False)
    ]
    made = told(records)
    assert made[2:] == [{"$like": [n, {"uuid": names[n + 2]}]} for n in range(1, 6)]
    assert made[1]["$like"][1]["parent"] == {"$at": "1/uuid"}


def test_what_never_changes_is_told_once() -> None:
    made = told(
        [
            {"kind": "a", "hash": "0123456789abcdef"},
            *({"hash": "0123456789abcdef", "n": n} for n in range(5)),
        ]
    )
    assert made[3:] == [{"$like": [n, {"n": n}]} for n in range(2, 5)]


def test_a_value_stays_with_the_key_that_tells_what_it_is() -> None:
    """Whether it is a secret may be known by its key alone, so it is not only referred to there."""
    word = "a-word-that-looks-like-nothing"
    made = told([{"note": word}, {"password": word, "n": 1}, {"password": word + "2", "n": 2}])
    assert made[1]["password"] == word
    assert made[2]["$like"][1]["password"] == word + "2"
    headers = [
        [{"name": "X-Session", "value": f"{n}-of-many"}, {"name": "Accept", "value": "*"}]
        for n in range(2)
    ]
    assert told([{"headers": pairs} for pairs in headers])[1] == {
        "$like": [0, {"headers": {"$in": {"0": headers[1][0]}}}]
    }
    flags = [["--pass-word-file", f"value-{n}-of-many-values"] for n in range(2)]
    assert told([{"argv": words} for words in flags])[1] == {"$like": [0, {"argv": flags[1]}]}


def depth_of(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth_of, items), default=0)


def test_marks_make_nothing_deeper_than_an_event_may_be() -> None:
    """Found by the fuzzer: an export of such an export had other bytes."""

    def nested(end: Any) -> Any:
        value = end
        for number in range(99):
            value = {"a": json.dumps({"b": value}) if number > 95 else value, "same": 1}
        return value

    assert max(map(depth_of, told([nested(0), nested(1)]))) < MAX_DEPTH - 10


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(1, 29).map(lambda n: MINUTE + n * 1000 + 500)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["$ref", "$at", "evt_000001#/ts", "a-name-of-a-record-0001", "2/a/b"])
    | st.integers(1, 29).map(lambda n: f"{LONG} {n}")
    | st.integers(1, 29).map(lambda n: f"call_of_the_tool_{n:04d}")
    | st.integers(1, 29).map(lambda n: f"2026-01-01T00:00:{n:02d}.500Z")
    | st.integers(1, 29).map(lambda n: 100 + n)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "$in", "$like", "name", "value", "~/"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}) | VALUES, max_size=8))
def test_whatever_they_hold_they_come_back(records: list[Any]) -> None:
    told(records)
