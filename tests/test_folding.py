"""Values beside their events: folded with references, unfolded to what they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.folding import (
    Carried,
    Room,
    TooLarge,
    Unresolved,
    fold,
    shifted,
    unfold,
    unfold_all,
)

LONG = "A long sentence that an event carries, word for word."
EVENTS: list[Any] = [
    {"id": "evt_000001", "content": {"mime": "text/plain", "text": LONG}},
    {
        "id": "evt_000002",
        "content": {"mime": "application/json", "data": {"a/b": ["short", LONG + "!"]}},
    },
]
PLACES = {"evt_000001#/content/text": LONG, "evt_000002#/content/data/a~1b/1": LONG + "!"}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from([LONG, LONG + "!", "$ref"])
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["$ref", "$json", "$like", "$raw", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def folded(value: Any, **how: Any) -> Any:
    return fold(value, Carried(EVENTS).find, **how)


def exactly(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(other) and all(exactly(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(exactly, one, other))
    return type(one) is type(other) and one == other


@given(JSON)
def test_what_is_folded_unfolds(value: Any) -> None:
    assert exactly(unfold(folded(value), PLACES.__getitem__, Room(1 << 20)), value)


def test_a_carried_string_is_a_reference() -> None:
    value = {"text": LONG, "deep": [{"x": LONG + "!"}], "short": "short", "other": LONG + "?"}
    assert folded(value) == {
        "text": {"$ref": "evt_000001#/content/text"},
        "deep": [{"x": {"$ref": "evt_000002#/content/data/a~1b/1"}}],
        "short": "short",
        "other": LONG + "?",
    }


@pytest.mark.parametrize(
    "style", [{}, {"separators": (",", ":")}, {"indent": 2, "ensure_ascii": False}]
)
def test_json_in_a_string_is_looked_into_when_it_can_be_written_again(
    style: dict[str, Any],
) -> None:
    text = json.dumps({"command": LONG, "ä": 1}, **style)
    (mark,) = folded(text)
    assert mark == "$json"
    assert unfold(folded(text), PLACES.__getitem__, Room(1 << 20)) == text
    odd = text.replace(":", " :", 1)
    assert folded(odd) == odd


def test_hidden_reasoning_is_withheld_when_asked() -> None:
    value = {"type": "thinking", "thinking": "hm", "text": "said"}
    assert folded(value, conceal=True) == {
        "type": "thinking",
        "thinking": {"$withheld": "reasoning"},
        "text": "said",
    }
    with pytest.raises(Unresolved):
        unfold(folded(value, conceal=True), PLACES.__getitem__, Room(1 << 20))


def test_what_lies_too_deep_is_told_as_text() -> None:
    value: Any = "end"
    for _ in range(400):
        value = [value]
    assert unfold(folded(value), PLACES.__getitem__, Room(1 << 20)) == value


def test_the_memory_of_places_moves_along_with_the_source() -> None:
    events: list[Any] = [
        {"id": f"evt_{n:06d}", "content": {"text": f"{LONG} number {n} of many"}}
        for n in range(1, 5001)
    ]
    carried = Carried(events, remembered=100)
    found = [carried.find(f"{LONG} number {n} of many") for n in range(1, 5001)]
    assert found == [f"evt_{n:06d}#/content/text" for n in range(1, 5001)]


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": 3},
        {"$json": [9, 1]},
        {"$raw": 1},
        {"$withheld": "x"},
        {"$strange": 1},
        {"$like": [7, {}]},
        {"$lines": ["evt_000001#/content/text", 1, "", True]},
        {"$cut": [1, 2]},
    ],
)
def test_marks_that_say_nothing_cannot_be_resolved(value: Any) -> None:
    with pytest.raises(Unresolved):
        unfold_all([value], PLACES.__getitem__, Room(1 << 20))


def test_records_of_older_exports_unfold() -> None:
    """Changes named without a shift, and told of what stood in the record before."""
    told = [
        {"a": {"$ref": "evt_000001#/content/text"}, "b": {"c": 1, "d": 2}},
        {"$like": [0, {"b": {"$in": {"c": 3}}}]},
    ]
    assert unfold_all(told, PLACES.__getitem__, Room(1 << 20)) == [
        {"a": LONG, "b": {"c": 1, "d": 2}},
        {"a": LONG, "b": {"c": 3, "d": 2}},
    ]


def test_references_of_a_record_that_is_further_on() -> None:
    told = [
        {
            "id": "first",
            "text": {"$ref": "evt_000001#/content/text"},
            "time": {"$ms": "evt_000001#/ts"},
        },
        {"$like": [0, {"id": {"$at": "1/id"}}, 1]},
    ]
    places = {
        "evt_000001#/content/text": "one",
        "evt_000002#/content/text": "two",
        "evt_000001#/ts": "2026-01-01T00:00:00Z",
        "evt_000002#/ts": "2026-01-01T00:00:00.250Z",
    }
    assert unfold_all(told, places.__getitem__, Room(1 << 20)) == [
        {"id": "first", "text": "one", "time": 1767225600000},
        {"id": "first", "text": "two", "time": 1767225600250},
    ]
    assert shifted([{"$raw": ["$ref", "evt_000001#"]}, {"$ref": 4}], 3) == [
        {"$raw": ["$ref", "evt_000001#"]},
        {"$ref": 4},
    ]


@pytest.mark.parametrize(
    "told",
    [
        [{"a": 1}, {"$like": [0, {"a": {"$in": {"b": 1}}}]}],
        [{"a": [1]}, {"$like": [0, {"a": {"$in": {"1": 2}}}]}],
        [{"a": {"$ref": "here"}}, {"$like": [0, {}, 1]}],
        [{"a": {"$ref": "evt_000001#/content/text"}}, {"$like": [0, {}, "x"]}],
        [{"a": {"$at": "1/a"}}],
        [{"a": 1}, {"a": {"$at": "2/a"}}],
        [{"a": 1}, {"a": {"$at": "1/b"}}],
        [{"a": {"$at": 3}}],
        [{"a": {"b": 1}}, {"a": [{"$at": "1/a"}, {"$at": "1/a"}]}],
        [{"a": "b"}, {"a": {"$json": [0, [{"$at": "1/a"}, {"$at": "1/a"}]]}}],
        [{"a": {"$ms": "evt_000001#/content/text"}}],
    ],
)
def test_what_leads_nowhere_cannot_be_resolved(told: list[Any]) -> None:
    with pytest.raises(Unresolved):
        unfold_all(told, {**PLACES, "here": "x"}.__getitem__, Room(1 << 20))


def test_parts_within_parts_have_no_more_room_than_there_is() -> None:
    value: Any = "\\"
    for _ in range(20):
        value = {"$parts": [[value]]}
    with pytest.raises(TooLarge):
        unfold(value, PLACES.__getitem__, Room(1000))
