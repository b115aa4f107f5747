"""Tasks of Cline: results found by order, whose words are whose, and one conversation from
whichever file is opened."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.agents.cline.api_messages import (
    extract_answer,
    extract_typed_text,
    is_injected,
    parse_text_result,
)
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_values import iter_mangled
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["cline"]

GOLDEN = Path(__file__).parent.parent / "golden" / "cline"
TASK = "1769000000000"
ENV = {
    "type": "text",
    "text": "<environment_details>\n# Current Mode\nACT MODE\n</environment_details>",
}
read = build_read_function(READER)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def user(*words: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [text(item) if isinstance(item, str) else item for item in words],
    }


def calls(*tools: str) -> dict[str, Any]:
    blocks = [
        {"type": "tool_use", "id": f"c{n}", "name": tool, "input": {"n": n}}
        for n, tool in enumerate(tools)
    ]
    return {"role": "assistant", "content": blocks}


FIRST = user("<task>\ndo\n</task>", ENV)


def results(*messages: Any) -> list[tuple[str, Any]]:
    """Each call's own id with its result."""
    _, events = read([FIRST, *messages])
    names = {
        e["links"]["call_id"]: e["content"]["data"]["native_call_id"]
        for e in events
        if e["type"] == "tool_use"
    }
    read_events = [event for event in events if event["type"] == "tool_result"]
    return sorted(
        (names[e["links"]["call_id"]], e["content"].get("text", e["content"].get("data")))
        for e in read_events
    )


class TestResults:
    def test_results_are_matched_by_tool_and_order(self) -> None:
        texts = [
            "[read_file for 'a'] Result:\n1",
            "[list_files for '.'] Result:\n2",
            "[read_file for 'b'] Result:\n3",
        ]
        assert results(calls("read_file", "read_file", "list_files"), user(*texts, ENV)) == [
            ("c0", texts[0]),
            ("c1", texts[2]),
            ("c2", texts[1]),
        ]

    def test_a_heading_of_many_lines(self) -> None:
        words = "[execute_command for 'echo <<X\n] Resulting\nX'] Result:\nout"
        assert results(calls("execute_command"), user(words)) == [("c0", words)]

    def test_refused_calls(self) -> None:
        refused = "Tool [read_file] was not executed because a tool has already been used in this message."
        assert results(
            calls("read_file", "read_file"), user("[read_file for 'a'] Result:\n1", refused)
        )[1] == (
            "c1",
            refused,
        )

    def test_an_unknown_tool_answers_the_first_call(self) -> None:
        words = "[use_mcp_tool for 'weather'] Result:\nrain"
        assert results(calls("abc0mcp0weather"), user(words)) == [("c0", words)]

    def test_a_result_answers_only_the_last_response(self) -> None:
        missing = {"missing_result": True}
        first = {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "read_file", "input": {}}],
        }
        words = "[read_file for 'b'] Result:\n2"
        read_events = results(first, user(ENV), calls("read_file"), user(words))
        assert read_events == [("a", missing), ("c0", words)]

    def test_results_as_blocks(self) -> None:
        block = {
            "type": "tool_result",
            "tool_use_id": "c0",
            "content": [text("out")],
            "is_error": True,
        }
        assert results(calls("read_file"), user(block, ENV)) == [("c0", "out")]

    def test_a_heading_with_its_output_in_separate_blocks(self) -> None:
        read_events = results(
            calls("read_file", "list_files"),
            user("[read_file for 'a'] Result:", "1", "2", "[list_files for 'b'] Result:", ENV),
        )
        assert read_events == [("c0", [text("1"), text("2")]), ("c1", "")]

    def test_two_headings_answer_two_calls(self) -> None:
        texts = ["[use_mcp_tool for 'a'] Result:", "1", "[use_mcp_tool for 'b'] Result:", "2"]
        assert results(calls("one", "two"), user(*texts)) == [("c0", "1"), ("c1", "2")]

    def test_a_final_answer_is_a_message(self) -> None:
        block = {
            "type": "tool_use",
            "id": "c",
            "name": "attempt_completion",
            "input": {"result": "Done."},
        }
        _, events = read([FIRST, {"role": "assistant", "content": [block]}])
        said = events[-1] if events[-1]["type"] == "message" else events[-2]
        assert (said["role"], said["visibility"], said["content"]["text"]) == (
            "assistant",
            "public",
            "Done.",
        )
        assert said["links"]["parent_id"] == next(
            event["id"] for event in events if event["type"] == "tool_use"
        )


