"""Values beside their events: folded with references, unfolded to what they were."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.folding import Carried, Unresolved, fold, liken, unfold, unfold_all
from open_token.walk import MAX_DEPTH

LONG = "A long sentence that an event carries, word for word."
EVENTS: list[Any] = [
    {"id": "evt_000001", "content": {"mime": "text/plain", "text": LONG}},
    {"id": "evt_000002", "content": {"mime": "application/json", "data": {"a/b": ["short", LONG + "!"]}}},
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
            st.text(max_size=3) | st.sampled_from(["$ref", "$json", "$like", "$raw", "a"]), inner, max_size=4
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
    assert exactly(unfold(folded(value), PLACES.__getitem__), value)


@given(st.lists(st.dictionaries(st.sampled_from("abc$"), JSON, min_size=3) | JSON, max_size=6))
def test_records_told_by_their_differences_unfold(values: list[Any]) -> None:
    told = liken([folded(value) for value in values])
    assert exactly(unfold_all(told, PLACES.__getitem__), values)


def test_a_carried_string_is_a_reference() -> None:
    value = {"text": LONG, "deep": [{"x": LONG + "!"}], "short": "short", "other": LONG + "?"}
    assert folded(value) == {
        "text": {"$ref": "evt_000001#/content/text"},
        "deep": [{"x": {"$ref": "evt_000002#/content/data/a~1b/1"}}],
        "short": "short",
        "other": LONG + "?",
    }


@pytest.mark.parametrize("style", [{}, {"separators": (",", ":")}, {"indent": 2, "ensure_ascii": False}])
def test_json_in_a_string_is_looked_into_when_it_can_be_written_again(style: dict[str, Any]) -> None:
    text = json.dumps({"command": LONG, "ä": 1}, **style)
    (mark,) = folded(text)
    assert mark == "$json"
    assert unfold(folded(text), PLACES.__getitem__) == text
    odd = text.replace(":", " :", 1)
    assert folded(odd) == odd


def test_only_what_differs_is_told_of_records_with_the_same_keys() -> None:
    records = [{"id": n, "cwd": "/work", "type": "user"} for n in range(3)]
    assert liken(records) == [records[0], {"$like": [0, {"id": 1}]}, {"$like": [1, {"id": 2}]}]
    deep = [{"a": {"same": "x", "n": n}, "b": n} for n in range(2)]
    assert liken(deep) == [deep[0], {"$like": [0, {"a": {"$in": {"n": 1}}, "b": 1}]}]


def test_one_and_true_are_not_the_same() -> None:
    records = [{"a": 1, "b": 1.0, "c": True}, {"a": True, "b": 1, "c": 1.0}]
    assert exactly(unfold_all(liken(records), PLACES.__getitem__), records)


def test_hidden_reasoning_is_withheld_when_asked() -> None:
    value = {"type": "thinking", "thinking": "hm", "text": "said"}
    assert folded(value, conceal=True) == {"type": "thinking", "thinking": {"$withheld": "reasoning"}, "text": "said"}
    with pytest.raises(Unresolved):
        unfold(folded(value, conceal=True), PLACES.__getitem__)


def test_what_lies_too_deep_is_told_as_text() -> None:
    value: Any = "end"
    for _ in range(400):
        value = [value]
    assert unfold(folded(value), PLACES.__getitem__) == value


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

    pair = [folded(nested(number)) for number in range(2)]
    told = liken(pair)
    assert max(map(depth_of, told)) < MAX_DEPTH - 8
    assert unfold_all(told, PLACES.__getitem__) == [nested(0), nested(1)]


def test_the_memory_of_places_moves_along_with_the_source() -> None:
    events: list[Any] = [
        {"id": f"evt_{n:06d}", "content": {"text": f"{LONG} number {n} of many"}} for n in range(1, 5001)
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
        unfold_all([value], PLACES.__getitem__)
