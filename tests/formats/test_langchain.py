"""LangChain messages in three shapes and as chunks; LangSmith runs merged, ordered and
exported once."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, exported, join_texts, lines, notes_of, paired, said_in
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["langchain"]

read = build_read_function(READER)
HUMAN = {"type": "human", "content": "hi"}


def constructor(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", name],
        "kwargs": fields,
    }


def run(name: str, kind: str = "llm", parent: str | None = None, **more: Any) -> dict[str, Any]:
    made = {
        "id": name,
        "trace_id": "t",
        "run_type": kind,
        "name": name,
        "parent_run_id": parent,
        **more,
    }
    return {"dotted_order": f"20260101T000000Z{name}", "inputs": {}, "outputs": {}, **made}


@pytest.mark.parametrize(
    "value",
    [
        [HUMAN, {"type": "ai", "content": "a"}],
        [constructor("HumanMessage", content="hi"), constructor("AIMessageChunk", content="a")],
        [{"type": "human", "data": {"content": "hi"}}],
        {"messages": [HUMAN]},
        {"values": {"messages": [HUMAN]}, "next": []},
        [[HUMAN]],
        [{"type": "system", "content": "s", "additional_kwargs": {}}],
        {"post": [run("a")], "patch": []},
        [run("a"), run("b")],
        lines(run("a"), run("b")),
        lines(HUMAN, {"type": "AIMessageChunk", "content": "a"}),
    ],
    ids=lambda value: str(value)[:50],
)
def test_claims(value: Any) -> None:
    assert claimed(value) == "langchain"


@pytest.mark.parametrize(
    "value",
    [
        [{"type": "system", "content": "s"}],
        [{"type": "user", "content": "hi"}],
        [{"type": "human", "role": "x", "content": "hi"}],
        [{"type": "human", "uuid": "u", "content": "hi"}],
        [{"from": "human", "value": "hi"}],
        {"post": [], "patch": []},
        {"post": [{"title": "t"}]},
        {"lc": 1, "type": "constructor", "id": ["langchain", "llms", "OpenAI"], "kwargs": {}},
        [{"run_type": 5, "inputs": {}}],
    ],
    ids=lambda value: str(value)[:50],
)
def test_leaves_to_others(value: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(value).encode()))


def test_the_three_shapes_say_the_same() -> None:
    fields = {"content": "a", "tool_calls": [{"name": "f", "args": {"x": 1}, "id": "c"}]}
    shapes = [
        {"type": "ai", **fields},
        {"type": "ai", "data": fields},
        constructor("AIMessage", **fields),
    ]
    first, second, third = (summarize_events(read([HUMAN, shape])[1]) for shape in shapes)
    assert first == second == third
    assert first[1:3] == [
        ("assistant", "a"),
        ("assistant", {"tool_name": "f", "arguments": {"x": 1}, "native_call_id": "c"}),
    ]


def test_a_call_in_the_content_and_beside_it_is_one_call() -> None:
    block = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    _, events = read(
        [{"type": "ai", "content": [block], "tool_calls": [{"name": "f", "args": {}, "id": "c"}]}]
    )
    assert [event["type"] for event in events] == ["tool_use", "tool_result"]
    _, events = read([{"type": "ai", "content": [block]}])
    assert [event["type"] for event in events] == ["tool_use", "tool_result"]


def test_chunks_are_joined_by_index() -> None:
    def chunk(index: Any, args: str, **more: Any) -> dict[str, Any]:
        piece = {"index": index, "args": args, **more}
        return {"type": "AIMessageChunk", "content": "", "id": "r", "tool_call_chunks": [piece]}

    _, events = read(
        lines(
            HUMAN,
            chunk(0, '{"a"', name="f", id="1"),
            chunk(1, "{}", name="g", id="2"),
            chunk(0, ": 2}"),
            {
                "type": "AIMessageChunk",
                "content": "",
                "id": "r",
                "invalid_tool_calls": [{"args": "x"}],
                "tool_call_chunks": [],
            },
        )
    )
    calls = [event["content"]["data"] for event in events if event["type"] == "tool_use"]
    assert [(call["tool_name"], call["arguments"]) for call in calls[:2]] == [
        ("f", {"a": 2}),
        ("g", {}),
    ]


def test_chunks_end_with_another_id_or_the_last_one() -> None:
    def chunk(name: str | None, text: str, **more: Any) -> dict[str, Any]:
        return {"type": "AIMessageChunk", "content": text, "id": name, **more}

    _, events = read(
        lines(
            HUMAN,
            chunk("a", "1"),
            chunk("a", "2", chunk_position="last"),
            chunk("a", "3"),
            chunk("b", "4"),
        )
    )
    assert [text for _, text in summarize_events(events)] == ["hi", "12", "3", "4"]


def test_a_summary_in_pieces_behind_a_chunk_that_only_opens() -> None:
    def chunk(name: str, *blocks: Any, **more: Any) -> dict[str, Any]:
        return {"type": "AIMessageChunk", "content": [*blocks], "id": name, **more}

    def piece(text: str, index: int = 0) -> dict[str, Any]:
        part = {"index": index, "type": "summary_text", "text": text}
        return {"type": "reasoning", "index": 0, "summary": [part]}

    sealed = {"type": "reasoning", "index": 0, "summary": [], "encrypted_content": "c2Vh"}
    model = {"response_metadata": {"model_name": "gpt-5"}}
    record, events = read(
        lines(
            HUMAN,
            chunk("resp_1"),
            *(
                chunk("run", block)
                for block in (piece("I lo"), piece("ok."), piece("Far.", 1), sealed)
            ),
            chunk("run", {"type": "text", "text": "Yes.", "index": 1}, **model),
        )
    )
    assert [text for _, text in summarize_events(events)] == ["hi", "I look.\n\nFar.", "Yes."]
    assert [one["model"] for one in record.participants if one["kind"] == "model"] == ["gpt-5"]


def test_counts_of_chunks_are_summed() -> None:
    usage = {"input_tokens": 3, "output_tokens": 0, "output_token_details": {"reasoning": 1}}
    records = [
        {"type": "AIMessageChunk", "content": "x", "id": "r", "usage_metadata": u}
        for u in (usage, usage, "?")
    ]
    _, events = read(lines(*records))
    assert events[0]["usage"] == tokens(input_tokens=6, output_tokens=0, reasoning_tokens=2)


def test_runs_are_merged_and_ordered() -> None:
    asked = {"messages": [{"role": "user", "content": "q"}]}
    second = {
        **asked,
        "messages": [
            *asked["messages"],
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "r"},
        ],
    }
    payload = {
        "post": [
            run("z", inputs=second, outputs={}, dotted_order="2"),
            run("y", inputs=asked, outputs={}, dotted_order="1"),
        ],
        "patch": [
            run(
                "y",
                inputs={},
                outputs={"choices": [{"message": {"role": "assistant", "content": "a"}}]},
                dotted_order="1",
            ),
            run("z", inputs={}, outputs={"output": "b"}, dotted_order="2"),
        ],
    }
    _, events = read(payload)
    assert summarize_events(events) == [
        ("user", "q"),
        ("assistant", "a"),
        ("user", "r"),
        ("assistant", "b"),
    ]


def test_child_runs_inside_runs_are_reported() -> None:
    inner = run(
        "b", parent="a", inputs={"prompts": ["q"]}, outputs={"generations": [[{"text": "w"}]]}
    )
    _, events = read([run("a", kind="chain", child_runs=[inner])])
    assert summarize_events(events) == [("user", "q"), ("assistant", "w")]


def test_parents_in_a_circle_are_reported_all_the_same() -> None:
    made = [
        run(name, parent=parent, outputs={"output": name})
        for name, parent in (("a", "b"), ("b", "a"), ("c", "c"))
    ]
    _, events = read(made)
    assert sorted(text for _, text in summarize_events(events)) == ["a", "b", "c"]


def test_tools_find_the_call_of_the_model_by_name_and_arguments() -> None:
    calls = [{"name": "f", "args": {"n": n}, "id": f"c{n}"} for n in (1, 2)]
    answer = {"generations": [[{"message": {"type": "ai", "content": "", "tool_calls": calls}}]]}
    _, events = read(
        [
            run("1", outputs=answer),
            run("2", kind="tool", inputs={"n": 2}, outputs={"output": "two"}) | {"name": "f"},
            run("3", kind="tool", inputs={"input": "{'n': 1}"}, outputs={"output": "one"})
            | {"name": "f"},
        ]
    )
    paired(events)
    results = {
        event["links"]["call_id"]: event["content"]["text"]
        for event in events
        if event["type"] == "tool_result"
    }
    assert results == {"call_000001": "one", "call_000002": "two"}


def test_a_tool_that_never_ended_has_no_result() -> None:
    _, events = read([run("1", kind="tool", inputs={"a": 1})])
    assert [event["content"]["data"] for event in events][1] == {"missing_result": True}


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ('{"a": 1}', {"a": 1}),
        ("{'a': None}", {"a": None}),
        ("{1: 2}", {"raw": "{1: 2}"}),
        ("plain", {"raw": "plain"}),
    ],
)
def test_arguments_as_python_shows_them(given: str, read_as: Any) -> None:
    _, events = read([run("1", kind="tool", inputs={"input": given}, outputs={"output": "x"})])
    assert events[0]["content"]["data"]["arguments"] == read_as


def test_threads_are_conversations() -> None:
    def of(trace: str, thread: str | None) -> dict[str, Any]:
        extra = {"metadata": {"session_id": thread}} if thread else {}
        return run(trace, extra=extra, outputs={"output": trace}) | {"trace_id": trace}

    value = [of("a", "one"), of("b", "two"), of("c", "one"), of("d", None)]
    source = Source("input", data=json.dumps(value).encode())
    assert [found.id for found in READER.list_conversations(source)] == ["one", "two", "d"]
    assert [READER.find_owner(source, f"/{n}", item) for n, item in enumerate(value)] == [
        "one",
        "two",
        "one",
        "d",
    ]
    assert READER.find_owner(source, "/0", {"other": 1}) is None
    plain = Source("input", data=json.dumps([HUMAN]).encode())
    assert READER.list_conversations(plain) == []
    assert READER.find_owner(plain, "/0", HUMAN) is None


@pytest.mark.parametrize(("subagents", "spans"), [("inline", 1), ("reference", 1), ("none", 0)])
def test_subagents(subagents: str, spans: int) -> None:
    inner = run("b", parent="a", outputs={"output": "deep"})
    record, events = read(
        [run("a", kind="tool", inputs={"q": 1}, outputs={"output": "x"}), inner],
        subagents=subagents,
    )
    assert [event["type"] for event in events].count("span_start") == spans
    assert ("deep" in [text for _, text in summarize_events(events)]) == (subagents == "inline")
    assert ("subagent" in [note.code for note in record.notes]) == (subagents == "none")


def test_what_is_no_message_of_a_run_is_kept_beside() -> None:
    _, events = read(
        [run("a", kind="chain", inputs={"topic": "tea"}, outputs={"poem": "short"}, error="late")]
    )
    assert notes_of(events, "run") == [
        {"name": "a", "run_type": "chain", "inputs": {"topic": "tea"}},
        {"name": "a", "run_type": "chain", "outputs": {"poem": "short"}},
    ]
    assert notes_of(events, "error") == [{"run": "a", "error": "late"}]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [[]], {"a": [1]}, True])
def test_hostile_shapes(odd: Any) -> None:
    names = (
        "content",
        "tool_calls",
        "tool_call_chunks",
        "usage_metadata",
        "response_metadata",
        "additional_kwargs",
        "id",
    )
    read(
        lines(
            HUMAN,
            *(
                {"type": "ai", "content": "a", name: odd}
                for name in names
                if name != "content" or odd != {}
            ),
            HUMAN,
        )
    )
    read(lines(HUMAN, *({"type": "AIMessageChunk", "content": odd, name: odd} for name in names)))
    read(
        [
            HUMAN,
            {"type": "tool", "content": odd, "tool_call_id": odd},
            {"type": "ai", "content": odd},
        ]
    )
    fields = (
        "inputs",
        "outputs",
        "extra",
        "parent_run_id",
        "dotted_order",
        "start_time",
        "error",
        "child_runs",
        "id",
        "name",
    )
    read(
        [
            run("s"),
            *(
                run(f"r{kind}{name}", kind) | {name: odd}
                for kind in ("llm", "tool", "chain")
                for name in fields
            ),
        ]
    )
    read(
        [
            run("s"),
            *(
                run(n, outputs={n: odd})
                for n in ("generations", "choices", "messages", "message", "output", "content")
            ),
        ]
    )


def test_real_runs(corpus: Path) -> None:
    for path in sorted((corpus / "langchain_langsmith").glob("*.json")):
        document = exported(path)
        runs = json.loads(path.read_text())
        asked = [*said_in([item["inputs"] for item in runs["post"]], ("content",))]
        answered = [*said_in([item["outputs"] for item in runs["patch"]], ("content",))]
        assert asked
        assert answered
        assert all(text in join_texts(document) for text in asked + answered)
        assert [event["role"] for event in document["events"]] == ["user", "assistant"]
        assert document["events"][1]["usage"]["reasoning_tokens"] == 1408
