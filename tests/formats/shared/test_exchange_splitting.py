"""A request and its response are found under the names and in the wrappings that recorders use."""

from typing import Any

import pytest

from open_token.formats.shared.api_detection import split_exchange

ASK = {"messages": []}
TELL = {"choices": []}


@pytest.mark.parametrize(
    "record",
    [
        {"request": ASK, "response": TELL},
        {"request_body": ASK, "response_body": TELL},
        {"req": {"body": ASK}, "res": {"status": 200, "parsed_body": TELL}},
        {"request": '{"messages": []}', "response": {"body": {"string": '{"choices": []}'}}},
        {"messages": [], "response": TELL},
    ],
)
def test_both_sides(record: dict[str, Any]) -> None:
    assert split_exchange(record) == (ASK, TELL)


def test_one_side() -> None:
    assert split_exchange({"response": TELL}) == (None, TELL)
    assert split_exchange({"request": ASK}) == (ASK, None)


@pytest.mark.parametrize("record", [{}, ASK, TELL, {"type": "response.created", "response": {}}])
def test_no_pair(record: dict[str, Any]) -> None:
    assert split_exchange(record) is None


def test_a_stream_as_text() -> None:
    text = 'event: x\r\ndata: {"a": "\u2028"}\r\n\r\ndata: {"b": 2}\n\n'
    both = [{"a": "\u2028"}, {"b": 2}]
    assert split_exchange({"response": text}) == (None, both)
    assert split_exchange({"response": text + "data: [DONE]\n\n"}) == (None, both)
    assert split_exchange({"response": text + 'data: {"c": "half'}) == (None, both)
    assert split_exchange({"response": "data: {\n" + text}) == (None, "data: {\n" + text)


def test_words_stay_words() -> None:
    assert split_exchange({"request": ASK, "response": "plain words"}) == (ASK, "plain words")
