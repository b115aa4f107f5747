"""Messages of Claude Code: messages in several lines, injected text, results."""

import base64
from typing import Any

import pytest

from readers.claude_lines import COUNTS, File, body, call, events, read, summarize, text, thinking
from readers.provider_readers import tokens

PNG = base64.b64encode(b"\x89PNG tiny").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


def usage(output: int) -> dict[str, Any]:
    return COUNTS | {"output_tokens": output}


def spent(file: File) -> list[tuple[str, int]]:
    return [(e["id"], e["usage"]["output_tokens"]) for e in events(file) if "usage" in e]


def test_a_message_over_several_lines_counts_its_usage_once_on_what_is_not_thought() -> None:
    file = File()
    file.user("go")
    file.assistant(thinking("hm"), id="m", usage=usage(1))
    file.assistant(text("so"), id="m", usage=usage(1))
    file.assistant(call("t1"), id="m", usage=usage(44))
    file.result("t1")
    kinds = [(e.get("role"), e.get("usage")) for e in events(file)]
    assert kinds == [
        ("user", None),
        ("assistant_thought", None),
        (
            "assistant",
            tokens(
                input_tokens=113, output_tokens=44, cache_read_tokens=100, cache_write_tokens=10
            ),
        ),
        ("assistant", None),
        ("tool", None),
    ]


def test_lines_of_one_message_need_not_be_neighbours() -> None:
    file = File()
    file.assistant(call("t1"), id="m", usage=usage(5))
    file.result("t1")
    file.assistant(call("t2"), id="m", usage=usage(9))
    file.result("t2")
    assert summarize(file) == [
        "tool_use: t1",
        "tool_result: done",
        "tool_use: t2",
        "tool_result: done",
    ]
    assert spent(file) == [("evt_000002", 9)]


def test_the_copy_with_most_output_holds() -> None:
    file = File()
    file.assistant(text("a"), id="m", usage=usage(50))
    file.assistant(text("b"), id="m", usage=usage(2))
    assert spent(file) == [("evt_000002", 50)]


def test_a_message_of_thought_alone_keeps_its_usage_there() -> None:
    file = File()
    file.assistant(thinking("hm"), id="m", usage=usage(6))
    assert spent(file) == [("evt_000002", 6)]


def test_a_usage_that_only_a_later_line_has_is_put_in() -> None:
    file = File()
    file.assistant(call("t1"), id="m", usage={})
    file.assistant(text("x"), id="m", usage=usage(8))
    assert spent(file) == [("evt_000002", 8)]


def test_a_message_that_comes_again_much_later_is_not_counted_again() -> None:
    file = File()
    file.assistant(text("first"), id="m", usage=usage(8))
    for number in range(300):
        file.assistant(text(f"{number}"), id=f"n{number}", usage=usage(1))
    file.assistant(text("again"), id="m", usage=usage(9))
    assert sum(count for _, count in spent(file)) == 308


def test_encrypted_thinking_has_no_text() -> None:
    file = File()
    file.assistant({"type": "redacted_thinking", "data": "c2VhbGVk"}, id="a")
    file.assistant({"type": "thinking", "thinking": "", "signature": "c2ln"}, id="b")
    assert [body(e) for e in events(file)] == [{"redacted": True, "encrypted": True}] * 2
    assert read(file).conversation["internal_availability"] == "available"


def test_parallel_calls_and_a_missing_result() -> None:
    file = File()
    file.assistant(call("t1"), id="m")
    file.assistant(call("t2"), id="m")
    file.result("t2", "two")
    file.user("never mind")
    assert summarize(file) == [
        "tool_use: t1",
        "tool_use: t2",
        "tool_result: two",
        "tool_result: {'missing_result': True}",
        "user: never mind",
    ]


