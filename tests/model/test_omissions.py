"""What is missing, in words that a person understands."""

import msgspec

from open_token.builder.draft import Draft
from open_token.model.omissions import Note, summarize_omissions


def test_a_summary_names_what_was_said_and_how_much_of_it() -> None:
    draft = Draft()
    for size in (20, 31):
        draft.note_omission("queued", "line 4", "typed meanwhile", what="prompt", size=size)
    draft.note_omission("steered", "line 9", "typed in between", what="prompt")
    draft.note_omission("subagent", "line 7", "what a subagent did", events=214)
    draft.note_omission("cut", "line 8", "output", what="result", size=1)
    draft.note_omission("skipped-record", "line 1", "type heartbeat")
    assert summarize_omissions(draft.notes) == (
        "3 prompts (51 characters), 1 tool output (1 character), 1 subagent (214 events)"
    )


def test_equal_notes_are_one_with_the_first_place() -> None:
    draft = Draft()
    for line in (3, 5):
        draft.note_omission("cut", f"line {line}", "output", what="result", size=10, events=2)
    assert draft.notes == [Note("cut", "line 3", "output", 2, "result", 20, 4)]


def test_technical_records_are_in_no_summary() -> None:
    assert summarize_omissions([Note("skipped-record", "line 1", "type heartbeat", 9)]) == ""


def test_a_note_without_them_has_no_new_keys() -> None:
    plain = Note("skipped-record", "line 1", "type heartbeat", 1)
    assert msgspec.to_builtins(plain) == {
        "code": "skipped-record",
        "place": "line 1",
        "detail": "type heartbeat",
        "count": 1,
    }
    said = Note("cut", "line 1", "output", 1, "result", 5)
    assert {"what": "result", "size": 5}.items() <= msgspec.to_builtins(said).items()


def test_a_dropped_branch_is_counted_with_its_events() -> None:
    draft = Draft()
    person = draft.get_actor("human", "user")
    for text in ("a", "b", "c"):
        draft.add_message("user", text, person)
    draft.drop_branch(0, 2, {}, person)
    assert summarize_omissions(draft.notes) == "1 abandoned branch (2 events)"
