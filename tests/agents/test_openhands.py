"""OpenHands: events of the SDK in every layout, the lists of version 0, and the logs of its model
calls."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_shapes import iter_misshapen
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["openhands"]

GOLDEN = Path(__file__).parents[1] / "golden" / "openhands"
read = build_read_function(READER)


def event(kind: str, source: str = "agent", **fields: Any) -> dict[str, Any]:
    return {
        "id": f"e{len(fields)}",
        "timestamp": "2026-01-01T00:00:00",
        "source": source,
        **fields,
        "kind": kind,
    }


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": words}]


def action(call: str = "c1", thought: str = "", **fields: Any) -> dict[str, Any]:
    made = {
        "id": call,
        "name": "terminal",
        "arguments": '{"command": "ls"}',
        "origin": "completion",
    }
    known = {
        "thought": text(thought),
        "tool_name": "terminal",
        "tool_call_id": call,
        "tool_call": made,
    }
    return event(
        "ActionEvent", **{**known, "llm_response_id": "r1", "action": {"command": "ls"}, **fields}
    )


def lines(*events: dict[str, Any]) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in events).encode()


def read_session(path: Path, **options: Any) -> tuple[Record, list[Event]]:
    source = Source.of_folder(path) if path.is_dir() else Source.of(path)
    assert READER.sniff(source)
    draft = Draft(**options)
    READER.read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


class TestReasoning:
    def test_a_copy_of_the_reasoning_in_tags_is_not_repeated(self) -> None:
        _, events = read(
            lines(action(thought="<think>Hm.\n</think>\n\nI look.", reasoning_content="Hm.\n"))
        )
        assert summarize_events(events)[:2] == [
            ("assistant_thought", "Hm.\n"),
            ("assistant", "I look."),
        ]

    def test_other_text_in_tags_is_reasoning(self) -> None:
        _, events = read(
            lines(action(thought="<think>Ho.</think>I look.", reasoning_content="Hm."))
        )
        assert summarize_events(events)[:3] == [
            ("assistant_thought", "Hm."),
            ("assistant_thought", "Ho."),
            ("assistant", "I look."),
        ]

    def test_unclosed_tags_are_text(self) -> None:
        _, events = read(lines(action(thought="<think>Hm.")))
        assert summarize_events(events)[0] == ("assistant", "<think>Hm.")

    def test_reasoning_details_of_a_router(self) -> None:
        details = [
            {"type": "reasoning.text", "text": "Hm."},
            {"type": "reasoning.encrypted", "data": "x"},
        ]
        _, events = read(lines(action(reasoning_details=details)))
        assert [item[0] for item in summarize_events(events)][:2] == [
            "assistant_thought",
            "assistant_thought",
        ]
        assert events[1]["content"]["data"] == {"redacted": True, "encrypted": True}


class TestCalls:
    def test_text_repeated_by_parallel_calls_is_exported_once(self) -> None:
        _, events = read(lines(action("c1", "I look."), action("c2", "I look.")))
        assert [item[0] for item in summarize_events(events)] == [
            "assistant",
            "assistant",
            "assistant",
            "tool",
            "tool",
        ]

    def test_arguments_come_from_the_action_without_a_call(self) -> None:
        _, events = read(
            lines(action(tool_call=None, action={"command": "pwd", "kind": "TerminalAction"}))
        )
        assert events[0]["content"]["data"]["arguments"] == {"command": "pwd"}

    def test_arguments_that_are_not_json_stay_text(self) -> None:
        call = {"id": "c1", "name": "terminal", "arguments": "{oops"}
        _, events = read(lines(action(tool_call=call)))
        assert events[0]["content"]["data"]["arguments"] == {"raw": "{oops"}

    def test_calls_in_the_text_of_a_message_stay_text(self) -> None:
        """Of models without function calls OpenHands keeps `<function=...>` in the message; no call
        is invented."""
        words = "I look.\n<function=terminal>\n<parameter=command>ls</parameter>\n</function>"
        said = event("MessageEvent", llm_message={"role": "assistant", "content": text(words)})
        _, events = read(lines(said))
        assert summarize_events(events) == [("assistant", words)]

    def test_an_observation_without_a_call_includes_its_command(self) -> None:
        seen = {"content": text("x"), "command": "ls", "kind": "TerminalObservation"}
        _, events = read(
            lines(event("ObservationEvent", "environment", tool_call_id="gone", observation=seen))
        )
        assert [item["content"].get("data", {}).get("kind") for item in events] == [
            None,
            "orphan_result",
            "result_facts",
        ]
        assert events[2]["content"]["data"]["command"] == "ls"

    def test_older_observations_have_other_field_names(self) -> None:
        for seen, output in (
            ({"output": "a"}, "a"),
            ({"message": "b"}, "b"),
            ({"n": 1, "kind": "X"}, {"n": 1}),
        ):
            _, events = read(
                lines(action(), event("ObservationEvent", tool_call_id="c1", observation=seen))
            )
            assert summarize_events(events)[1] == ("tool", output)

    def test_an_acp_call_is_exported_once(self) -> None:
        call = {
            "tool_call_id": "a1",
            "title": "Run ls",
            "tool_kind": "execute",
            "raw_input": {"command": "ls"},
        }
        begun = event("ACPToolCallEvent", **call, status="in_progress")
        over = event("ACPToolCallEvent", **call, status="failed", raw_output="no")
        _, events = read(lines(begun, over))
        assert [item[0] for item in summarize_events(events)] == ["assistant", "tool", "annotation"]
        assert events[2]["content"]["data"] == {"kind": "result_facts", "is_error": True}


def a_run(name: str, *history: Any, **fields: Any) -> dict[str, Any]:
    return {
        "instance_id": name,
        "history": list(history),
        "metrics": None,
        "metadata": {},
        **fields,
    }


class TestRuns:
    """The output.jsonl of a benchmark."""

    def test_each_line_is_a_conversation(self) -> None:
        data = lines(a_run("a", action("c1")), a_run("b", instruction="Try.", error="no runtime"))
        source = Source("output.jsonl", data=data)
        assert detect_format(source) == "openhands"
        assert [
            (item.id, item.title, item.messages) for item in READER.list_conversations(source)
        ] == [
            ("a", None, 1),
            ("b", "Try.", 0),
        ]
        assert READER.find_owner(source, "/2", a_run("b")) == "b"

    def test_a_run_without_events_has_its_task(self) -> None:
        _, events = read(lines(a_run("a", instruction="Try.", error="no runtime")))
        assert summarize_events(events)[0] == ("user", "Try.")
        assert events[1]["content"]["data"] == {"kind": "outcome", "error": "no runtime"}

    def test_a_task_that_is_not_in_the_events_comes_first(self) -> None:
        said = event(
            "MessageEvent", "user", llm_message={"role": "user", "content": text("Go on.")}
        )
        _, events = read(lines(a_run("a", said, instruction="Try.")))
        assert summarize_events(events) == [("user", "Try."), ("user", "Go on.")]

    def test_two_attempts_at_one_task_are_two_conversations(self) -> None:
        source = Source(
            "output.jsonl", data=lines(a_run("a", action("c1")), a_run("a", action("c2")))
        )
        assert [item.id for item in READER.list_conversations(source)] == ["a", "a#2"]

    @pytest.mark.parametrize("history", [[1], [None], [[]], [[3, None]], ["x"], [{"role": "user"}]])
    def test_other_histories_are_not_claimed(self, history: list[Any]) -> None:
        assert not READER.sniff(Source("x.jsonl", data=lines(a_run("a", *history))))


class TestLayouts:
    def test_files_are_sorted_by_number(self, tmp_path: Path) -> None:
        (tmp_path / "events").mkdir()
        for number in (99999, 100000):
            said = event(
                "MessageEvent", "user", llm_message={"role": "user", "content": text(str(number))}
            )
            (tmp_path / "events" / f"event-{number:05d}-x.json").write_text(json.dumps(said))
        assert [item[1] for item in summarize_events(read_session(tmp_path)[1])] == [
            "99999",
            "100000",
        ]
        assert [item[1] for item in summarize_events(read_session(tmp_path / "events")[1])] == [
            "99999",
            "100000",
        ]

    def test_the_last_event_may_be_incomplete(self, tmp_path: Path) -> None:
        said = event("MessageEvent", "user", llm_message={"role": "user", "content": text("hi")})
        (tmp_path / "event-00000-a.json").write_text(json.dumps(said))
        (tmp_path / "event-00001-b.json").write_text(json.dumps(said)[:40])
        (tmp_path / "event-00002-c.json").write_text("")
        with pytest.raises(InputError) as caught:
            read_session(tmp_path)
        assert caught.value.code == "input.json"
        (tmp_path / "event-00002-c.json").unlink()
        record, events = read_session(tmp_path)
        assert len(events) == 1
        assert {"half-line", "time-without-zone"} == {note.code for note in record.notes}

    def test_a_folder_of_version_0(self, tmp_path: Path) -> None:
        (tmp_path / "events").mkdir()
        for number, words in ((2, "two"), (10, "ten")):
            said = {"id": number, "source": "user", "action": "message", "args": {"content": words}}
            (tmp_path / "events" / f"{number}.json").write_text(json.dumps(said))
        assert [item[1] for item in summarize_events(read_session(tmp_path)[1])] == ["two", "ten"]

    def test_a_list_of_events(self) -> None:
        _, events = read(
            [event("MessageEvent", "user", llm_message={"role": "user", "content": text("hi")})]
        )
        assert summarize_events(events) == [("user", "hi")]

    def test_other_folders_are_not_claimed(self, tmp_path: Path) -> None:
        (tmp_path / "events").mkdir()
        (tmp_path / "events" / "event-1.json").write_text('{"a": 1}')
        (tmp_path / "base_state.json").write_text("[]")
        assert not READER.sniff(Source.of_folder(tmp_path))

    def test_peek_reads_the_state(self) -> None:
        state = json.loads((GOLDEN / "state_alone" / "input.json").read_text())
        assert READER.peek([state, 3]) == {"id": state["id"], "cwd": "/repo"}


class TestBranches:
    def made(self, leaf: str | None, *links: tuple[str, str | None], **options: Any) -> list[Any]:
        state = json.loads((GOLDEN / "state_alone" / "input.json").read_text()) | {
            "leaf_event_id": leaf
        }
        said = [
            event("MessageEvent", "user", llm_message={"role": "user", "content": text(name)}) | {"id": name}
            | ({"parent_id": parent} if parent else {})
            for name, parent in links
        ]  # fmt: skip
        _, events = read(lines(*said))
        draft = Draft(**options)
        source = Source("x", data=lines(*said))
        source.open_sibling = lambda *parts: Source("s", data=json.dumps(state).encode())  # type: ignore[method-assign]
        READER.read(source, draft)
        assert events
        return [
            item[1]
            for item in summarize_events(list(draft.finish(lambda: "0" * 64).events))
            if item[0] == "user"
        ]

    def test_events_that_do_not_lead_to_the_leaf_are_abandoned(self) -> None:
        assert self.made("c", ("a", None), ("b", "a"), ("c", "a")) == ["a", "c"]

    def test_a_leaf_before_the_last_events_abandons_nothing(self) -> None:
        assert self.made("a", ("a", None), ("b", "a"), ("c", "b")) == ["a", "b", "c"]

    def test_without_parents_nothing_is_abandoned(self) -> None:
        assert self.made("b", ("a", None), ("b", None), ("c", None)) == ["a", "b", "c"]

    def test_cycles_of_parents_end(self) -> None:
        assert self.made(None, ("a", "b"), ("b", "a")) == ["a", "b"]


class TestUsage:
    def test_usage_is_counted_once_with_the_rest_at_the_end(self) -> None:
        _, events = read_session(GOLDEN / "folder" / "input")
        spent = [item["usage"]["input_tokens"] for item in events if "usage" in item]
        assert spent == [1000, 1200, 300]


def test_results_as_text_are_never_the_words_of_a_person() -> None:
    log = {
        "messages": [
            {"role": "user", "content": "count"},
            {"role": "assistant", "content": "<function=terminal></function>"},
            {"role": "user", "content": "EXECUTION RESULT of [terminal]:\n12"},
            {"role": "user", "content": text("EXECUTION RESULT of [finish]:\ndone")},
        ],
        "response": {"choices": [{"message": {"role": "assistant", "content": "12"}}]},
        "timestamp": 1,
        "latency_sec": 1,
    }
    record, events = read(log)
    people = {item["actor_id"] for item in record.participants if item["kind"] == "human"}
    said = [item["content"] for item in events if item["actor_id"] in people]
    assert [content["text"] for content in said] == ["count"]
    outputs = [item for item in events if item["type"] == "tool_result"]
    assert [item["content"]["text"].partition(":")[0] for item in outputs] == [
        "EXECUTION RESULT of [terminal]",
        "EXECUTION RESULT of [finish]",
    ]


def test_no_other_reader_claims_these(tmp_path: Path) -> None:
    for path in sorted(GOLDEN.glob("*/input.*")):
        assert detect_format(Source.of(path)) == "openhands"
    for path in sorted(GOLDEN.glob("*/input/**/*.json")):
        assert detect_format(Source.of(path)) == "openhands"


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "ActionEvent", "source": "nobody", "timestamp": "", "id": "1"},
        {"kind": 3, "source": "agent", "timestamp": "", "id": "1"},
        {"action": "run", "role": "user", "args": {}},
        {"messages": [], "response": {}, "timestamp": 1},
        [[]],
        [],
    ],
)
def test_similar_documents_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize("case", ["version_0", "state_alone", "version_0_subagents_referred"])
def test_odd_values_do_not_fail(case: str) -> None:
    document = json.loads((GOLDEN / case / "input.json").read_text())
    for value in iter_misshapen(document):
        source = Source("x", data=json.dumps(value).encode())
        if READER.sniff(source):
            READER.read(source, Draft(branches="all"))


def test_odd_values_in_a_stream_do_not_fail() -> None:
    stream = [
        json.loads(line) for line in (GOLDEN / "events" / "input.jsonl").read_text().splitlines()
    ]
    for value in iter_misshapen(stream):
        source = Source("x", data=lines(*value))
        with contextlib.suppress(
            InputError
        ):  # a first line that is no object makes it another kind of input
            if READER.sniff(source):
                READER.read(source, Draft())


def test_all_text_of_real_files_is_included(corpus: Path) -> None:
    files = sorted((corpus / "openhands").iterdir())
    assert files
    for path in files:
        _, events = read_session(path, branches="all")
        kept = "\n".join(iter_strings([item["content"] for item in events]))
        for said in words_of([record for _, record in Source.of(path).records()]):
            assert said.strip() in kept


def words_of(value: Any) -> list[str]:
    """What was said, thought and given back in a real file; the tags around a thought are not
    words."""
    if isinstance(value, list):
        return [word for item in value for word in words_of(item)]
    if not isinstance(value, dict):
        return []
    found = [
        value[name]
        for name in ("text", "reasoning_content", "command")
        if isinstance(value.get(name), str)
    ]
    inner = [item for name, item in value.items() if name not in ("tools", "kwargs", "agent")]
    return [word.split("</think>")[-1] for word in found] + [
        word for item in inner for word in words_of(item)
    ]
