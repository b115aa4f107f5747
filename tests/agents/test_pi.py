"""Pi sessions: messages of every role, branches, and other formats with a session line."""

import json
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_values import iter_mangled
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["pi"]

GOLDEN = Path(__file__).parent.parent / "golden" / "pi"
HEADER = {
    "type": "session",
    "version": 3,
    "id": "s",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "cwd": "/w",
}
read = build_read_function(READER)


def lines(*entries: Any) -> bytes:
    return "".join(json.dumps(entry) + "\n" for entry in entries).encode()


def said(
    name: str | None, parent: str | None, role: str, content: Any, **more: Any
) -> dict[str, Any]:
    entry = {"type": "message", "timestamp": "2026-01-01T00:00:01.000Z"}
    ids = {"id": name, "parentId": parent} if name else {}
    return {**entry, **ids, "message": {"role": role, "content": content, **more}}


def summarize_content(*entries: Any, **options: Any) -> list[Any]:
    """What was said, without annotations."""
    _, events = read(lines(HEADER, *entries), **options)
    return [
        item
        for item, event in zip(summarize_events(events), events, strict=True)
        if event["type"] != "annotation"
    ]


class TestBranches:
    TREE = (
        said("a", None, "user", "one"),
        said("b", "a", "user", "two"),
        said("c", "a", "user", "three"),
        said("d", "b", "user", "four"),
    )

    def test_the_last_entry_and_what_it_follows_is_current(self) -> None:
        assert summarize_content(*self.TREE) == [("user", "one"), ("user", "two"), ("user", "four")]
        assert summarize_content(*self.TREE[:3]) == [("user", "one"), ("user", "three")]

    def test_the_other_branches_are_in_spans(self) -> None:
        _, events = read(lines(HEADER, *self.TREE), branches="all")
        kinds = [event["type"] for event in events]
        assert kinds == [
            "annotation",
            "message",
            "message",
            "span_start",
            "message",
            "span_end",
            "message",
        ]
        assert events[4]["links"] == {"span_id": "span_000001"}

    def test_a_second_root_leaves_everything_before_it(self) -> None:
        assert summarize_content(*self.TREE, said("e", None, "user", "anew")) == [("user", "anew")]

    def test_a_call_and_its_result_stay_together(self) -> None:
        call = {"type": "toolCall", "id": "t", "name": "bash", "arguments": {}}
        entries = (
            said("a", None, "assistant", [call]),
            said("b", "a", "toolResult", "of the first branch", toolCallId="t"),
            said("c", "a", "user", "instead"),
        )
        result = summarize_content(*entries)
        assert [role for role, _ in result] == ["assistant", "tool", "user"]

    @pytest.mark.parametrize("parent", ["gone", "b", 7, ["a"]])
    def test_a_broken_chain_follows_the_line_before(self, parent: Any) -> None:
        entries = [said("a", None, "user", "one"), said("b", None, "user", "two")]
        entries[1]["parentId"] = parent
        record, events = read(lines(HEADER, *entries))
        assert len(events) == 3
        assert [note.code for note in record.notes] == ["broken-chain"]

    def test_lines_of_version_1_have_no_parents(self) -> None:
        entries = [said(None, None, "user", "one"), HEADER, said(None, None, "user", "two")]
        assert summarize_content(*entries) == [("user", "one"), ("user", "two")]


