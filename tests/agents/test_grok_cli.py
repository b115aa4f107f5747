"""Grok CLI: typed and injected text, reasoning, searches, and the files in the folder of a chat."""

from pathlib import Path
from typing import Any

import pytest

from open_token.registry import READERS, load_reader
from open_token.sources.source import Source
from readers.provider_readers import PNG, build_read_function
from readers.session_files import (
    assert_paired,
    assert_takes_odd_shapes,
    assert_whole,
    facts,
    laid_out,
    lines,
    read_file,
    summarize_messages,
)

READER = READERS["grok_cli"]

read = build_read_function(READER)
SESSION = "0198bbbb-0000-7000-8000-000000000009"


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "user", "content": [{"type": "text", "text": text}], **more}


def model(text: str, *calls: tuple[str, str], **more: Any) -> dict[str, Any]:
    held = [{"id": name, "name": "read_file", "arguments": given} for name, given in calls]
    return {
        "type": "assistant",
        "content": text,
        "tool_calls": held,
        "model_id": "grok-4.5",
        **more,
    }


def result(name: str, text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_call_id": name, "content": text, **more}


def reasoning(*texts: str, **more: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "summary": summary, "encrypted_content": "sealed", **more}


def search(**kind: Any) -> dict[str, Any]:
    return {"type": "backend_tool_call", "kind": {"tool_type": "web_search", **kind}}


ASKED = user("hi", prompt_index=0)


class TestSniff:
    @pytest.mark.parametrize(
        "records",
        [[ASKED], [{"type": "system", "content": "s"}, model("x")], [reasoning("a"), model("x")]],
    )
    def test_no_other_reader_claims_it(self, records: list[Any]) -> None:
        source = Source("x", data=lines(*records))
        assert [name for name in READERS if load_reader(name).sniff(source)] == ["grok_cli"]

    @pytest.mark.parametrize(
        "records",
        [
            [user("hi")],
            [reasoning("an item of the Responses API")],
            [{**ASKED, "uuid": "u"}],
            [ASKED, {"type": "message", "content": "x"}],
            [{"type": "system", "subtype": "init", "content": "", "session_id": "s"}],
            [{"role": "user", "content": "x"}],
            [],
        ],
    )
    def test_what_is_not_its_own(self, records: list[Any]) -> None:
        assert not READER.sniff(Source("x", data=lines(*records)))

    def test_peek(self) -> None:
        wrapped = user("Note:\n<user_query>\nwhat now?\n</user_query>", prompt_index=0)
        assert READER.peek([user("<user_info>"), wrapped]) == {"title": "what now?"}
        assert READER.peek([None]) == {}


class TestPrompts:
    @pytest.mark.parametrize(
        ("record", "output"),
        [
            (user("plain", prompt_index=0), [("public", "plain")]),
            (user("<user_query>\nq\n</user_query>", prompt_index=0), [("public", "q")]),
            (
                user("before <user_query>q</user_query> behind"),
                [("internal", "before "), ("public", "q"), ("internal", " behind")],
            ),
            (
                user("<user_info>\nOS\n</user_info>"),
                [("internal", "<user_info>\nOS\n</user_info>")],
            ),
            (user("<user_info> is a tag", prompt_index=3), [("public", "<user_info> is a tag")]),
            (user("r", synthetic_reason="system_reminder"), [("internal", "r")]),
            (user("aside", synthetic_reason="interjection"), [("public", "aside")]),
            (user("<user_query></user_query>", prompt_index=0), []),
        ],
    )
    def test_what_was_typed_and_what_was_put_in(
        self, record: dict[str, Any], output: list[Any]
    ) -> None:
        _, events = read(lines(ASKED, record))
        assert [(seen, words) for _, seen, words in summarize_messages(events)[1:]] == output

    def test_a_picture(self) -> None:
        picture = {"type": "image", "url": f"data:image/png;base64,{PNG}"}
        content = [picture, {"type": "text", "text": "<user_query>see</user_query>"}]
        _, events = read(lines({"type": "user", "content": content, "prompt_index": 0}))
        blocks = events[0]["content"]["data"]
        assert (blocks[0]["media_type"], blocks[1]) == (
            "image/png",
            {"type": "text", "text": "see"},
        )

    def test_an_interrupted_turn_and_a_summary(self) -> None:
        _, events = read(
            lines(
                user("go", prompt_index=0, prior_turn_interrupt="abort"),
                user("s", synthetic_reason="compaction_meta"),
            )
        )
        assert facts(events, "interrupted") == [{"kind": "interrupted", "reason": "abort"}]
        assert len(facts(events, "compaction_summary")) == 1


class TestAnswers:
    def test_reasoning_belongs_to_the_model_that_answers(self) -> None:
        rows = [ASKED, model("a"), reasoning("hm"), {**model("b"), "model_id": "grok-5"}]
        record, events = read(lines(*rows))
        models = {
            who["actor_id"]: who["model"] for who in record.participants if who["kind"] == "model"
        }
        thought = next(event for event in events if event.get("role") == "assistant_thought")
        assert models[thought["actor_id"]] == "grok-5"
        assert thought["content"]["data"] == {"summary": "runtime"}

    def test_reasoning_without_words_and_with_all_of_them(self) -> None:
        _, events = read(
            lines(
                ASKED,
                reasoning(),
                reasoning("short", content=[{"type": "reasoning_text", "text": "long"}]),
            )
        )
        assert events[1]["content"]["data"] == {"redacted": True, "encrypted": True}
        assert events[2]["content"] == {"mime": "text/plain", "text": "long"}

    def test_arguments_in_a_text(self) -> None:
        rows = [
            ASKED,
            model("", ("a", '{"path": "x"}'), ("b", "ls -l")),
            result("b", "2"),
            result("a", "1"),
        ]
        _, events = read(lines(*rows))
        given = [
            event["content"]["data"]["arguments"] for event in events if event["type"] == "tool_use"
        ]
        assert given == [{"path": "x"}, {"raw": "ls -l"}]
        assert_paired(events)

    def test_a_picture_in_a_result(self) -> None:
        picture = {"type": "image", "url": f"data:image/png;base64,{PNG}"}
        _, events = read(lines(ASKED, model("", ("a", "{}")), result("a", "", images=[picture])))
        assert [block["type"] for block in events[-1]["content"]["data"]] == ["image"]

    def test_the_providers_own_tools(self) -> None:
        rows = [
            ASKED,
            search(
                id="w", action={"type": "search", "query": "q", "sources": [1]}, status="completed"
            ),
            search(id="v", status="failed"),
            {"type": "backend_tool_call", "kind": 5},
            model(
                "x",
                raw_output=[
                    {"type": "web_search_call", "id": "w"},
                    {"type": "reasoning", "summary": ["s"]},
                    7,
                ],
            ),
        ]
        record, events = read(lines(*rows))
        used = [event["content"]["data"] for event in events if event["type"] == "tool_use"]
        assert used[0]["arguments"] == {"type": "search", "query": "q"}
        assert used[1]["status"] == "failed"
        results = [event["content"]["data"] for event in events if event["type"] == "tool_result"]
        assert results == [{"sources": [1]}, {"missing_result": True}]
        assert [note.detail for note in record.notes] == [
            "type backend_tool_call",
            "item without a known type",
        ]

    def test_what_is_unknown_is_noted(self) -> None:
        record, _ = read(
            lines(*[ASKED] * 64, {"type": "memory"}, 5, model("", more=1) | {"tool_calls": [3]})
        )
        assert [note.detail for note in record.notes] == [
            "type memory",
            "type without a known type",
            "call with neither id nor name",
        ]


class TestCompanionFiles:
    def lay(self, folder: Path, summary: Any, *updates: Any) -> Path:
        rows = [ASKED, model("", ("a", "{}")), result("a", "x")]
        files = {f"{SESSION}/chat_history.jsonl": rows, f"{SESSION}/summary.json": summary}
        laid_out(folder, **files, **{f"{SESSION}/updates.jsonl": list(updates)})
        return folder / SESSION / "chat_history.jsonl"

    @staticmethod
    def update(kind: str, **more: Any) -> dict[str, Any]:
        return {
            "timestamp": 1788945750,
            "params": {"update": {"sessionUpdate": kind, "toolCallId": "a", **more}},
        }

    def test_facts_about_the_session_and_times_of_its_tools(self, tmp_path: Path) -> None:
        summary = {
            "info": {"id": "own", "cwd": "/w"},
            "created_at": "2026-09-09T09:22:30Z",
            "session_summary": "T",
        }
        updates: list[Any] = [
            self.update("tool_call"),
            self.update("tool_call_update", status="failed"),
            5,
        ]
        record, events = read_file(READER, self.lay(tmp_path, summary, *updates))
        named = record.conversation
        assert (named["id"], named["title"], named["started_at"]) == (
            "own",
            "T",
            "2026-09-09T09:22:30Z",
        )
        assert facts(events, "context") == [{"kind": "context", "cwd": "/w"}]
        assert [event["ts"] for event in events if event["type"] == "tool_use"] == [
            "2026-09-09T09:22:30Z"
        ]
        assert facts(events, "result_facts") == [{"kind": "result_facts", "is_error": True}]

    def test_broken_files_are_noted(self, tmp_path: Path) -> None:
        path = self.lay(tmp_path, [], "x")
        (path.parent / "summary.json").write_text("{")
        (path.parent / "updates.jsonl").write_text('{"a": 1}\n{"b"\n{}\n')
        record, events = read_file(READER, path)
        assert [note.place for note in record.notes] == [
            "summary.json",
            "updates.jsonl line 1",
            "updates.jsonl line 2",
        ]
        assert record.conversation["id"] == SESSION
        assert_paired(events)


def test_odd_shapes() -> None:
    assert_takes_odd_shapes(READER, "grok_cli")


def test_real_files(corpus: Path) -> None:
    paths = sorted((corpus / "grok_cli").glob("*.jsonl"))
    assert paths
    for path in paths:
        assert_whole(
            path,
            "grok_cli",
            ("text", "content", "query", "sources"),
            lambda text: text[:5] != "data:",
        )


def test_the_summary_file_gives_cwd_and_title() -> None:
    assert READER.companion_file("chat_history.jsonl") == "summary.json"
    assert READER.companion_file("other.jsonl") is None
    facts = {"info": {"id": "a", "cwd": "/w"}, "generated_title": "The bell"}
    assert READER.peek([facts]) == {"id": "a", "cwd": "/w", "title": "The bell"}
    assert READER.peek([{"info": {"id": 1, "cwd": ""}}]) == {}
