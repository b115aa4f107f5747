"""GenAI traces: trees from spans that end before their parents begin, dialects of attributes,
conversations."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.errors import InputError
from open_token.registry import READERS
from open_token.sources.source import Source
from readers.framework_files import claimed, exported, join_texts, lines, notes_of, paired, said_in
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["otel_genai"]

read = build_read_function(READER)
START = 1770000000 * 10**9


def value(item: Any) -> dict[str, Any]:
    if isinstance(item, bool):
        return {"boolValue": item}
    if isinstance(item, int):
        return {"intValue": str(item)}
    return {"stringValue": item if isinstance(item, str) else json.dumps(item)}


def span(
    name: str, at: int, parent: str = "", trace: str = "t", until: int | None = None, **given: Any
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": name,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": str(START + at * 10**9),
        "endTimeUnixNano": str(START + (at + 1 if until is None else until) * 10**9),
        "attributes": [
            {"key": key.replace("__", "."), "value": value(item)} for key, item in given.items()
        ],
    }


def chat(
    name: str, at: int, asked: Any = None, answered: Any = None, **more: Any
) -> dict[str, Any]:
    given = {"gen_ai__operation__name": "chat"}
    if asked is not None:
        given["gen_ai__input__messages"] = asked
    if answered is not None:
        given["gen_ai__output__messages"] = answered
    return span(name, at, **(given | more))


def ran(name: str, at: int, tool: str, **more: Any) -> dict[str, Any]:
    return span(
        name, at, **({"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": tool} | more)
    )


def agent(name: str, at: int, until: int, **more: Any) -> dict[str, Any]:
    return span(
        name,
        at,
        until=until,
        **({"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": name} | more),
    )


def batch(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [*spans]}]}]}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def model(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def calls(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": n, "name": "f", "arguments": {"n": n}} for n in ids],
    }


@pytest.mark.parametrize(
    "given",
    [
        batch(chat("a", 0)),
        lines(batch(chat("a", 0)), batch(chat("b", 1))),
        {
            "spans": [
                {
                    "name": "x",
                    "context": {"trace_id": 1, "span_id": 2},
                    "attributes": {},
                    "start_time": 1,
                }
            ]
        },
        [
            {
                "name": "x",
                "context": {"trace_id": "1", "span_id": "2"},
                "attributes": {},
                "start_time": 1,
            }
        ],
        {"resourceLogs": []},
    ],
    ids=lambda given: str(given)[:40],
)
def test_claims(given: Any) -> None:
    assert claimed(given) == "otel_genai"


@pytest.mark.parametrize(
    "given",
    [{"spans": []}, {"spans": [{"name": "x"}]}, {"resourceSpans": {}}, [], [{"attributes": {}}]],
)
def test_leaves_to_others(given: Any) -> None:
    assert not READER.sniff(Source("input", data=json.dumps(given).encode()))


def test_a_trace_without_genai_says_so() -> None:
    with pytest.raises(InputError) as caught:
        read(batch(span("HTTP GET", 0)))
    assert caught.value.code == "input.no-genai"


def test_children_before_parents_and_siblings_out_of_order() -> None:
    _, events = read(
        lines(
            batch(
                chat(
                    "c", 4, [user("one"), model("two"), user("three")], [model("four")], parent="r"
                )
            ),
            batch(chat("b", 2, [user("one")], [model("two")], parent="r")),
            batch(agent("r", 0, 9)),
        )
    )
    assert [text for _, text in summarize_events(events)] == ["one", "two", "three", "four"]


def test_parents_in_a_circle_are_reported_all_the_same() -> None:
    _, events = read(
        batch(
            chat("a", 0, answered=[model("x")], parent="b"),
            chat("b", 1, answered=[model("y")], parent="a"),
        )
    )
    assert sorted(text for _, text in summarize_events(events)) == ["x", "y"]


def test_a_result_is_reported_by_the_tool_and_not_again_by_the_next_prompt() -> None:
    answer = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "r"}]}
    _, events = read(
        batch(
            chat("a", 0, [user("q")], [calls("1")]),
            ran(
                "b",
                2,
                "f",
                gen_ai__tool__call__id="1",
                gen_ai__tool__call__result="r",
                gen_ai__tool__call__arguments={"n": "1"},
            ),
            chat("c", 4, [user("q"), calls("1"), answer], [model("done")]),
        )
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result", "message"]
    paired(events)


def test_a_result_that_only_the_next_prompt_shows() -> None:
    answer = {"role": "tool", "content": "r", "tool_call_id": "1"}
    _, events = read(
        batch(
            chat("a", 0, [user("q")], [calls("1")]),
            chat("c", 4, [user("q"), calls("1"), answer], [model("d")]),
        )
    )
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result", "message"]


def test_tool_spans_without_a_model_call_add_their_own_calls() -> None:
    record, events = read(
        batch(
            agent("r", 0, 9, gen_ai__request__model="gpt-5"),
            ran("b", 2, "f", parent="r", gen_ai__tool__args='{"a": 1}', gen_ai__output="x"),
        )
    )
    assert [event["type"] for event in events] == ["tool_use", "tool_result"]
    assert events[0]["content"]["data"]["arguments"] == {"a": 1}
    assert record.participants[0]["model"] == "gpt-5"


def test_a_tool_without_output_is_a_missing_result() -> None:
    record, events = read(batch(ran("b", 2, "f")))
    assert events[1]["content"]["data"] == {"missing_result": True}
    assert [note.code for note in record.notes] == ["no-output"]


def test_errors_of_tools_and_models() -> None:
    failed = {"status": {"code": 2, "message": "broke"}}
    _, events = read(batch(ran("b", 2, "f") | failed, chat("c", 3, [user("q")]) | failed))
    assert summarize_events(events)[1] == ("tool", "broke")
    assert notes_of(events, "result_facts") == [{"is_error": True, "error": "broke"}]
    assert notes_of(events, "error") == [{"error": "broke"}]


def test_integers_that_no_double_holds_are_reported_apart() -> None:
    def printed(name: str, number: int, above: int | None, at: int, **given: Any) -> dict[str, Any]:
        return {
            "name": name,
            "context": {"trace_id": 2**100 + 1, "span_id": number},
            "parent": {"span_id": above},
            "start_time": START + at,
            "end_time": START + at + 1,
            "attributes": {key.replace("__", "."): item for key, item in given.items()},
        }

    big = 2**63 + 5
    spans = [
        printed(
            "call_llm x", 7, big + 1, 5, gen_ai__operation__name="call_llm", gen_ai__output="late"
        ),
        printed(
            "call_llm x", 8, big, 3, gen_ai__operation__name="call_llm", gen_ai__output="early"
        ),
        printed(
            "invoke_agent a",
            big,
            None,
            1,
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name="one",
        ),
        printed(
            "invoke_agent b",
            big + 1,
            None,
            4,
            gen_ai__operation__name="invoke_agent",
            gen_ai__agent__name="two",
        ),
    ]
    record, events = read({"spans": spans, "final_output": None})
    assert [text for _, text in summarize_events(events)] == ["early", "late"]
    assert [who["name"] for who in record.participants] == ["one", "two"]
    assert record.conversation["id"] == str(2**100 + 1)


@pytest.mark.parametrize(
    ("subagents", "spans", "words"),
    [("inline", 1, True), ("reference", 1, False), ("none", 0, False)],
)
def test_agents_inside_agents(subagents: str, spans: int, words: bool) -> None:
    given = batch(
        agent("Lead", 0, 9),
        chat("a", 1, [user("q")], [calls("1")], parent="Lead"),
        ran("b", 2, "f", parent="Lead", gen_ai__tool__call__id="1", gen_ai__tool__call__result="r"),
        agent("Child", 3, 5, parent="b"),
        chat("c", 4, [user("q")], [model("deep")], parent="Child"),
    )
    _, events = read(given, subagents=subagents)
    assert [event["type"] for event in events].count("span_start") == spans
    assert ("deep" in [text for _, text in summarize_events(events)]) == words
    paired(events)
    if words:
        start = next(event for event in events if event["type"] == "span_start")
        asked = next(
            event
            for event in events
            if event.get("links", {}).get("span_id") and event.get("role") == "user"
        )
        assert start["links"]["call_id"] == "call_000001"
        assert (asked["visibility"], asked["content"]["text"]) == ("internal", "q")


def test_a_loop_around_calls_of_a_model_says_nothing_twice() -> None:
    _, events = read(
        batch(
            chat("o", 0, [user("q")], [model("b")], until=9),
            chat("i", 1, [user("q")], [model("a")], parent="o"),
            chat("j", 3, [user("q"), model("a")], [model("b")], parent="o"),
        )
    )
    assert [text for _, text in summarize_events(events)] == ["q", "a", "b"]


@pytest.mark.parametrize("where", ["inside", "beside"])
def test_a_span_of_the_client_beside_its_instrumentation_says_nothing_twice(where: str) -> None:
    """Anthropic's SDK writes spans of its own, without words, in or beside those of OpenInference
    and OpenLLMetry."""
    spent = {"gen_ai__usage__input_tokens": 9, "gen_ai__usage__output_tokens": 2}
    spans = [
        each
        for n, question in enumerate(("one?", "two?"))
        for each in (
            chat(f"c{n}", 10 * n + 2, parent=f"i{n}" if where == "inside" else "", **spent),
            chat(f"i{n}", 10 * n + 1, [user(question)], [model("yes")], until=10 * n + 4, **spent),
        )
    ]
    record, events = read(lines(batch(*spans)))
    assert summarize_events(events) == [
        ("user", "one?"),
        ("assistant", "yes"),
        ("user", "two?"),
        ("assistant", "yes"),
    ]
    assert sum(event["usage"]["input_tokens"] for event in events if "usage" in event) == 18
    assert [(note.code, note.count) for note in record.notes if note.code == "other-span"] == [
        ("other-span", 2)
    ]


def test_a_model_call_without_content_is_counted_where_nothing_else_counts_it() -> None:
    spans = [chat(f"c{n}", n, gen_ai__usage__input_tokens=n) for n in (1, 2)]
    _, events = read(lines(batch(chat("w", 0, [user("q")], [model("a")], until=1), *spans)))
    assert [event["usage"]["input_tokens"] for event in events if "usage" in event] == [1, 2]


def test_all_messages_on_the_span_of_an_agent_are_not_reported_before_its_calls() -> None:
    """Pydantic AI 2: the agent's span has the whole run, also the answers that its calls of the
    model have."""
    results = [_answered("1", "r")]
    whole = [user("q"), calls("1"), *results, model("done")]
    spans = [
        chat("c1", 1, [user("q")], [calls("1")], parent="a"),
        chat("c2", 3, [user("q"), calls("1"), *results], [model("done")], parent="a"),
        agent("a", 0, 5, pydantic_ai__all_messages=[*whole, model("beside")]),
    ]
    _, events = read(lines(batch(*spans)))
    paired(events)
    join_texts = [text for role, text in summarize_events(events) if role != "assistant" or text]
    assert [event["type"] for event in events].count("tool_use") == 1
    assert join_texts.count("done") == 1
    assert join_texts[-2:] == ["done", "beside"]
    _, events = read(lines(batch(agent("a", 0, 5, pydantic_ai__all_messages=whole))))
    assert [event["type"] for event in events] == ["message", "tool_use", "tool_result", "message"]


def _answered(id: str, words: str) -> dict[str, Any]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": words}]}


def test_ids_that_are_made_of_name_and_place_pair_by_order() -> None:
    """google-genai 1.3 counts calls from behind the words, and their results from nought."""
    said = {"type": "text", "content": "look"}
    made = [
        {"type": "tool_call", "id": f"f_{n}", "name": "f", "arguments": {"n": n}} for n in (1, 2)
    ]
    answer = {"role": "assistant", "parts": [said, *made]}
    results = [{"type": "tool_call_response", "id": f"f_{n}", "response": f"r{n}"} for n in (0, 1)]
    history = [user("q"), answer, {"role": "user", "parts": results}]
    of = {"gen_ai__provider__name": "gemini"}
    spans = chat("a", 1, [user("q")], [answer], **of), chat("b", 3, history, [model("done")], **of)
    _, events = read(lines(batch(*spans)))
    paired(events)
    assert [text for role, text in summarize_events(events) if role == "tool"] == ["r0", "r1"]
    linked = [
        event["links"]["call_id"]
        for event in events
        if event["type"] in ("tool_use", "tool_result")
    ]
    assert linked[:2] == linked[2:]


def test_calls_under_the_ids_of_items_are_answered_in_order() -> None:
    """OpenLLMetry 0.62 names a call of the Responses API by its item, and its result by the
    call."""
    thought = {
        "type": "reasoning",
        "content": json.dumps([{"type": "summary_text", "text": "Hm."}]),
    }
    answer = {"role": "assistant", "parts": [thought, *calls("fc_1", "fc_2")["parts"]]}
    history = [
        user("q"),
        calls("fc_1"),
        calls("fc_2"),
        _answered("call_1", "one"),
        _answered("call_2", "two"),
    ]
    _, events = read(
        lines(batch(chat("a", 1, [user("q")], [answer]), chat("b", 3, history, [model("done")])))
    )
    paired(events)
    assert summarize_events(events)[1] == ("assistant_thought", "Hm.")
    assert not notes_of(events, "orphan_result")
    linked = [
        event["links"]["call_id"]
        for event in events
        if event["type"] in ("tool_use", "tool_result")
    ]
    assert linked[:2] == linked[2:]


def test_a_call_among_the_contents_of_openinference_is_reported_once() -> None:
    output = "llm__output_messages__0__message__"
    call = {"id": "1", "function__name": "f", "function__arguments": "{}"}
    given = {
        "openinference__span__kind": "LLM",
        f"{output}role": "assistant",
        f"{output}contents__0__message_content__type": "tool_use",
        **{f"{output}contents__0__tool_call__{name}": item for name, item in call.items()},
        **{f"{output}tool_calls__0__tool_call__{name}": item for name, item in call.items()},
    }
    _, events = read(lines(batch(span("a", 1, **given))))
    assert [
        event["content"]["data"]["tool_name"] for event in events if event["type"] == "tool_use"
    ] == ["f"]


def test_one_answer_in_two_forms_counts_once() -> None:
    event = {
        "name": "gen_ai.choice",
        "attributes": [{"key": "message", "value": value({"role": "assistant", "content": "w"})}],
    }
    _, events = read(batch(chat("a", 0, [user("q")], [model("w")]) | {"events": [event]}))
    assert [text for _, text in summarize_events(events)] == ["q", "w"]


def test_the_prompt_of_the_system_stands_first_also_when_the_agent_has_the_question() -> None:
    system = {"role": "system", "content": "s"}
    _, events = read(
        batch(
            agent("r", 0, 9, gen_ai__input__messages=[user("q")]),
            chat("a", 1, [system, user("q")], [model("w")], parent="r"),
        )
    )
    assert [text for _, text in summarize_events(events)] == ["s", "q", "w"]


def test_vercel_attributes() -> None:
    _, events = read(
        batch(
            span(
                "ai.streamText.doStream",
                0,
                ai__prompt__messages=[{"role": "user", "content": [{"type": "text", "text": "q"}]}],
                ai__response__toolCalls=[{"toolCallId": "1", "toolName": "f", "input": {"a": 1}}],
                ai__response__text="w",
                ai__usage__promptTokens=4,
            ),
            span(
                "ai.toolCall",
                2,
                ai__toolCall__name="f",
                ai__toolCall__id="1",
                ai__toolCall__args={"a": 1},
                ai__toolCall__result="r",
            ),
        )
    )
    assert [text for _, text in summarize_events(events)][:2] == ["q", "w"]
    assert events[1]["usage"] == tokens(input_tokens=4)
    paired(events)


def test_conversations_of_a_file() -> None:
    given = [
        batch(chat("a", 0, answered=[model("x")], trace="1")),
        batch(chat("b", 1, answered=[model("y")], trace="2", gen_ai__conversation__id="c")),
        batch(span("HTTP", 2, trace="3")),
        batch(
            chat("d", 3, answered=[model("z")], trace="4", gen_ai__conversation__id="c"),
            chat("e", 4, trace="1"),
        ),
    ]
    source = Source("input", data=lines(*given))
    assert [found.id for found in READER.list_conversations(source)] == ["1", "c"]
    assert [READER.find_owner(source, f"/{n}", item) for n, item in enumerate(given, 1)] == [
        "1",
        "c",
        None,
        None,
    ]
    whole = Source(
        "input",
        data=json.dumps(
            {"resourceSpans": [item["resourceSpans"][0] for item in given]}, indent=1
        ).encode(),
    )
    units = [item["resourceSpans"][0] for item in given]
    assert [
        READER.find_owner(whole, f"/resourceSpans/{n}", item) for n, item in enumerate(units)
    ] == [
        "1",
        "c",
        None,
        None,
    ]


@pytest.mark.parametrize(
    "odd",
    [None, 5, "x", [], {}, [[]], {"type": 5}, True, [{"role": "user"}], "[{", '[{"role": 5}]'],
)
def test_hostile_shapes(odd: Any) -> None:
    names = (
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.output",
        "gen_ai.prompt.0",
        "gen_ai.prompt.0.role",
        "gen_ai.prompt.0.x.y",
        "llm.output_messages.0.message",
        "gen_ai.usage.input_tokens",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.call.id",
        "gen_ai.agent.name",
        "gen_ai.request.model",
        "events",
        "ai.response.toolCalls",
        "gen_ai.conversation.id",
        "gen_ai.response.finish_reasons",
    )
    attributes = dict.fromkeys(names, odd)
    fields = (
        "traceId",
        "spanId",
        "parentSpanId",
        "name",
        "startTimeUnixNano",
        "endTimeUnixNano",
        "attributes",
        "events",
        "status",
    )
    read(
        batch(
            chat("s", 0, [user("q")]), *(chat(f"x{name}", 1) | {name: odd} for name in fields), odd
        )
    )
    for kind in ("chat", "invoke_agent", "execute_tool"):
        printed = {
            "name": "x",
            "context": {"trace_id": odd, "span_id": 2},
            "start_time": odd,
            "attributes": attributes | {"gen_ai.operation.name": kind},
        }
        read(
            [
                {
                    **printed,
                    "parent": odd,
                    "events": [
                        {"name": "gen_ai.choice", "attributes": {"message": odd}},
                        {"name": "gen_ai.user.message", "body": odd},
                    ],
                }
            ]
        )
    read(
        {
            "resourceSpans": [odd, batch(chat("s", 0, [user("q")]))["resourceSpans"][0]],
            "resourceLogs": [
                odd,
                {
                    "scopeLogs": [
                        odd,
                        {"logRecords": [odd, {"traceId": "t", "spanId": "s", "body": odd}]},
                    ]
                },
            ],
        }
    )


@pytest.mark.parametrize(
    ("name", "read_as"),
    [
        ("cache_read__input_tokens", "cache_read_tokens"),
        ("cache_read_input_tokens", "cache_read_tokens"),
        ("details__cache_read_tokens", "cache_read_tokens"),
        ("cache_creation__input_tokens", "cache_write_tokens"),
        ("cache_creation_input_tokens", "cache_write_tokens"),
        ("cache_write__input_tokens", "cache_write_tokens"),
        ("details__cache_write_tokens", "cache_write_tokens"),
        ("reasoning__output_tokens", "reasoning_tokens"),
        ("details__reasoning_tokens", "reasoning_tokens"),
    ],
)
def test_tokens_by_every_name_that_dialects_have_for_them(name: str, read_as: str) -> None:
    spent = {
        "gen_ai__usage__input_tokens": 20,
        "gen_ai__usage__output_tokens": 9,
        f"gen_ai__usage__{name}": 7,
    }
    _, events = read(batch(chat("c", 1, [user("hi")], [model("ho")], **spent)))
    (usage,) = [event["usage"] for event in events if "usage" in event]
    assert usage == tokens(input_tokens=20, output_tokens=9, **{read_as: 7})


def test_real_traces(corpus: Path) -> None:
    for path in sorted((corpus / "otel_genai").iterdir()):
        document = exported(path)
        records = (
            [json.loads(line) for line in path.read_text().splitlines()]
            if path.suffix == ".jsonl"
            else [json.loads(path.read_text())]
        )
        paired(document["events"])
        everything = join_texts(document)
        names = (
            "gen_ai.input.messages",
            "gen_ai.output",
            "gen_ai.tool.call.result",
            "gen_ai.tool.description",
        )
        asked = [text for record in records for text in said_in(record, names)]
        for text in asked:
            try:
                parsed = json.loads(text)
            except ValueError:
                parsed = None
            words = (
                [*said_in(parsed, ("content", "tool.name"))] if isinstance(parsed, list) else [text]
            )
            assert all(word in everything for word in words), path.name
        results = [event for event in document["events"] if event["type"] == "tool_result"]
        assert results
        assert all(event["content"].get("data") != {"missing_result": True} for event in results)
