"""Fields of JSON values that may have any shape."""

from typing import Any

import pytest

from open_token.jsontools.objects import (
    as_list,
    as_object,
    as_text,
    escape_pointer,
    get_content,
    get_data,
    get_link,
    omit_keys,
)


def test_a_wrong_type_counts_as_empty() -> None:
    assert (as_object([1]), as_list({}), as_text(3)) == ({}, [], "")


def test_omit_keys_copies_the_rest_in_order() -> None:
    value = {"b": 1, "kind": 2, "a": 3}
    assert list(omit_keys(value, "kind", "absent").items()) == [("b", 1), ("a", 3)]
    assert value == {"b": 1, "kind": 2, "a": 3}


def test_escape_pointer() -> None:
    assert escape_pointer("a/b~c") == "a~1b~0c"


@pytest.mark.parametrize("content", [None, [], "x", {"data": "x"}, {"data": None}])
def test_data_that_is_no_object_is_empty(content: Any) -> None:
    assert get_data({"content": content}) == {}


def test_the_content_of_an_event() -> None:
    assert get_content({"content": {"text": "a", "data": {"b": 1}}}) == "a"
    assert get_content({"content": {"text": 3, "data": {"b": 1}}}) == {"b": 1}
    assert get_content({"content": "x"}) is None


def test_a_link_that_is_no_string_is_empty() -> None:
    assert get_link({"links": {"call_id": "c"}}, "call_id") == "c"
    assert get_link({"links": {"call_id": 3}}, "call_id") == ""
    assert get_link({"links": []}, "call_id") == ""