class TestTexts:
    @pytest.mark.parametrize(
        ("words", "typed"),
        [
            ("<task>\nx\n</task>", "x"),
            ("\n<feedback>\r\nx\n</feedback>\n", "x"),
            ("[TASK RESUMPTION] y\n<user_message>\nx\n</user_message>", "x"),
            ("<task>x</task>\n<environment_details>y</environment_details>", "x"),
            ("<environment_details><task>x</task></environment_details>", None),
            ("</task><task>", None),
            ("x", None),
        ],
    )
    def test_tags_around_typed_text(self, words: str, typed: str | None) -> None:
        assert extract_typed_text(words) == typed

    def test_injected_text(self) -> None:
        assert is_injected("\n# task_progress RECOMMENDED")
        assert not is_injected("[TASK RESUMPTION] <user_message>\nx\n</user_message>")
        assert not is_injected("Please note.")

    def test_a_file_that_quotes_a_tag_is_not_an_answer(self) -> None:
        words = "[read_file for 'a'] Result:\n<feedback>no</feedback>"
        outcome = parse_text_result(words)
        assert outcome is not None
        assert extract_answer(words, outcome) is None
        asked = "[ask_followup_question for 'a'] Result:\n<answer>\nyes\n</answer>"
        outcome = parse_text_result(asked)
        assert outcome is not None
        assert extract_answer(asked, outcome) == "yes"

    @pytest.mark.parametrize(
        "words", ["[Result]", "a [read_file] Result:", "[1] Result:", "[read file] Result:"]
    )
    def test_text_that_is_not_a_result(self, words: str) -> None:
        assert parse_text_result(words) is None

    def test_actors_of_user_messages(self) -> None:
        record, events = read(
            [FIRST, calls(), user("[ERROR] no tool", "typed", "[old_tool for 'x'] Result:\ny")]
        )
        kinds = {who["actor_id"]: who["kind"] for who in record.participants}
        said = [(kinds[e["actor_id"]], e["visibility"]) for e in events if e.get("role") == "user"]
        mine, put_in = ("human", "public"), ("system", "internal")
        assert said == [mine, put_in, put_in, mine, put_in]

    def test_answers_to_calls_that_are_text(self) -> None:
        xml = {"role": "assistant", "content": [text("<attempt_completion>x</attempt_completion>")]}
        for words in (
            ["[attempt_completion] Result:\nThe user says\n<feedback>\nno\n</feedback>"],
            ["[attempt_completion] Result:", "<feedback>\nno\n</feedback>"],
        ):
            _, events = read([FIRST, xml, user(*words, ENV)])
            said = [event["content"]["text"] for event in events if event.get("role") == "user"]
            public = [
                event["content"]["text"] for event in events if event.get("visibility") == "public"
            ]
            assert public[-1] == "no"
            assert words[0] in said

    def test_calls_as_text_stay_text(self) -> None:
        xml = "<read_file>\n<path>a</path>\n</read_file>"
        _, events = read([FIRST, {"role": "assistant", "content": [text(xml)]}])
        assert summarize_events(events)[-1] == ("assistant", xml)


class TestUsage:
    def spent(self, message: dict[str, Any]) -> list[Any]:
        _, events = read([FIRST, message])
        return [event["usage"] for event in events if "usage" in event]

    def test_prompt_tokens_exclude_cached_tokens(self) -> None:
        metrics = {"tokens": {"prompt": 10, "completion": 5, "cached": 90}}
        message = {"role": "assistant", "content": [text("x")], "metrics": metrics}
        assert self.spent(message) == [tokens(input_tokens=100, output_tokens=5)]
        assert self.spent(message | {"metrics": {"tokens": None}}) == []


class TestFiles:
    @pytest.fixture
    def task(self, tmp_path: Path) -> Path:
        folder = tmp_path / TASK
        folder.mkdir()
        for file in (GOLDEN / "basic" / "input" / TASK).iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        return folder

    def read_events(self, source: Source) -> list[Event]:
        assert detect_format(source) == "cline"
        draft = Draft()
        READER.read(source, draft)
        return list(draft.finish(lambda: "0" * 64).events)

    def test_every_file_gives_the_same_export(self, task: Path) -> None:
        files = ("api_conversation_history.json", "ui_messages.json", "task_metadata.json")
        read_events = [self.read_events(Source.of(task / name)) for name in files] + [
            self.read_events(Source.of_folder(task))
        ]
        assert all(events == read_events[0] for events in read_events)
        assert len(read_events[0]) > 15

    def test_an_incomplete_panel_file(self, task: Path) -> None:
        (task / "ui_messages.json").write_text('[{"ts": 1')
        draft = Draft()
        READER.read(Source.of(task / "api_conversation_history.json"), draft)
        notes = draft.finish(lambda: "0" * 64).notes
        assert ("unreadable-part", "ui_messages.json") in [
            (note.code, note.place) for note in notes
        ]

    def test_metadata_alone_is_not_a_conversation(self, task: Path) -> None:
        for name in ("api_conversation_history.json", "ui_messages.json"):
            (task / name).unlink()
        source = Source.of(task / "task_metadata.json")
        with pytest.raises(InputError) as caught:
            self.read_events(source)
        assert caught.value.code == "input.no-events"

    def test_times_come_from_the_panel(self, task: Path) -> None:
        events = self.read_events(Source.of(task / "api_conversation_history.json"))
        said = [event["ts"] for event in events if event.get("visibility") == "public"]
        assert said[:2] == ["2026-01-21T12:53:20.028Z", "2026-01-21T12:53:22.591Z"]

    def test_a_folder_that_is_not_a_task(self, tmp_path: Path) -> None:
        (tmp_path / "notes.json").write_text("[]")
        assert not READER.sniff(Source.of_folder(tmp_path))


