"""What a source repeats is told once; what a person says twice is told twice."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.messages import Call, Part, Result, Said, Text, Thought
from open_token.formats.shared.repeated_history import Stage, Talk
from readers.told import brief


def user(text: str) -> Said:
    return Said("user", [Text(text)])


def model(*parts: Part | str) -> Said:
    return Said("assistant", [Text(part) if isinstance(part, str) else part for part in parts])


class Telling:
    """A talk and what came of it."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.talk = Talk(self.draft)

    def stage(self, scope: object = None) -> Stage:
        return Stage(self.draft.get_actor("model", "assistant"), "record 1", scope=scope)

    def hear(self, *messages: Said, scope: object = None) -> None:
        self.talk.hear(messages, self.stage(scope))

    def say(self, message: Said) -> None:
        self.talk.say(message, self.stage())

    def told(self) -> list[Any]:
        return brief(list(self.draft.finish(lambda: "0" * 64).events))


def test_a_history_is_told_once() -> None:
    made = Telling()
    made.hear(user("a"))
    made.say(model("b"))
    made.hear(user(" a "), model("b"), user("c"))
    assert made.told() == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_the_same_words_again_are_new_words() -> None:
    made = Telling()
    made.hear(user("go on"))
    made.say(model("x"))
    made.hear(user("go on"), model("x"), user("go on"))
    made.say(model("x"))
    assert [text for _, text in made.told()] == ["go on", "x", "go on", "x"]


def test_words_behind_the_last_answer_are_new_also_when_the_history_is_cut() -> None:
    made = Telling()
    for answer in ("one", "two", "three"):
        made.hear(user("go on"))
        made.say(model(answer))
        made.hear(model(answer), user("go on"))
    assert [text for _, text in made.told()] == [
        "go on",
        "one",
        "go on",
        "two",
        "go on",
        "three",
        "go on",
    ]


def test_calls_and_results_are_known_by_id() -> None:
    made = Telling()
    made.say(model(Thought("t"), "w", Call("1", "f", {})))
    made.hear(model("w"), model(Call("1", "f", {"later": True})), Said("tool", [Result("1", "r")]))
    made.hear(model("w", Call("1", "f", {})), Said("tool", [Result("1", "other words")]))
    assert [role for role, _ in made.told()] == [
        "assistant_thought",
        "assistant",
        "assistant",
        "tool",
    ]


def test_results_that_came_in_another_order_are_told_once() -> None:
    made = Telling()
    made.say(model(Call("1", "f", {}), Call("2", "f", {})))
    for native in ("2", "1"):
        made.talk.result(Result(native, native), made.stage())
        made.talk.told(Result(native, native), made.stage())
    made.hear(
        model(Call("1", "f", {}), Call("2", "f", {})),
        Said("tool", [Result("1", "1"), Result("2", "2")]),
    )
    assert [text for role, text in made.told() if role != "assistant"] == ["2", "1"]


def test_another_scope_is_another_history() -> None:
    made = Telling()
    made.hear(user("a"))
    made.hear(user("a"), scope="agent")
    assert len(made.told()) == 2


def test_results_without_ids_answer_the_oldest_call() -> None:
    made = Telling()
    made.say(model(Call(None, "f", {"n": 1}), Call(None, "f", {"n": 2})))
    made.hear(Said("tool", [Result(None, "x", "f"), Result(None, "y", "f")]))
    assert [text for role, text in made.told() if role == "tool"] == ["x", "y"]


def test_a_tool_that_ran_finds_its_call() -> None:
    made = Telling()
    made.say(model(Call(None, "f", {"n": 1}), Call(None, "f", {"n": 2}), Call("9", "f", {"n": 3})))
    known = made.talk.open_call(Call(None, "f", {"n": 2}))
    assert known is not None
    assert known[1] == {"n": 2}
    assert made.talk.open_call(Call("9", "f", {})) == ("9", {"n": 3})
    assert made.talk.open_call(Call(None, "g", {})) is None
    other = made.talk.open_call(Call("7", "f", {"n": 3}))
    assert other is not None
    assert other[1] == {"n": 1}


def test_odd_roles_and_empty_words() -> None:
    made = Telling()
    made.hear(Said("narrator", [Text("once")]), Said("user", []), model(""), model(Thought("")))
    assert made.told() == [("system", "once"), ("user", "")]
