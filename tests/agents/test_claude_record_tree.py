"""Superseded branches and repeated records, and what must not be taken for them."""

import tracemalloc

from open_token.agents.claude_code.record_tree import RecordTree
from readers.claude_lines import File, body, call, events, read, summarize, text, thinking


def rewound() -> File:
    file = File()
    file.user("start")
    answer = file.assistant(text("ready"))
    file.user("make it red")
    file.assistant(call("t1"))
    file.result("t1", "red")
    file.user("make it blue", parentUuid=answer)
    file.assistant(text("blue"))
    return file


def test_a_superseded_branch_is_dropped() -> None:
    assert summarize(rewound()) == [
        "user: start",
        "assistant: ready",
        "user: make it blue",
        "assistant: blue",
    ]


def test_with_all_branches_it_is_in_a_span() -> None:
    made = events(rewound(), branches="all")
    kinds = [e["type"] for e in made]
    assert kinds[2:7] == ["span_start", "message", "tool_use", "tool_result", "span_end"]
    assert {e["links"]["span_id"] for e in made[2:7]} == {"span_000001"}
    assert body(made[2])["kind"] == "abandoned_branch"


def test_the_last_of_many_attempts_stays() -> None:
    file = File()
    start = file.user("start")
    for word in ("one", "two", "three"):
        file.user(word, parentUuid=start)
        file.assistant(text(f"did {word}"))
    assert summarize(file) == ["user: start", "user: three", "assistant: did three"]


def test_a_branch_that_was_left_late_drops_what_is_between() -> None:
    file = File()
    start = file.user("start")
    first = file.user("first", parentUuid=start)
    file.user("second", parentUuid=start)
    file.assistant(text("late answer to the first"), parentUuid=first)
    file.assistant(text("answer to the second"), parentUuid=file.lines[2]["uuid"])
    assert summarize(file) == ["user: start", "user: second", "assistant: answer to the second"]


def test_a_call_left_open_in_a_dropped_branch_leaves_nothing() -> None:
    file = File()
    start = file.user("start")
    file.user("first", parentUuid=start)
    file.assistant(call("t1"))
    file.user("second", parentUuid=start)
    assert summarize(file) == ["user: start", "user: second"]


def test_a_compaction_in_a_dropped_branch_is_dropped() -> None:
    file = File()
    start = file.user("start")
    last = file.user("first", parentUuid=start)
    file.add(
        "system",
        subtype="compact_boundary",
        parentUuid=None,
        logicalParentUuid=last,
        compactMetadata={},
    )
    file.user("sum of it", isCompactSummary=True)
    file.user("second", parentUuid=start)
    assert summarize(file) == ["user: start", "user: second"]


def test_parallel_calls_are_no_branches() -> None:
    file = File()
    file.user("go")
    one = file.assistant(call("t1"), id="m")
    two = file.assistant(call("t2"), id="m", parentUuid=one)
    file.result("t1", parentUuid=one)
    file.result("t2", parentUuid=two)
    assert len(summarize(file)) == 5


def test_injected_lines_results_and_roots_supersede_nothing() -> None:
    file = File()
    start = file.user("start")
    file.user("typed", parentUuid=start)
    file.user("put in", parentUuid=start, isMeta=True)
    file.user("<command-name>/cost</command-name>", parentUuid=start)
    file.user("a new beginning", parentUuid=None)
    file.user("and another", parentUuid=None)
    # The command has an annotation.
    assert len(summarize(file)) == 7


def test_prompts_queued_while_the_model_works_supersede_nothing() -> None:
    file = File()
    start = file.user("start")
    for word in ("one", "two"):
        file.add(
            "attachment", attachment={"type": "queued_command", "prompt": word}, parentUuid=start
        )
    assert len(summarize(file)) == 3


def test_two_parts_of_one_prompt_do_not_supersede_each_other() -> None:
    file = File()
    start = file.user("start")
    file.user("part one", parentUuid=start, promptId="p1")
    file.user("part two", parentUuid=start, promptId="p1")
    assert len(summarize(file)) == 3


def test_the_context_stays_when_its_branch_is_dropped() -> None:
    file = File()
    start = file.user("start")
    file.user("first", parentUuid=start, cwd="/elsewhere")
    file.user("second", parentUuid=start, cwd="/elsewhere")
    facts = [body(e) for e in read(file).events if body(e)]
    assert [fact["cwd"] for fact in facts] == ["/home/kim/shop", "/elsewhere"]


def test_repeated_records_are_exported_once() -> None:
    file = File()
    file.user("go")
    file.assistant(thinking("hm"), text("ok"), call("t1"))
    file.result("t1")
    file.lines += file.lines
    record = read(file)
    assert len(list(record.events)) == 6
    assert [(note.code, note.place, note.count) for note in record.notes] == [
        ("duplicate-record", "line 4", 3)
    ]


def test_a_record_of_another_kind_is_no_repetition() -> None:
    file = File()
    file.user("go", uuid="same")
    file.assistant(text("ok"), uuid="same")
    assert len(summarize(file)) == 2


def test_a_tree_with_loops_ends() -> None:
    tree = RecordTree()
    for uuid, parent in (("a", "b"), ("b", "a"), ("c", "c"), ("d", "a")):
        tree.add(uuid, parent, "user", 0)
        tree.add_prompt(None)
    assert list(tree.find_abandoned(4)) == [range(4)]


def test_a_long_session_takes_little_memory() -> None:
    tracemalloc.start()
    tree = RecordTree()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(50_000):
        tree.add(f"{number:032d}", f"{number - 1:032d}", "user", number)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 50_000 * 150
