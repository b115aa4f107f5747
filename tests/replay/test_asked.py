"""What a request holds: its tail, its last calls, results by id."""

from open_token.replay.asked import Answer, Asked, Got, Item, Made, Said


def asked(*items: Item) -> Asked:
    return Asked("chat", "m", False, list(items))


def test_the_tail_is_what_came_after_the_model() -> None:
    one, two = Made("a", "ls", {}), Made("b", "cat", {})
    got = [Got("a", "", "x"), Got("b", "", "y")]
    request = asked(
        Said("user", "go"), Said("model", "I look"), one, two, *got, Said("user", "and?")
    )
    assert request.prompts == ["and?"]
    assert request.results == got
    assert request.last_calls == [one, two]
    assert request.last_words == "I look"
    assert request.all_results == {"a": got[0], "b": got[1]}
    assert request.all_calls == {"a": one, "b": two}


def test_a_first_request_and_an_empty_one() -> None:
    assert (asked(Said("user", "go")).prompts, asked(Said("user", "go")).last_words) == (["go"], "")
    assert (asked().prompts, asked().results, asked().last_calls, asked().end) == ([], [], [], 0)


def test_an_answer_tells_words_and_calls() -> None:
    call = Made("a", "ls", {})
    answer = Answer("1", ["one", call, "two"])
    assert (answer.text, answer.calls) == ("one\n\ntwo", [call])
