"""Source values in JSON that everybody reads alike, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.restore_check import is_identical
from open_token.native.encoding import Withheld, decode_value, encode_value
from open_token.native.references import UnresolvedValue

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(["$ref", "$int"])
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.sampled_from(["$ref", "$int", "$like", "$raw", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_what_is_encoded_decodes(value: Any) -> None:
    assert is_identical(decode_value(encode_value(value)), value)


def test_plain_values_are_not_copied() -> None:
    value = {"text": "hello", "list": [{"x": 1.5}], "none": None}
    assert encode_value(value) is value


def test_hidden_reasoning_is_withheld_when_asked() -> None:
    value = {"type": "thinking", "thinking": "hm", "text": "said"}
    encoded = encode_value(value, withheld=Withheld(reasoning=True))
    assert encoded == {
        "type": "thinking",
        "thinking": {"$withheld": "reasoning"},
        "text": "said",
    }
    with pytest.raises(UnresolvedValue):
        decode_value(encoded)


def test_deep_values_become_text() -> None:
    value: Any = "end"
    for _ in range(400):
        value = [value]
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        {"$ref": "evt_000001#/content/text"},
        {"$ref": 3},
        {"$json": [0, 1]},
        {"$raw": 1},
        {"$withheld": "x"},
        {"$strange": 1},
        {"$like": [0, {}]},
        {"$int": 7},
        {"a": [{"$deep": []}]},
    ],
)
def test_unknown_or_malformed_wrappers_are_refused(value: Any) -> None:
    with pytest.raises(UnresolvedValue):
        decode_value(value)
