"""The traversal reaches everything and copies only what changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.jsontools.walk import (
    MAX_DEPTH,
    estimate_memory,
    iter_string_pointers,
    iter_strings,
    map_strings,
    measure_normalized,
    normalize_json_values,
    replace_lone_surrogates,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_strings_come_in_order_with_keys() -> None:
    assert list(iter_strings({"a": ["b", {"c": 1}], "d": "e"})) == ["a", "b", "c", "d", "e"]


@given(JSON)
def test_rewriting_to_itself_copies_nothing(value: Any) -> None:
    assert map_strings(value, lambda text: text) is value


@given(JSON)
def test_rewriting_reaches_every_string(value: Any) -> None:
    changed = map_strings(value, lambda text: "x" + text)
    assert len(list(iter_strings(changed))) == len(list(iter_strings(value)))
    assert all(text.startswith("x") for text in iter_strings(changed))


def test_keys_that_become_the_same_are_kept_apart() -> None:
    assert map_strings({"a": 1, "b": 2}, lambda text: "k") == {"k": 1, "k#2": 2}


def test_lone_surrogates_are_replaced() -> None:
    assert replace_lone_surrogates({"\ud800": ["ok", "a\udfffb"]}) == {"\ufffd": ["ok", "a\ufffdb"]}


@given(JSON)
def test_settled_json_stays_as_it_is(value: Any) -> None:
    found: list[Any] = []
    assert normalize_json_values(value, lambda *place: found.append(place)) is value
    assert found == []


def test_big_integers_become_text_and_are_reported() -> None:
    found: list[Any] = []
    value = {"a/b": [1, 2**53, {"~": -(2**80)}], "ok": 2**53 - 1, "f": float("inf")}
    settled = normalize_json_values(value, lambda *place: found.append(place))
    assert settled == {"a/b": [1, str(2**53), {"~": str(-(2**80))}], "ok": 2**53 - 1, "f": "inf"}
    assert found == [("/a~1b/1", "integer"), ("/a~1b/2/~0", "integer"), ("/f", "number")]
    assert value["ok"] == 2**53 - 1


def test_what_is_too_deep_becomes_text() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    found: list[Any] = []
    normalize_json_values(value, lambda *place: found.append(place[1]))
    assert found == ["nesting"]


def test_weight_grows_with_the_text() -> None:
    assert estimate_memory({"a": "x" * 1000}) > estimate_memory({"a": "x"}) + 900


@given(JSON)
def test_a_survey_finds_nothing_in_settled_json(value: Any) -> None:
    assert measure_normalized(value) >= 0


@pytest.mark.parametrize("value", [2**53, {"a": [float("nan")]}, [[-(2**53)]], {"a": float("inf")}])
def test_a_survey_finds_what_must_be_settled(value: Any) -> None:
    assert measure_normalized(value) < 0
    assert measure_normalized(normalize_json_values(value, lambda *place: None)) >= 0


def test_a_survey_finds_what_is_too_deep() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    assert measure_normalized(value) < 0


def test_what_is_too_deep_stays_as_the_json_that_it_is() -> None:
    value: Any = "core"
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    settled = normalize_json_values(value, lambda *place: None)
    for _ in range(MAX_DEPTH):
        settled = settled[0]
    assert settled == '[[[[["core"]]]]]'


def test_every_string_has_a_pointer() -> None:
    value = {"a/b": ["x", {"~": "y"}], "n": 1}
    assert list(iter_string_pointers(value, "/content")) == [
        ("/content/a~1b/0", "x"),
        ("/content/a~1b/1/~0", "y"),
    ]


def test_strings_are_rewritten_however_deep_they_stand() -> None:
    value: Any = ["core", 7]
    for number in range(2000):
        value = [value, "rim"] if number % 2 else {"key": value, "n": number}
    new = map_strings(value, str.upper)
    assert list(iter_strings(new)) == [text.upper() for text in iter_strings(value)]
    assert map_strings(value, lambda text: text) is value
