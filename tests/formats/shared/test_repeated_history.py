"""What a source repeats is exported once; what a person says twice is exported twice."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.messages import (
    Message,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from readers.provider_readers import summarize_events


def user(text: str) -> Message:
    return Message("user", [TextPart(text)])


def model(*parts: Part | str) -> Message:
    return Message(
        "assistant", [TextPart(part) if isinstance(part, str) else part for part in parts]
    )


class History:
    """A history writer and the events that it added."""

    def __init__(self) -> None:
        self.draft = Draft()
        self.writer = HistoryWriter(self.draft)

    def stage(self, scope: object = None) -> MessageContext:
        return MessageContext(self.draft.get_actor("model", "assistant"), "record 1", scope=scope)

    def repeat(self, *messages: Message, scope: object = None) -> None:
        self.writer.add_history(messages, self.stage(scope))

    def say(self, message: Message) -> None:
        self.writer.add_message(message, self.stage())

    def summarize(self) -> list[Any]:
        return summarize_events(list(self.draft.finish(lambda: "0" * 64).events))


def test_a_history_is_reported_once() -> None:
    made = History()
    made.repeat(user("a"))
    made.say(model("b"))
    made.repeat(user(" a "), model("b"), user("c"))
    assert made.summarize() == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_the_same_words_again_are_new_words() -> None:
    made = History()
    made.repeat(user("go on"))
    made.say(model("x"))
    made.repeat(user("go on"), model("x"), user("go on"))
    made.say(model("x"))
    assert [text for _, text in made.summarize()] == ["go on", "x", "go on", "x"]


def test_words_behind_the_last_answer_are_new_also_when_the_history_is_cut() -> None:
    made = History()
    for answer in ("one", "two", "three"):
        made.repeat(user("go on"))
        made.say(model(answer))
        made.repeat(model(answer), user("go on"))
    assert [text for _, text in made.summarize()] == [
        "go on",
        "one",
        "go on",
        "two",
        "go on",
        "three",
        "go on",
    ]


def test_calls_and_results_are_known_by_id() -> None:
    made = History()
    made.say(model(ReasoningPart("t"), "w", ToolCallPart("1", "f", {})))
    made.repeat(
        model("w"),
        model(ToolCallPart("1", "f", {"later": True})),
        Message("tool", [ToolResultPart("1", "r")]),
    )
    made.repeat(
        model("w", ToolCallPart("1", "f", {})),
        Message("tool", [ToolResultPart("1", "other words")]),
    )
    assert [role for role, _ in made.summarize()] == [
        "assistant_thought",
        "assistant",
        "assistant",
        "tool",
    ]


def test_results_that_came_in_another_order_are_reported_once() -> None:
    made = History()
    made.say(model(ToolCallPart("1", "f", {}), ToolCallPart("2", "f", {})))
    for native in ("2", "1"):
        made.writer.add_tool_result(ToolResultPart(native, native), made.stage())
        made.writer.mark_seen(ToolResultPart(native, native), made.stage())
    made.repeat(
        model(ToolCallPart("1", "f", {}), ToolCallPart("2", "f", {})),
        Message("tool", [ToolResultPart("1", "1"), ToolResultPart("2", "2")]),
    )
    assert [text for role, text in made.summarize() if role != "assistant"] == ["2", "1"]


def test_another_scope_is_another_history() -> None:
    made = History()
    made.repeat(user("a"))
    made.repeat(user("a"), scope="agent")
    assert len(made.summarize()) == 2


def test_results_without_ids_answer_the_oldest_call() -> None:
    made = History()
    made.say(model(ToolCallPart(None, "f", {"n": 1}), ToolCallPart(None, "f", {"n": 2})))
    made.repeat(Message("tool", [ToolResultPart(None, "x", "f"), ToolResultPart(None, "y", "f")]))
    assert [text for role, text in made.summarize() if role == "tool"] == ["x", "y"]


def test_a_tool_that_ran_finds_its_call() -> None:
    made = History()
    made.say(
        model(
            ToolCallPart(None, "f", {"n": 1}),
            ToolCallPart(None, "f", {"n": 2}),
            ToolCallPart("9", "f", {"n": 3}),
        )
    )
    known = made.writer.find_open_call(ToolCallPart(None, "f", {"n": 2}))
    assert known is not None
    assert known[1] == {"n": 2}
    assert made.writer.find_open_call(ToolCallPart("9", "f", {})) == ("9", {"n": 3})
    assert made.writer.find_open_call(ToolCallPart(None, "g", {})) is None
    other = made.writer.find_open_call(ToolCallPart("7", "f", {"n": 3}))
    assert other is not None
    assert other[1] == {"n": 1}


def test_odd_roles_and_empty_words() -> None:
    made = History()
    made.repeat(
        Message("narrator", [TextPart("once")]),
        Message("user", []),
        model(""),
        model(ReasoningPart("")),
    )
    assert made.summarize() == [("system", "once"), ("user", "")]