class TestSniff:
    @pytest.mark.parametrize(
        "value",
        [
            [user("hello")],
            [{"role": "user", "content": "<task> in a chat"}],
            [{"ts": 1, "type": "say"}],
            [{"ts": "1", "type": "say", "say": "text"}],
            [],
            [FIRST, 1],
            {"files_in_context": []},
            {"role": "user", "content": [text("<task>")]},
        ],
    )
    def test_files_that_are_not_tasks(self, value: Any) -> None:
        assert not READER.sniff(Source("x", data=json.dumps(value).encode()))

    @pytest.mark.parametrize(
        "value",
        [
            [FIRST],
            [
                {
                    "role": "user",
                    "content": "<task>\nx\n</task>\n<environment_details>y</environment_details>",
                }
            ],
            [user("hello"), {"role": "assistant", "content": [], "modelInfo": {"modelId": "m"}}],
            [{"ts": 1, "type": "say", "say": "text", "text": "x"}],
        ],
    )
    def test_no_other_reader_claims_a_task(self, value: Any) -> None:
        for indent in (None, 1):
            assert (
                detect_format(Source("x", data=json.dumps(value, indent=indent).encode()))
                == "cline"
            )


def test_peek() -> None:
    place = text(
        "<environment_details>\n# Current Working Directory (/w) Files\n</environment_details>"
    )
    assert READER.peek([user("<task>\nwords\n</task>", place), 2]) == {
        "cwd": "/w",
        "title": "words",
    }
    assert READER.peek([{"ts": 1, "type": "say", "say": "text", "text": "words"}]) == {
        "title": "words"
    }
    assert READER.peek([{"content": 5}]) == READER.peek([]) == READER.peek([[]]) == {}


@pytest.mark.parametrize("case", ["basic", "results", "older_builds", "forks"])
def test_odd_values_do_not_fail(case: str) -> None:
    [path] = (GOLDEN / case / "input").glob("*/api_conversation_history.json")
    for odd in iter_mangled(json.loads(path.read_text())):
        draft = Draft()
        READER.read(Source("x", data=json.dumps(odd).encode()), draft)
        list(draft.finish(lambda: "0" * 64).events)


def test_odd_values_of_the_panel(tmp_path: Path) -> None:
    folder = GOLDEN / "basic" / "input" / TASK
    api = tmp_path / "api_conversation_history.json"
    api.write_bytes((folder / api.name).read_bytes())
    for number, odd in enumerate(
        iter_mangled(json.loads((folder / "ui_messages.json").read_text()))
    ):
        data = json.dumps(odd).encode()
        sources = [Source("x", data=data)]
        if number % 10 == 0:
            (tmp_path / "ui_messages.json").write_bytes(data)
            sources.append(Source.of(api))
        for source in sources:
            draft = Draft()
            READER.read(source, draft)
            list(draft.finish(lambda: "0" * 64).events)


def test_what_broke_off_is_reported_once(tmp_path: Path) -> None:
    """Cline often stores what it got of a response; then the panel only repeats it."""
    kept = {
        "role": "assistant",
        "content": [text("Half a sentence"), text("[Response interrupted]")],
    }
    request = json.dumps({"cancelReason": "user_cancelled", "tokensIn": 3, "tokensOut": 1})
    shown = [
        {"ts": 1, "type": "say", "say": "api_req_started", "text": request},
        {"ts": 2, "type": "say", "say": "text", "text": "Half a sentence", "partial": True},
    ]
    for item in shown:
        item["conversationHistoryIndex"] = -1
    (tmp_path / "api_conversation_history.json").write_text(json.dumps([FIRST, kept]))
    (tmp_path / "ui_messages.json").write_text(json.dumps(shown))
    draft = Draft()
    READER.read(Source.of(tmp_path / "api_conversation_history.json"), draft)
    events = list(draft.finish(lambda: "0" * 64).events)
    texts = [item["content"].get("text") for item in events if item.get("role") == "assistant"]
    assert len([value for value in texts if value and "Half a sentence" in value]) == 1
