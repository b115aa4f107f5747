"""SWE-agent and mini-swe-agent: history joined with steps, demonstrations, and three forms of
messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.jsontools.walk import iter_strings
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_shapes import iter_misshapen
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["swe_agent"]

GOLDEN = Path(__file__).parents[1] / "golden" / "swe_agent"
read = build_read_function(READER)


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "agent": "main", **fields}


def step(action: str, observation: str, response: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "action": action,
        "observation": observation,
        "response": response,
        "thought": "",
        "state": "{}",
        **fields,
    }


def run(history: list[Any], steps: list[Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"history": history, "trajectory": steps or [], **fields}


class TestHistory:
    def test_a_command_in_text_is_answered_by_the_next_message(self) -> None:
        _, events = read(
            run(
                [
                    said("user", "Do it."),
                    said("assistant", "ls", action="ls"),
                    said("user", "a.txt"),
                ]
            )
        )
        assert summarize_events(events) == [
            ("user", "Do it."),
            ("assistant", "ls"),
            ("assistant", {"tool_name": "bash", "arguments": {"command": "ls"}}),
            ("tool", "a.txt"),
        ]

    def test_a_demonstration_is_not_part_of_the_run(self) -> None:
        demo = [
            said("assistant", "ls", action="ls", is_demo=True),
            said("user", "a.txt", is_demo=True),
            said("user", "Do it."),
        ]
        _, events = read(run(demo))
        assert [event["type"] for event in events] == [
            "message",
            "annotation",
            "message",
            "annotation",
            "message",
        ]
        assert [event["visibility"] for event in events if event["type"] == "message"] == [
            "internal",
            "internal",
            "public",
        ]

    def test_the_output_of_the_last_command_is_in_the_step(self) -> None:
        answer = said("assistant", "submit", action="submit")
        _, events = read(
            run([said("user", "Do it."), answer], [step("submit", "+patch", "submit")])
        )
        assert summarize_events(events)[-1] == ("tool", "+patch")

    def test_a_step_that_is_not_in_the_history_keeps_its_position(self) -> None:
        steps = [step("", "", "Hm."), step("ls", "a.txt", "ls")]
        _, events = read(run([said("user", "Do it."), said("assistant", "ls", action="ls")], steps))
        assert [item[1] for item in summarize_events(events)][:3] == ["Do it.", "Hm.", "ls"]

    def test_output_that_was_shortened_for_the_model_is_noted(self) -> None:
        answer = said("assistant", "ls", action="ls")
        record, _ = read(run([answer, said("user", "(cut)")], [step("ls", "a long list", "ls")]))
        assert "unshown-output" in {note.code for note in record.notes}

    def test_an_unknown_role_is_noted(self) -> None:
        record, _ = read(run([said("oracle", "x"), said("user", "y"), 5]))
        assert {note.code for note in record.notes} == {"unknown-role", "unknown-record"}

    def test_later_messages_of_the_runtime_are_internal(self) -> None:
        history = [
            said("user", "Do it."),
            said("assistant", "Hm."),
            said("user", "Please use a command."),
        ]
        _, events = read(run(history))
        assert [event["visibility"] for event in events] == ["public", "public", "internal"]


class TestMini:
    def test_only_one_command_in_the_text_is_run(self) -> None:
        answers = ["```bash\nls\n```", "```bash\nls\n```\n```bash\npwd\n```", "```bash\nopen"]
        for answer, calls in zip(answers, (1, 0, 0), strict=True):
            document = {
                "trajectory_format": "mini-swe-agent-1",
                "messages": [{"role": "assistant", "content": answer}],
            }
            _, events = read(document)
            assert [event["type"] for event in events].count("tool_use") == calls

    def test_a_rejected_response_precedes_the_reminder(self) -> None:
        extra = {"interrupt_type": "FormatError", "model_response": "I am done."}
        messages = [{"role": "user", "content": "Use a command.", "extra": extra}]
        _, events = read({"trajectory_format": "mini-swe-agent-1.1", "messages": messages})
        assert [item[0] for item in summarize_events(events)] == ["assistant", "annotation", "user"]

    def test_the_end_is_exported_once(self) -> None:
        extra = {"exit_status": "Submitted", "submission": "+p"}
        messages = [{"role": "exit", "content": "+p", "extra": extra}]
        info = {"exit_status": "Submitted", "submission": "+p", "mini_version": "2.0"}
        _, events = read({"messages": messages, "info": info})
        assert [event["content"]["data"]["kind"] for event in events] == ["context", "outcome"]

    def test_a_different_end_is_annotated(self) -> None:
        messages = [
            {"role": "exit", "content": "Too dear.", "extra": {"exit_status": "LimitsExceeded"}}
        ]
        _, events = read({"messages": messages, "info": {"mini_version": "2.0"}})
        assert events[1]["content"]["data"] == {
            "kind": "stop",
            "exit_status": "LimitsExceeded",
            "text": "Too dear.",
        }


class TestYaml:
    def test_errors_name_the_position(self) -> None:
        source = Source("demo.yaml", data=b"history:\n  - role: user\n    content: [\n")
        assert READER.sniff(source)
        with pytest.raises(InputError) as caught:
            READER.read(source, Draft())
        assert caught.value.code == "input.yaml"

    @pytest.mark.parametrize(
        "text", ["history:\n", "history: 3\n- role: user\n", "# history:\n#  - role: user\n"]
    )
    def test_other_texts_are_not_claimed(self, text: str) -> None:
        assert not READER.sniff(Source("x", data=text.encode()))

    def test_many_blank_lines_take_linear_time(self) -> None:
        assert not READER.sniff(Source("x", data=b"history:" + b"\n" * 60_000))


def test_no_other_reader_claims_these() -> None:
    files = sorted(GOLDEN.glob("*/input.*"))
    assert len(files) > 8
    for path in files:
        assert detect_format(Source.of(path)) == "swe_agent"


@pytest.mark.parametrize(
    "value",
    [
        {"history": [{"role": "user", "content": "x"}]},
        {"history": [{"action": "run", "args": {}}]},
        {"trajectory": [1, 2]},
        {"messages": [], "info": {}},
        {"info": {"exit_status": "x", "model_stats": {}}, "messages": "none"},
        {"history": [], "trajectory": []},
    ],
)
def test_similar_documents_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*/input.traj*")), ids=lambda path: path.parts[-2]
)
def test_odd_values_do_not_fail(path: Path) -> None:
    for value in iter_misshapen(json.loads(path.read_text())):
        source = Source("x", data=json.dumps(value).encode())
        if READER.sniff(source):
            READER.read(source, Draft(branches="all"))


def test_all_text_of_real_files_is_included(corpus: Path) -> None:
    files = sorted((corpus / "swe_agent").iterdir())
    assert files
    for path in files:
        document = json.loads(path.read_text())
        _, events = read(path.read_bytes())
        kept = "\n".join(iter_strings([event["content"] for event in events]))
        wanted = [
            item[name]
            for item in document["history"]
            for name in ("content", "thought", "action")
            if name in item
        ]
        wanted += [
            item[name]
            for item in document.get("trajectory", [])
            for name in ("response", "observation")
        ]
        assert all(text.strip() in kept for text in wanted)
        calls = [event["links"]["call_id"] for event in events if event["type"] == "tool_use"]
        assert sorted(calls) == sorted(
            event["links"]["call_id"] for event in events if event["type"] == "tool_result"
        )
