"""ATIF: steps of every version, files that go on in other files, subagents in and beside the
document."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import MISSING_RESULT, Draft
from open_token.errors import InputError
from open_token.model.document import Event, Record
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_shapes import iter_misshapen
from readers.provider_readers import build_read_function, summarize_events

READER = READERS["atif"]

GOLDEN = Path(__file__).parents[1] / "golden" / "atif"
read = build_read_function(READER)


def trajectory(*steps: Any, version: str = "1.7", **fields: Any) -> dict[str, Any]:
    agent = {"name": "agent", "version": "1"}
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "s",
        "agent": agent,
        "steps": list(steps),
        **fields,
    }


def step(source: str, message: Any, **fields: Any) -> dict[str, Any]:
    return {"step_id": 1, "source": source, "message": message, **fields}


def call(name: str) -> dict[str, Any]:
    return {"tool_call_id": name, "function_name": "run", "arguments": {"for": name}}


def beside(folder: Path, **files: Any) -> Source:
    for name, document in files.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    return Source.of(folder / "main.json")


def read_trajectory(source: Source, **options: Any) -> tuple[Record, list[Event]]:
    draft = Draft(**options)
    READER.read(source, draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def words(events: list[Event]) -> list[Any]:
    return [item for item in summarize_events(events) if item[0] != "annotation"]


def answers(events: list[Event]) -> dict[str, Any]:
    return {
        event["links"]["call_id"]: event["content"].get("text")
        for event in events
        if event["type"] == "tool_result"
    }


class TestPairing:
    def test_without_ids_results_answer_in_order(self) -> None:
        results = [{"content": "1"}, {"content": "2"}]
        _, events = read(
            trajectory(
                step(
                    "agent", "", tool_calls=[call("a"), call("b")], observation={"results": results}
                )
            )
        )
        pairs = {
            event["links"]["call_id"]: event["content"]["text"]
            for event in events
            if event["type"] == "tool_result"
        }
        assert pairs == {"call_000001": "1", "call_000002": "2"}

    def test_a_named_result_leaves_the_others_in_order(self) -> None:
        results = [{"source_call_id": "b", "content": "2"}, {"content": "1"}, {"content": "3"}]
        calls = [call("a"), call("b"), call("c")]
        _, events = read(
            trajectory(step("agent", "", tool_calls=calls, observation={"results": results}))
        )
        pairs = {
            event["links"]["call_id"]: event["content"]["text"]
            for event in events
            if event["type"] == "tool_result"
        }
        assert pairs == {"call_000001": "1", "call_000002": "2", "call_000003": "3"}

    def test_a_result_may_come_with_a_later_step(self) -> None:
        later = step(
            "agent", "Done.", observation={"results": [{"source_call_id": "a", "content": "1"}]}
        )
        _, events = read(trajectory(step("agent", "", tool_calls=[call("a")]), later))
        results = [event for event in events if event["type"] == "tool_result"]
        assert [event["content"].get("text") for event in results] == ["1"]

    def test_two_calls_of_one_id_stay_two(self) -> None:
        results = [{"content": "1"}, {"content": "2"}]
        _, events = read(
            trajectory(
                step(
                    "agent", "", tool_calls=[call("a"), call("a")], observation={"results": results}
                )
            )
        )
        assert [event["content"]["text"] for event in events if event["type"] == "tool_result"] == [
            "1",
            "2",
        ]

    @pytest.mark.parametrize("mark", ["is_error", "tool_result_is_error"])
    def test_failed_call_is_reported_in_the_words_of_any_agent(self, mark: str) -> None:
        results = [{"source_call_id": "c", "content": "no", "extra": {mark: True, "exit_code": 1}}]
        made = step("agent", "", tool_calls=[call("c")], observation={"results": results})
        _, events = read(trajectory(made))
        (facts,) = (
            event["content"]["data"] for event in events if "result_facts" in str(event["content"])
        )
        assert facts == {
            "kind": "result_facts",
            "extra": {mark: True, "exit_code": 1},
            "is_error": True,
        }

    def test_result_that_says_it_is_missing_is_none(self) -> None:
        results = [{"source_call_id": "c", "extra": {"missing_result": True}}]
        made = step("agent", "", tool_calls=[call("c")], observation={"results": results})
        _, events = read(trajectory(made))
        assert [event["content"]["data"] for event in events if event["type"] == "tool_result"] == [
            MISSING_RESULT
        ]

    def test_what_answers_no_call_is_the_environment_speaking(self) -> None:
        _, events = read(
            trajectory(step("agent", "ls", observation={"results": [{"content": "a.txt"}]}))
        )
        assert words(events) == [("assistant", "ls"), ("user", "a.txt")]
        assert events[-1]["visibility"] == "internal"


class TestFiles:
    def test_a_chain_ends_where_it_began(self, tmp_path: Path) -> None:
        source = beside(
            tmp_path,
            main=trajectory(step("user", "one"), continued_trajectory_ref="next.json"),
            next=trajectory(step("user", "two"), continued_trajectory_ref="main.json"),
        )
        record, events = read_trajectory(source)
        assert words(events) == [("user", "one"), ("user", "two")]
        assert "repeated-file" in {note.code for note in record.notes}

    @pytest.mark.parametrize(
        "ref", ["../up.json", "/etc/passwd", "s3://bucket/x.json", "gone.json", "a\\b.json", "a\0b"]
    )
    def test_what_is_not_beside_the_file_is_not_opened(self, tmp_path: Path, ref: str) -> None:
        (tmp_path / "up.json").write_text(json.dumps(trajectory(step("user", "secret"))))
        folder = tmp_path / "inner"
        folder.mkdir()
        record, events = read_trajectory(
            beside(folder, main=trajectory(step("user", "one"), continued_trajectory_ref=ref))
        )
        assert words(events) == [("user", "one")]
        assert "missing-file" in {note.code for note in record.notes}

    def test_a_link_that_leads_away_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "up.json").write_text(json.dumps(trajectory(step("user", "secret"))))
        folder = tmp_path / "inner"
        folder.mkdir()
        (folder / "next.json").symlink_to(tmp_path / "up.json")
        main = trajectory(step("user", "one"), continued_trajectory_ref="next.json")
        assert words(read_trajectory(beside(folder, main=main))[1]) == [("user", "one")]

    def test_a_broken_continuation_does_not_cost_the_rest(self, tmp_path: Path) -> None:
        main = trajectory(step("user", "one"), continued_trajectory_ref="next.json")
        source = beside(tmp_path, main=main)
        (tmp_path / "next.json").write_text("{")
        record, events = read_trajectory(source)
        assert words(events) == [("user", "one")]
        assert "unreadable-file" in {note.code for note in record.notes}

    def test_ids_of_different_files_do_not_meet(self) -> None:
        record, events = read_trajectory(Source.of(GOLDEN / "embedded" / "input.json"))
        calls = [
            event["content"]["data"]["native_call_id"]
            for event in events
            if event["type"] == "tool_use"
        ]
        assert calls == ["call_1", "call_1", "call_2"]
        assert "duplicate-call" not in {note.code for note in record.notes}

    def test_subagents_too_deep_are_noted(self) -> None:
        document = trajectory(step("user", "end"), trajectory_id="t0")
        for number in range(1, 25):
            document = trajectory(
                step("user", str(number)),
                trajectory_id=f"t{number}",
                subagent_trajectories=[document],
            )
        record, _ = read(document)
        assert "deep-subagent" in {note.code for note in record.notes}


class TestCopies:
    def test_a_copy_of_what_was_reported_is_not_reported_again_and_counts_nothing(self) -> None:
        copy = step("user", "Hi.", is_copied_context=True)
        new = step("agent", "Ho.", is_copied_context=True, metrics={"prompt_tokens": 5})
        record, events = read(trajectory(step("user", "Hi."), copy, new))
        assert words(events) == [("user", "Hi."), ("assistant", "Ho.")]
        assert all("usage" not in event for event in events)
        assert [note.code for note in record.notes] == ["copied-context", "experimental-reader"]

    def test_the_same_words_without_the_mark_are_said_again(self) -> None:
        _, events = read(trajectory(step("user", "Hi."), step("user", "Hi.")))
        assert words(events) == [("user", "Hi."), ("user", "Hi.")]


class TestMany:
    DATA = b"".join(
        json.dumps(trajectory(step("user", name), trajectory_id=name)).encode() + b"\n"
        for name in ("a", "b", "a")
    )

    def test_each_line_is_a_conversation(self) -> None:
        source = Source("set", data=self.DATA)
        assert READER.sniff(source)
        assert [found.id for found in READER.list_conversations(source)] == ["a", "b", "a#3"]
        assert [READER.find_owner(source, f"/{number}", None) for number in (1, 2, 3, 4)] == [
            "a",
            "b",
            "a#3",
            None,
        ]
        source.conversation = "a#3"
        assert words(read_trajectory(source)[1]) == [("user", "a")]

    def test_a_list_is_numbered_from_nothing(self) -> None:
        documents = [json.loads(line) for line in self.DATA.splitlines()]
        source = Source("set", data=json.dumps(documents).encode())
        assert READER.sniff(source)
        assert [READER.find_owner(source, f"/{number}", None) for number in (0, 1, 2, 3)] == [
            "a",
            "b",
            "a#3",
            None,
        ]
        assert READER.find_owner(source, "/steps/0", None) is None

    def test_one_that_is_not_there_is_an_error(self) -> None:
        source = Source("set", data=self.DATA)
        source.conversation = "z"
        with pytest.raises(InputError):
            READER.read(source, Draft())


def test_a_newer_version_is_read_with_a_note() -> None:
    for version, noted in (("1.8", False), ("1.10", True), ("2.0", True), ("x", True)):
        record, events = read(trajectory(step("user", "Hi."), version=version))
        assert words(events) == [("user", "Hi.")]
        assert ("newer-version" in {note.code for note in record.notes}) is noted


def test_nobody_else_claims_these() -> None:
    files = sorted(GOLDEN.glob("*/input.*")) + sorted(GOLDEN.glob("*/input/*.json"))
    assert len(files) > 8
    for path in files:
        assert detect_format(Source.of(path)) == "atif"


@pytest.mark.parametrize(
    "value",
    [
        {"schema_version": "ATIF-v1.5"},
        {"schema_version": "v1.5", "steps": []},
        {"steps": []},
        [],
        [3],
    ],
)
def test_what_only_looks_alike_is_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("*/input.json")), ids=lambda path: path.parts[-2]
)
def test_no_odd_value_is_an_accident(path: Path) -> None:
    for value in iter_misshapen(json.loads(path.read_text())):
        source = Source("x", data=json.dumps(value).encode())
        if READER.sniff(source):
            READER.read(source, Draft())