class TestMessages:
    def test_times_are_those_of_the_entry_else_of_the_message(self) -> None:
        late = said("a", None, "user", "x", timestamp=1767225600123)
        early = said("b", "a", "user", "y", timestamp=1767225600123)
        del early["timestamp"]
        _, events = read(lines(HEADER, late, early))
        assert [event.get("ts") for event in events[1:]] == [
            "2026-01-01T00:00:01.000Z",
            "2026-01-01T00:00:00.123Z",
        ]

    def test_usage_is_on_the_first_event_that_is_no_reasoning(self) -> None:
        usage = {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}
        thought, text = {"type": "thinking", "thinking": "t"}, {"type": "text", "text": "x"}
        for content, role in (
            ([thought, text, text], "assistant"),
            ([thought], "assistant_thought"),
        ):
            _, events = read(lines(HEADER, said("a", None, "assistant", content, usage=usage)))
            [spent] = [event for event in events if "usage" in event]
            assert spent.get("role") == role
            assert spent["usage"] == tokens(
                input_tokens=8, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4
            )
        _, events = read(lines(HEADER, said("a", None, "assistant", [], usage=usage)))
        assert events[1]["content"]["data"] == {"kind": "usage"}

    def test_providers_of_one_session(self) -> None:
        entries = [
            said("a", None, "assistant", "x", provider="openai", model="gpt-5.1"),
            said("b", "a", "assistant", "y", provider="openai", model="gpt-5.2"),
        ]
        record, _ = read(lines(HEADER, *entries))
        assert record.conversation["provider"] == "openai"
        record, _ = read(
            lines(
                HEADER,
                *entries,
                said("c", "b", "assistant", "z", provider="google", model="gemini-3"),
            )
        )
        assert "provider" not in record.conversation
        models = [
            (who["provider"], who["model"]) for who in record.participants if who["kind"] == "model"
        ]
        assert models == [("openai", "gpt-5.1"), ("openai", "gpt-5.2"), ("google", "gemini-3")]

    def test_a_command_of_the_person_is_no_call(self) -> None:
        entry = {
            "type": "message",
            "message": {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 1},
        }
        _, events = read(lines(HEADER, entry))
        assert [(event["type"], event["visibility"]) for event in events[1:]] == [
            ("message", "public"),
            ("annotation", "metadata"),
            ("message", "internal"),
        ]
        assert events[2]["content"]["data"] == {"kind": "user_command", "exit_code": 1}


class TestSniff:
    @pytest.mark.parametrize(
        "record",
        [
            {"type": "session", "harness": "x", "id": "1", "version": 1},
            {"type": "session", "id": 5, "cwd": "/w"},
            {"type": "message", "message": {"role": "user", "content": "x"}},
            {"type": "session", "sessionId": "x", "id": "1", "cwd": "/w"},
        ],
    )
    def test_others_begin_with_such_a_line_too(self, record: Any) -> None:
        assert not READER.sniff(Source("x", data=lines(record, record)))

    def test_a_file_without_a_header(self) -> None:
        entry = said("a", None, "user", "x")
        entry["message"]["timestamp"] = 1767225601000
        assert READER.sniff(Source("x", data=lines(entry)))
        assert READER.sniff(Source("x", data=lines(said("a", None, "toolResult", "x"))))

    def test_entries_of_other_agents_are_not_claimed(self) -> None:
        assert not READER.sniff(Source("x", data=lines(said("a", None, "user", "x"))))


def test_a_look_at_the_ends() -> None:
    named = {"type": "session_info", "name": "Beds"}
    assert READER.peek(
        [HEADER, 1, said("a", None, "user", [{"type": "text", "text": "words"}])]
    ) == {
        "id": "s",
        "cwd": "/w",
        "title": "words",
    }
    assert READER.peek([said("a", None, "user", "words"), named])["title"] == "Beds"
    assert READER.peek_tail([HEADER, named]) == {"title": "Beds"}
    assert READER.peek_tail([HEADER]) == READER.peek_tail([]) == {}


@pytest.mark.parametrize("case", ["basic", "branches", "compaction", "extras"])
def test_no_odd_value_is_an_accident(case: str) -> None:
    entries = [
        json.loads(line) for line in (GOLDEN / case / "input.jsonl").read_text().splitlines()
    ]
    for number, entry in enumerate(entries):
        for odd in iter_mangled(entry):
            draft = Draft(branches="all")
            READER.read(
                Source("x", data=lines(*entries[:number], odd, *entries[number + 1 :])), draft
            )
            list(draft.finish(lambda: "0" * 64).events)


def test_the_corpus_is_read_whole(corpus: Path) -> None:
    paths = sorted((corpus / "pi").glob("*.jsonl")) + sorted(
        (corpus / "native_minimal" / "pi").glob("*.jsonl")
    )
    assert paths
    for path in paths:
        assert detect_format(Source.of(path)) == "pi", path.name
        draft = Draft(branches="all")
        READER.read(Source.of(path), draft)
        record = draft.finish(lambda: "0" * 64)
        events: list[Event] = list(record.events)
        carried = "\0".join(iter_strings([event["content"] for event in events]))
        for _, entry in Source.of(path).records():
            content = entry.get("message", {}).get("content", [])
            for block in content if isinstance(content, list) else []:
                kept = {name: item for name, item in block.items() if name != "thinkingSignature"}
                assert [
                    text for text in iter_strings(kept) if len(text) > 12 and text not in carried
                ] == []
        calls = [event["links"]["call_id"] for event in events if event["type"] == "tool_use"]
        results = [event["links"]["call_id"] for event in events if event["type"] == "tool_result"]
        assert sorted(calls) == sorted(results)
        assert {note.code for note in record.notes} <= {"side-data"}