def test_a_rejected_call_has_a_result_and_is_marked() -> None:
    file = File()
    file.assistant(call("t1"))
    refused = "The user doesn't want to proceed with this tool use."
    file.result("t1", refused, side=refused, is_error=True, toolDenialKind="user-rejected")
    file.user([text("[Request interrupted by user for tool use]")])
    _, result, facts, interruption, mark = events(file)
    assert result["content"] == {"mime": "text/plain", "text": refused}
    assert body(facts) == {
        "kind": "result_facts",
        "is_error": True,
        "rejected": True,
        "denial": "user-rejected",
    }
    assert facts["links"]["parent_id"] == result["id"]
    assert (interruption["role"], interruption["visibility"]) == ("user", "internal")
    assert body(mark) == {"kind": "interrupted"}
    assert mark["links"]["parent_id"] == interruption["id"]


def test_results_with_several_blocks_and_images() -> None:
    file = File()
    file.assistant(call("t1"), call("t2"), call("t3"))
    file.user(
        [
            {"type": "tool_result", "tool_use_id": "t1", "content": [text("one")]},
            {"type": "tool_result", "tool_use_id": "t2", "content": [text("two"), IMAGE]},
            {"type": "tool_result", "tool_use_id": "t3"},
        ]
    )
    contents = [e["content"] for e in events(file) if e["type"] == "tool_result"]
    assert contents[0] == {"mime": "text/plain", "text": "one"}
    assert contents[1]["data"][1] | {"sha256": ""} == {
        "type": "image",
        "media_type": "image/png",
        "encoding": "base64",
        "bytes": 9,
        "sha256": "",
        "base64": PNG,
    }
    assert contents[2] == {"mime": "text/plain", "text": ""}


def test_an_image_from_a_person_is_one_message_with_its_text() -> None:
    file = File()
    file.user([IMAGE, text("what is this?")])
    (event,) = events(file)
    assert [block["type"] for block in event["content"]["data"]] == ["image", "text"]
    assert (event["role"], event["visibility"]) == ("user", "public")


def test_injected_text_is_separated_from_typed_text() -> None:
    file = File()
    file.user("<local-command-stdout>ok</local-command-stdout>")
    file.user("Caveat: the words below are not for you", isMeta=True)
    file.user(
        [
            text("<ide_opened_file>a.py</ide_opened_file>"),
            text("fix it"),
            text("<system-reminder>x</system-reminder>"),
        ]
    )
    file.user("please\n<system-reminder>todo list is empty</system-reminder>")
    names = {p["actor_id"]: p["name"] for p in read(file).participants}
    assert [
        (names[e["actor_id"]], e["visibility"], e["content"]["text"]) for e in events(file)
    ] == [
        ("Claude Code", "internal", "<local-command-stdout>ok</local-command-stdout>"),
        ("Claude Code", "internal", "Caveat: the words below are not for you"),
        ("Claude Code", "internal", "<ide_opened_file>a.py</ide_opened_file>"),
        ("user", "public", "fix it"),
        ("Claude Code", "internal", "<system-reminder>x</system-reminder>"),
        ("user", "public", "please"),
        ("Claude Code", "internal", "\n<system-reminder>todo list is empty</system-reminder>"),
    ]


def test_another_agent_that_writes_in_is_a_speaker_of_its_own() -> None:
    file = File()
    file.user("I am done.", origin={"kind": "peer", "from": "reviewer"})
    record = read(file)
    event = list(record.events)[-1]
    assert event["visibility"] == "internal"
    assert {"kind": "model", "name": "reviewer"}.items() <= next(
        p for p in record.participants if p["actor_id"] == event["actor_id"]
    ).items()


def test_lines_that_the_client_made_up_are_no_turn_of_the_model() -> None:
    file = File()
    file.assistant(
        text("API Error: 529"), model="<synthetic>", isApiErrorMessage=True, error="overloaded"
    )
    file.assistant(text("No response requested."), model="<synthetic>")
    record = read(file)
    assert [body(e) for e in record.events][1:] == [
        {"kind": "api_error", "text": "API Error: 529", "error": "overloaded"},
        {"kind": "client_message", "text": "No response requested."},
    ]
    assert [p["kind"] for p in record.participants] == ["system"]


