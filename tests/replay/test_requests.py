"""Requests: input after the last response, last calls, results by id."""

from open_token.replay.requests import (
    Item,
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolResult,
)


def asked(*items: Item) -> ModelRequest:
    return ModelRequest("chat", "m", False, list(items))


def test_the_tail_is_what_came_after_the_model() -> None:
    one, two = ToolCall("a", "ls", {}), ToolCall("b", "cat", {})
    got = [ToolResult("a", "", "x"), ToolResult("b", "", "y")]
    request = asked(
        Message("user", "go"), Message("model", "I look"), one, two, *got, Message("user", "and?")
    )
    assert request.prompts == ["and?"]
    assert request.results == got
    assert request.last_calls == [one, two]
    assert request.last_text == "I look"
    assert request.all_results == {"a": got[0], "b": got[1]}
    assert request.all_calls == {"a": one, "b": two}


def test_a_first_request_and_an_empty_one() -> None:
    assert (asked(Message("user", "go")).prompts, asked(Message("user", "go")).last_text) == (
        ["go"],
        "",
    )
    assert (asked().prompts, asked().results, asked().last_calls, asked().end) == ([], [], [], 0)


def test_a_response_has_text_and_calls() -> None:
    call = ToolCall("a", "ls", {})
    answer = ModelResponse("1", ["one", call, "two"])
    assert (answer.text, answer.calls) == ("one\n\ntwo", [call])
