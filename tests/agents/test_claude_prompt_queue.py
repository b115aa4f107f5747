"""Prompts that were typed while the model worked."""

from readers.claude_lines import File, events, read, summarize, text

TYPED_AT = "2026-02-03T10:00:30.000Z"


def enqueue(file: File, content: str, ts: str = TYPED_AT) -> None:
    file.bare("queue-operation", operation="enqueue", content=content, timestamp=ts)


def operate(file: File, operation: str, **more: str) -> None:
    file.bare("queue-operation", operation=operation, timestamp=TYPED_AT, **more)


def test_a_prompt_that_only_the_queue_holds_is_reported_where_it_was_typed() -> None:
    file = File()
    file.user("start")
    enqueue(file, "and the docs")
    file.assistant(text("I am at it."))
    operate(file, "remove")
    file.assistant(text("The docs as well."))
    assert summarize(file) == [
        "user: start",
        "user: and the docs",
        "assistant: I am at it.",
        "assistant: The docs as well.",
    ]
    kinds = {p["actor_id"]: p["kind"] for p in read(file).participants}
    typed = events(file)[1]
    assert (typed["ts"], kinds[typed["actor_id"]]) == (TYPED_AT, "human")
    assert typed["visibility"] == "public"


def test_a_prompt_that_was_delivered_is_reported_once() -> None:
    file = File()
    enqueue(file, "one\nwith two lines")
    enqueue(file, "two")
    enqueue(file, "three")
    enqueue(file, "/compact soon")
    file.user("start")
    file.add("attachment", attachment={"type": "queued_command", "prompt": "two "})
    file.user([text("one\nwith two lines\nthree")])
    file.user("<command-name>/compact</command-name><command-args>soon</command-args>")
    said = [event["content"]["text"] for event in events(file) if event["type"] == "message"]
    assert said == ["start", "two ", "one\nwith two lines\nthree", "/compact soon"]


def test_a_text_that_only_begins_like_a_queued_prompt_does_not_settle_it() -> None:
    file = File()
    enqueue(file, "go")
    file.user("go on")
    file.user("go\nbut slowly")
    assert summarize(file) == ["user: go", "user: go on", "user: go\nbut slowly"]


def test_equal_prompts_are_reported_as_often_as_they_were_typed() -> None:
    file = File()
    file.user("continue")
    enqueue(file, "continue")
    enqueue(file, "continue", "2026-02-03T10:00:40.000Z")
    file.user("continue")
    assert summarize(file) == ["user: continue"] * 3


def test_a_copied_record_is_noted() -> None:
    file = File()
    file.user("start")
    enqueue(file, "and the docs")
    enqueue(file, "and the docs")
    assert summarize(file) == ["user: start", "user: and the docs"]
    assert "duplicate-record" in [note.code for note in read(file).notes]


def test_a_prompt_that_was_taken_back_is_an_annotation() -> None:
    file = File()
    file.user("start")
    enqueue(file, "stop that")
    operate(file, "popAll", content="stop that")
    last = events(file)[-1]
    assert last["type"] == "annotation"
    assert last["content"]["data"] == {"kind": "withdrawn_prompt", "text": "stop that"}
    assert summarize(file) == ["user: start", "annotation: withdrawn_prompt"]


def test_a_notice_in_the_queue_is_the_clients_word() -> None:
    file = File()
    file.user("start")
    enqueue(file, "<agent-notification>\n<agent-id>a1</agent-id>\n</agent-notification>")
    kinds = {p["actor_id"]: p["kind"] for p in read(file).participants}
    notice = events(file)[-1]
    assert (kinds[notice["actor_id"]], notice["visibility"]) == ("system", "internal")


def test_a_queued_prompt_goes_with_its_branch() -> None:
    file = File()
    start = file.assistant(text("Ready."))
    file.user("first try", parentUuid=start)
    file.assistant(text("I try."))
    enqueue(file, "faster")
    file.assistant(text("Faster."))
    file.user("second try", parentUuid=start)
    assert summarize(file) == ["assistant: Ready.", "user: second try"]
    assert "user: faster" in summarize(file, branches="all")