def test_unusual_stop_reasons_are_annotated() -> None:
    file = File()
    file.assistant(text("I will"), isAbortedMidStream=True)
    message = {
        "id": "m",
        "model": "claude-x",
        "content": [text("far too long")],
        "stop_reason": "max_tokens",
    }
    file.add("assistant", message=message, costUSD=0.25, durationMs=1200)
    assert [body(e) for e in events(file) if e["type"] == "annotation"] == [
        {"kind": "aborted"},
        {"kind": "stop", "reason": "max_tokens"},
        {"kind": "cost", "cost_usd": 0.25, "duration_ms": 1200},
    ]


def test_calls_without_ids_are_paired_in_order() -> None:
    file = File()
    file.add(
        "assistant",
        message={"content": [{"type": "tool_use", "name": "a"}, {"type": "tool_use", "name": "b"}]},
    )
    file.user([{"type": "tool_result", "content": "of a"}])
    file.user([{"type": "tool_result", "content": "of b"}])
    made = [e for e in events(file) if "links" in e]
    assert [e["links"]["call_id"] for e in made] == [
        "call_000001",
        "call_000002",
        "call_000001",
        "call_000002",
    ]


def test_a_compaction_summary_is_internal() -> None:
    file = File()
    file.user("Summary: we fixed things.", isCompactSummary=True)
    file.user(
        "This session is being continued from a previous conversation that ran out of context. We did much."
    )
    assert [(e.get("visibility"), body(e)) for e in events(file)] == [
        ("internal", {}),
        ("metadata", {"kind": "compaction_summary"}),
    ] * 2


def test_every_model_is_a_participant() -> None:
    file = File()
    file.assistant(text("a"), model="claude-opus-5")
    file.assistant(text("b"), model="glm-4.7")
    file.assistant(text("c"), model="claude-opus-5")
    models = [p for p in read(file).participants if p["kind"] == "model"]
    assert [(p["model"], p.get("provider")) for p in models] == [
        ("claude-opus-5", "anthropic"),
        ("glm-4.7", None),
    ]


@pytest.mark.parametrize(
    "content",
    [None, 7, "", [], [None], [[]], [{"type": 5}], [{"type": []}], [{}], {"type": "text"}],
)
@pytest.mark.parametrize("kind", ["user", "assistant"])
def test_odd_content_breaks_nothing(kind: str, content: Any) -> None:
    file = File()
    file.user("start")
    for extra in (
        {},
        {"isMeta": True},
        {"isCompactSummary": True},
        {"origin": 3},
        {"toolUseResult": 4},
    ):
        file.add(
            kind,
            message={"id": 5, "model": [], "content": content, "usage": 3, "stop_reason": {}},
            **extra,
        )
        file.add(kind, message=content, **extra)
    assert summarize(file)[0] == "user: start"


def test_an_accepted_plan_is_not_the_persons_word() -> None:
    file = File()
    file.assistant(text("Here is my plan."))
    prompt = "Implement the following plan:\n\n1. Use a list.\n\nRead the transcript if needed."
    file.user(prompt, planContent="1. Use a list.")
    kinds = {p["actor_id"]: p["kind"] for p in read(file).participants}
    plan, facts = events(file)[1:]
    assert (kinds[plan["actor_id"]], plan["content"]["text"]) == ("model", "1. Use a list.")
    assert body(facts) == {"kind": "plan", "sent_text": prompt}
    assert kinds[facts["actor_id"]] == "system"


def test_a_plan_that_is_not_in_its_prompt_is_the_clients_word() -> None:
    file = File()
    file.user("Go on with the plan.", planContent="1. Use a list.")
    kinds = {p["actor_id"]: p["kind"] for p in read(file).participants}
    assert [kinds[e["actor_id"]] for e in events(file)] == ["system"]
