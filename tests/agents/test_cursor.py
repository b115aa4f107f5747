"""Cursor in its forms: transcripts and their subagents, chats of the command line, composers of the
editor."""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.agents.cursor.cli_store import parse_message_list
from open_token.agents.cursor.conversation import UNLISTED_BRANCH, split_prompt
from open_token.agents.cursor.detect import CHATS_KEY, COMPOSERS_KEY
from open_token.builder.draft import Draft
from open_token.context import Context
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.databases import codes, database, notes_of, read_conversation
from readers.provider_readers import PNG, build_read_function, summarize_events, tokens

READER = READERS["cursor"]

read = build_read_function(READER)
ID = "5d1f7b3e-9a2c-4e8f-b1d0-3c4a5b6c7d8e"
STORE = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT); CREATE TABLE blobs (id TEXT PRIMARY KEY, data BLOB);"
STATE = "CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB); CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB);"


def line(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "message": {"content": list(content)}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


def lines(*values: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in values).encode()


def read_transcript(*values: Any, **options: Any) -> tuple[Record, list[Event]]:
    return read(lines(*values), **options)


class TestTexts:
    @pytest.mark.parametrize(
        ("words", "parts"),
        [
            ("hi", [(True, "hi")]),
            ("<user_query>\nhi\n</user_query>", [(True, "hi")]),
            ("<user_query>\n\nhi\n\n</user_query>", [(True, "\nhi\n")]),
            (
                "<a>x</a>\n<user_query>hi</user_query>\ntail",
                [(False, "<a>x</a>"), (True, "hi"), (False, "tail")],
            ),
            ("<user_query>a</user_query><user_query>b</user_query>", [(True, "a"), (True, "b")]),
            ("<user_query>open", [(True, "open")]),
            ("<user_query></user_query>", []),
            ("<user_info>x</user_info>", [(False, "<user_info>x</user_info>")]),
            ("<b>typed</b>", [(True, "<b>typed</b>")]),
            (" \n", []),
        ],
    )
    def test_typed_text_is_separated_from_injected_text(
        self, words: str, parts: list[tuple[bool, str]]
    ) -> None:
        assert list(split_prompt(words, bare_is_typed=True)) == parts

    def test_in_a_chat_only_tagged_text_is_typed(self) -> None:
        assert list(split_prompt("hi", bare_is_typed=False)) == [(False, "hi")]


class TestTranscript:
    def test_missing_facts_are_not_invented(self) -> None:
        record, events = read_transcript(
            line("user", text("<user_query>\nhi\n</user_query>")), line("assistant", text("hello"))
        )
        assert summarize_events(events) == [("user", "hi"), ("assistant", "hello")]
        assert record.conversation == {
            "id": "conv_00000000_00000000",
            "internal_availability": "unavailable",
        }
        assert all("ts" not in item and "usage" not in item for item in events)
        assert record.participants[-1] == {
            "actor_id": "act_002",
            "kind": "model",
            "name": "assistant",
        }

    def test_the_id_is_the_name_of_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / f"{ID}.jsonl"
        path.write_bytes(lines(line("user", text("hi"))))
        source = Source.of(path)
        assert detect_format(source) == "cursor"
        assert read_conversation(READER, source)[0].conversation["id"] == ID
        assert READER.list_conversations(source) == []

    def test_calls_without_ids_are_matched_in_order(self) -> None:
        result = {"type": "tool_result", "content": "one"}
        _, events = read_transcript(
            line("assistant", use("A"), use("B"), {**use("C"), "id": "c"}),
            line("user", result, {**result, "content": [text("two")], "tool_use_id": "t9"}),
            line(
                "user",
                {**result, "content": "three", "tool_use_id": "c"},
                {**result, "content": "four"},
            ),
        )
        results = {
            item["links"]["call_id"]: item["content"]
            for item in events
            if item["type"] == "tool_result"
        }
        assert [content["text"] for content in results.values()] == ["one", "two", "three", "four"]
        assert list(results) == ["call_000001", "call_000002", "call_000003", "call_000004"]
        assert len(notes_of(events, "orphan_result")) == 1

    def test_a_call_without_a_result(self) -> None:
        _, events = read_transcript(line("assistant", use("A")), line("assistant", text("done")))
        assert [item["type"] for item in events] == ["tool_use", "tool_result", "message"]
        assert events[1]["content"]["data"] == {"missing_result": True}

    def test_ends_of_turns(self) -> None:
        ends = [{"type": "turn_ended", "status": status} for status in ("success", "aborted", None)]
        record, events = read_transcript(line("user", text("hi")), *ends)
        assert notes_of(events, "stop") == [{"kind": "stop", "reason": "aborted"}]
        assert codes(record) == {"bookkeeping": 2}

    def test_a_half_line_is_left_out(self) -> None:
        data = lines(line("user", text("hi"))) + b'{"role":"assistant","mess'
        source = Source("x", data=data)
        _, events = read_conversation(READER, source)
        assert (summarize_events(events), source.half_line) == ([("user", "hi")], 2)


class TestSubagentFiles:
    def write(self, folder: Path, *children: tuple[str, str]) -> Source:
        (folder / "subagents").mkdir()
        for name, prompt in children:
            (folder / "subagents" / f"{name}.jsonl").write_bytes(
                lines(line("user", text(prompt)), line("assistant", text(f"done {name}")))
            )
        path = folder / "main.jsonl"
        calls = [use("Task", prompt="look", subagent_type="explore"), use("Task", prompt="listen")]
        path.write_bytes(
            lines(
                line("user", text("go")), line("assistant", *calls), line("assistant", text("bye"))
            )
        )
        return Source.of(path)

    def test_subagents_are_matched_by_their_prompts(self, tmp_path: Path) -> None:
        source = self.write(
            tmp_path, ("a", "<user_query>\nlisten\n</user_query>"), ("b", "look"), ("c", "unasked")
        )
        _, events = read_conversation(READER, source)
        spans = [
            (item["content"]["data"]["agent_id"], item["links"].get("call_id"))
            for item in events
            if item["type"] == "span_start"
        ]
        assert spans == [("b", "call_000001"), ("a", "call_000002"), ("c", None)]
        assert {item["visibility"] for item in events if item.get("links", {}).get("span_id")} == {
            "internal"
        }
        names = [
            item["name"]
            for item in read_conversation(READER, source)[0].participants
            if item["kind"] == "model"
        ]
        assert names == ["assistant", "explore", "subagent"]

    def test_the_last_subagent_belongs_to_the_last_call(self, tmp_path: Path) -> None:
        source = self.write(tmp_path, ("a", "look"), ("b", "in other words"))
        _, events = read_conversation(READER, source)
        starts = [item["links"].get("call_id") for item in events if item["type"] == "span_start"]
        assert starts == ["call_000001", "call_000002"]

    @pytest.mark.parametrize(("option", "spans"), [("reference", 2), ("none", 0)])
    def test_references_and_omission(self, tmp_path: Path, option: str, spans: int) -> None:
        record, events = read_conversation(
            READER, self.write(tmp_path, ("a", "look"), ("b", "listen")), subagents=option
        )
        assert len(notes_of(events, "subagent")) == spans
        assert ("assistant", "done a") not in summarize_events(events)
        assert codes(record).get("subagent", 0) == 2 - spans

    def test_a_subagent_file_alone_has_an_agent_as_user(self, tmp_path: Path) -> None:
        self.write(tmp_path, ("a", "look"))
        record, _ = read_conversation(READER, Source.of(tmp_path / "subagents" / "a.jsonl"))
        assert record.participants[0]["name"] == "parent agent"


def store(folder: Path, *messages: Any, root: bytes | None = None, **meta: Any) -> Source:
    """A chat of the command line with these messages, and a root that lists them."""
    raws = [
        message if isinstance(message, bytes) else json.dumps(message).encode()
        for message in messages
    ]
    blobs = [(hashlib.sha256(raw).hexdigest(), raw) for raw in raws]
    linked = (
        root
        if root is not None
        else b"".join(b"\x0a\x20" + bytes.fromhex(name) for name, _ in blobs)
    )
    about = {
        "agentId": ID,
        "latestRootBlobId": "root",
        "name": "A chat",
        "createdAt": 1_767_225_600_000,
        **meta,
    }
    rows = {
        "meta": [("0", json.dumps(about).encode().hex())],
        "blobs": [*reversed(blobs), ("root", linked)],
    }
    return database(folder, STORE, rows)


class TestStore:
    def test_messages_are_in_the_order_of_the_root(self, tmp_path: Path) -> None:
        source = store(
            tmp_path,
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "<user_info>x</user_info>"},
            {"role": "user", "content": [text("<user_query>hi</user_query>")]},
            {
                "role": "assistant",
                "id": "1",
                "content": [{"type": "reasoning", "text": "hm"}, text("hello")],
            },
            lastUsedModel="gpt-5",
        )
        assert detect_format(source) == "cursor"
        record, events = read_conversation(READER, source)
        assert [
            (*pair, item["visibility"])
            for pair, item in zip(summarize_events(events), events, strict=True)
        ] == [
            ("system", "be kind", "internal"),
            ("user", "<user_info>x</user_info>", "internal"),
            ("user", "hi", "public"),
            ("assistant_thought", "hm", "internal"),
            ("assistant", "hello", "public"),
        ]
        assert record.conversation["id"] == ID
        assert record.conversation["started_at"] == "2026-01-01T00:00:00Z"
        assert record.conversation["provider"] == "openai"

    def test_calls_and_results(self, tmp_path: Path) -> None:
        call = {
            "type": "tool-call",
            "toolCallId": "a\nb",
            "toolName": "Shell",
            "args": {"command": "ls"},
        }
        result = {"type": "tool-result", "toolCallId": "a\nb", "toolName": "Shell", "result": "x"}
        failed = {"cursor": {"highLevelToolCallResult": {"isError": True}}}
        _, events = read_conversation(
            READER,
            store(
                tmp_path,
                {"role": "assistant", "content": [call]},
                {"role": "tool", "content": [result], "providerOptions": failed},
            ),
        )
        assert summarize_events(events)[1:] == [
            ("tool", "x"),
            ("annotation", {"kind": "result_facts", "is_error": True}),
        ]

    def test_an_unreadable_root(self, tmp_path: Path) -> None:
        record, events = read_conversation(
            READER, store(tmp_path, {"role": "user", "content": "hi"}, root=b"\x07\xff")
        )
        assert (summarize_events(events), codes(record)) == ([("user", "hi")], {"no-root": 1})

    def test_missing_and_unlisted_messages(self, tmp_path: Path) -> None:
        kept = {"role": "user", "content": "kept"}
        name = hashlib.sha256(json.dumps(kept).encode()).digest()
        root = b"\x0a\x20" + name + b"\x0a\x20" + b"\x11" * 32
        record, events = read_conversation(
            READER, store(tmp_path, kept, {"role": "user", "content": "old"}, b"{broken", root=root)
        )
        assert summarize_events(events) == [("user", "kept")]
        assert codes(record) == {"missing-blob": 1, "unlisted-message": 1}

    def test_unlisted_messages_are_an_abandoned_branch(self, tmp_path: Path) -> None:
        kept = {"role": "user", "content": "kept"}
        root = b"\x0a\x20" + hashlib.sha256(json.dumps(kept).encode()).digest()
        source = store(tmp_path, kept, {"role": "user", "content": "old"}, root=root)
        record, events = read_conversation(READER, source, branches="all")
        assert summarize_events(events) == [
            ("user", "kept"),
            ("span_start", UNLISTED_BRANCH),
            ("user", "old"),
            ("span_end", {}),
        ]
        assert codes(record) == {}

    @pytest.mark.parametrize(
        ("data", "count"),
        [
            (b"", 0),
            (b"\x0a\x20" + b"a" * 32, 1),
            (b"\x0a\x20" + b"a" * 31, 0),
            (b"\x0a\x04abcd\x0a\x20" + b"a" * 32, 1),
            (b"\x08\x05\x0a\x20" + b"a" * 32, 1),
            (b"\x09" + b"x" * 8 + b"\x0d" + b"x" * 4 + b"\x0a\x20" + b"a" * 32, 1),
            (b"\x12\x20" + b"a" * 32, 0),
            (b"\xff" * 40, 0),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0),
        ],
    )
    def test_parse_message_list(self, data: bytes, count: int) -> None:
        assert len(list(parse_message_list(data))) == count


def state(folder: Path, rows: dict[str, Any], *more: tuple[str, str]) -> Source:
    """An editor's database with these keys."""
    return database(
        folder, STATE + "".join(script for script, _ in more), {"cursorDiskKV": list(rows.items())}
    )


def composer(*bubbles: Any, name: str = "c1", **more: Any) -> dict[str, Any]:
    """A composer with its bubbles as rows."""
    headers = [
        {"bubbleId": f"b{number}", "type": item.get("type")} for number, item in enumerate(bubbles)
    ]
    rows = {
        f"bubbleId:{name}:b{number}": item for number, item in reversed(list(enumerate(bubbles)))
    }
    return {
        f"composerData:{name}": {"composerId": name, "fullConversationHeadersOnly": headers, **more}
    } | rows


class TestState:
    def test_unlisted_bubbles_are_an_abandoned_branch(self, tmp_path: Path) -> None:
        rows = composer({"type": 1, "text": "hi"}) | {
            "bubbleId:c1:gone": {"type": 1, "text": "old"}
        }
        source = state(tmp_path, rows)
        record, events = read_conversation(READER, source, branches="all")
        assert summarize_events(events) == [
            ("user", "hi"),
            ("span_start", UNLISTED_BRANCH),
            ("user", "old"),
            ("span_end", {}),
        ]
        assert codes(record) == {}
        record, events = read_conversation(READER, source)
        assert (summarize_events(events), codes(record)) == (
            [("user", "hi")],
            {"unlisted-message": 1},
        )

    def test_bubbles_are_in_the_order_of_the_composer(self, tmp_path: Path) -> None:
        rows = composer(
            {
                "type": 1,
                "text": "hi",
                "createdAt": "2026-01-01T00:00:00.000Z",
                "modelInfo": {"modelName": "gpt-5"},
            },
            {"type": 2, "thinking": {"text": "hm"}, "createdAt": 1_767_225_601_000},
            {"type": 2, "text": "hello", "tokenCount": {"inputTokens": 5, "outputTokens": 0}},
            createdAt=1_767_225_600_000,
            name="c1",
        )
        source = state(tmp_path, rows)
        assert detect_format(source) == "cursor"
        record, events = read_conversation(READER, source)
        assert summarize_events(events) == [
            ("user", "hi"),
            ("assistant_thought", "hm"),
            ("assistant", "hello"),
        ]
        assert [item.get("ts") for item in events] == [
            "2026-01-01T00:00:00.000Z",
            "2026-01-01T00:00:01Z",
            None,
        ]
        assert events[-1]["usage"] == tokens(input_tokens=5)
        assert [who.get("model") for who in record.participants if who["kind"] == "model"] == [
            "gpt-5"
        ]

    def test_several_composers(self, tmp_path: Path) -> None:
        rows = composer({"type": 1, "text": "a"}, name="c1") | composer(
            {"type": 1, "text": "b"}, name="c2"
        )
        rows |= {
            "composerData:c3": {"fullConversationHeadersOnly": []},
            "composerData:c4": "{",
            "composerData:c5": None,
        }
        source = state(tmp_path, rows)
        assert [(item.id, item.messages) for item in READER.list_conversations(source)] == [
            ("c1", 1),
            ("c2", 1),
        ]
        assert summarize_events(read_conversation(READER, source, "c2")[1]) == [("user", "b")]
        assert READER.find_owner(source, "cursorDiskKV", {"key": "bubbleId:c2:b0"}) == "c2"
        assert READER.find_owner(source, "cursorDiskKV", {"key": "checkpointId:c1:x"}) == "c1"
        for table, row in (
            ("ItemTable", {"key": "cursorAuth/accessToken"}),
            ("cursorDiskKV", {"key": "other"}),
        ):
            assert READER.find_owner(source, table, row) not in ("c1", "c2", None)

    @pytest.mark.parametrize("form", ["conversation", "conversationMap"])
    def test_older_composers_contain_their_bubbles(self, tmp_path: Path, form: str) -> None:
        bubbles = [{"type": 1, "text": "a"}, {"type": 2, "text": "b"}]
        value: Any = bubbles if form == "conversation" else dict(enumerate(bubbles))
        _, events = read_conversation(READER, state(tmp_path, {"composerData:c": {form: value}}))
        assert summarize_events(events) == [("user", "a"), ("assistant", "b")]

    @pytest.mark.parametrize(
        ("tool", "output"),
        [
            ({"result": '{"a": 1}'}, {"a": 1}),
            ({"result": "plain"}, "plain"),
            ({"result": "5"}, "5"),
            ({"result": ["x"]}, ["x"]),
            ({"status": "error", "error": '{"modelVisibleErrorMessage": "no"}'}, "no"),
            ({"status": "loading"}, {"missing_result": True}),
            ({"result": ""}, {"missing_result": True}),
        ],
    )
    def test_results(self, tmp_path: Path, tool: dict[str, Any], output: Any) -> None:
        bubble = {
            "type": 2,
            "toolFormerData": {"name": "t", "toolCallId": "c", "rawArgs": '{"x": 1}', **tool},
        }
        _, events = read_conversation(READER, state(tmp_path, composer(bubble)))
        assert events[0]["content"]["data"]["arguments"] == {"x": 1}
        assert ("tool", output) in summarize_events(events)

    def test_code_that_is_not_in_the_text_is_included(self, tmp_path: Path) -> None:
        bubble = {
            "type": 2,
            "text": "see `a`",
            "codeBlocks": [{"content": "a"}, {"content": "b", "languageId": "py"}],
        }
        _, events = read_conversation(READER, state(tmp_path, composer(bubble)))
        assert summarize_events(events)[1:] == [
            ("assistant", [{"type": "code", "text": "b", "languageId": "py"}])
        ]

    def test_images_and_attachments(self, tmp_path: Path) -> None:
        image = {"data": f"data:image/png;base64,{PNG}"}
        bubble = {
            "type": 1,
            "text": "a",
            "images": [image, {"path": "p"}],
            "context": {"selections": [{"text": "s"}]},
        }
        _, events = read_conversation(READER, state(tmp_path, composer(bubble)))
        blocks = events[0]["content"]["data"]
        assert [item.get("bytes") for item in blocks] == [None, 9, None]
        assert notes_of(events, "attachment")[0]["context"] == {"selections": [{"text": "s"}]}

    def test_a_subagent_is_a_separate_composer(self, tmp_path: Path) -> None:
        task = {
            "type": 2,
            "toolFormerData": {"name": "task_v2", "toolCallId": "call", "result": "{}"},
        }
        child = composer(
            {"type": 1, "text": "look"},
            name="kid",
            subagentInfo={"parentComposerId": "c1", "toolCallId": "call"},
        )
        source = state(tmp_path, composer(task) | child)
        assert [item.id for item in READER.list_conversations(source)] == ["c1"]
        assert READER.find_owner(source, "cursorDiskKV", {"key": "bubbleId:kid:b0"}) == "c1"
        _, events = read_conversation(READER, source)
        assert [item["type"] for item in events] == [
            "tool_use",
            "span_start",
            "message",
            "span_end",
            "tool_result",
        ]
        record, events = read_conversation(READER, source, subagents="none")
        assert (len(events), codes(record)) == (2, {"subagent": 1})

    def test_the_table_of_headers_takes_precedence(self, tmp_path: Path) -> None:
        rows = composer({"type": 1, "text": "a"}) | composer({"type": 1, "text": "b"}, name="kid")
        header = {"name": "Named", "workspaceIdentifier": {"uri": {"fsPath": "/srv"}}}
        script = STATE + "CREATE TABLE composerHeaders (composerId TEXT, value TEXT);"
        headers = [
            ("c1", header),
            ("kid", {"subagentInfo": {"parentComposerId": "c1"}}),
            ("x", "{"),
        ]
        source = database(
            tmp_path, script, {"cursorDiskKV": list(rows.items()), "composerHeaders": headers}
        )
        assert [(item.id, item.title, item.cwd) for item in READER.list_conversations(source)] == [
            ("c1", "Named", "/srv")
        ]
        assert notes_of(read_conversation(READER, source)[1], "subagent")[0]["agent_id"] == "kid"


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [None], {"a": 1}, True, 1.5])
def test_odd_values_do_not_fail(tmp_path: Path, odd: Any) -> None:
    fields = (
        "text",
        "thinking",
        "images",
        "context",
        "codeBlocks",
        "toolFormerData",
        "tokenCount",
        "createdAt",
    )
    tool = dict.fromkeys(
        ("name", "toolCallId", "rawArgs", "params", "result", "status", "error"), odd
    )
    bubbles = [{"type": kind, **dict.fromkeys(fields, odd)} for kind in (1, 2, 3)]
    bubbles += [
        {"type": 2, "toolFormerData": tool, "allThinkingBlocks": [odd]},
        {"type": 1, "text": "x"},
    ]
    about = {
        "name": odd,
        "createdAt": odd,
        "modelConfig": odd,
        "subagentInfo": odd,
        "latestConversationSummary": odd,
    }
    rows = composer(*bubbles)
    rows["composerData:c1"] |= about
    kinds = ("text", "tool-call", "tool-result", "reasoning", "image", odd)
    blocks = [
        {"type": kind, "text": odd, "toolCallId": odd, "args": odd, "result": odd, "image": odd}
        for kind in kinds
    ]
    chat = [
        {"role": role, "content": [*blocks, odd], "providerOptions": odd}
        for role in ("user", "assistant", "tool")
    ]
    uses = [{**use("Task"), "input": odd, "name": odd}, {"type": odd, "text": odd}, odd, text("x")]
    transcript = lines(
        line("user", *uses),
        line("assistant", *uses),
        line("tool", {"type": "tool_result", "content": odd}),
    )
    made = (tmp_path / "a", tmp_path / "b")
    for folder in made:
        folder.mkdir()
    sources = [
        state(made[0], rows),
        store(made[1], *chat, {"role": "user", "content": "x"}, mode=odd, name=odd),
    ]
    for source in [*sources, Source("x", data=transcript)]:
        out = io.BytesIO()
        export(source, out, Context(ExportOptions.of({"exported_at": "omit"})), "cursor")
        assert [
            item for item in validate(json.loads(out.getvalue())) if item.severity == "error"
        ] == []


@pytest.mark.parametrize(
    "data",
    [
        lines({"role": "user", "content": "hi"}),
        lines({**line("user", text("hi")), "uuid": "u", "type": "user"}),
        lines({"type": "session", "id": "s"}, line("user", text("hi"))),
        lines(line("user", text("hi")), {"type": "user", "uuid": "u"}),
        lines({"type": "turn_ended", "status": "success"}),
        lines({"role": "user", "message": "hi"}),
    ],
)
def test_other_formats_are_not_claimed(data: bytes) -> None:
    assert not READER.sniff(Source("x", data=data))


@pytest.mark.parametrize("value", [None, "zz", "7b", b"\x00"])
def test_other_databases_are_not_claimed(tmp_path: Path, value: Any) -> None:
    source = database(tmp_path, STORE + STATE, {"meta": [("0", value)]})
    assert READER.sniff(source) == (value == "7b")


def test_peek() -> None:
    assert READER.peek(
        [line("assistant", text("x")), line("user", text("<user_query>\nhi\n</user_query>"))]
    ) == {"title": "hi"}
    assert READER.peek([{"role": "user", "message": {"content": "hi"}}]) == {"title": "hi"}
    assert READER.peek([]) == READER.peek([5]) == {}


def test_the_shared_corpus(corpus: Path) -> None:
    """Every word of the transcripts is exported, with those of subagents where they were asked for."""
    paths = sorted((corpus / "cursor").rglob("*.jsonl"))
    assert paths
    for path in paths:
        source = Source.of(path)
        assert detect_format(source) == "cursor"
        _, events = read_conversation(READER, source)
        everything = "\n".join(iter_strings([event["content"] for event in events]))
        for row in path.read_text().splitlines():
            for block in json.loads(row)["message"]["content"]:
                assert all(
                    word in everything
                    for word in iter_strings(
                        [block.get("text"), block.get("thinking"), block.get("input")]
                    )
                )
        calls = sorted(item["links"]["call_id"] for item in events if item["type"] == "tool_use")
        assert calls == sorted(
            item["links"]["call_id"] for item in events if item["type"] == "tool_result"
        )


TABS = {
    "tabs": [
        {
            "tabId": "t1",
            "chatTitle": "A",
            "bubbles": [{"type": "user", "text": "hi"}, {"type": "ai", "text": "ho"}],
        },
        {"tabId": "t2", "bubbles": []},
        {"bubbles": [{"type": "user", "text": "nameless"}]},
    ]
}


class TestChatsBeforeComposers:
    """All chats of a workspace in one row, of a build from before composers or with the first of
    them."""

    def workspace(self, folder: Path, *rows: tuple[str, Any], tables: str = STATE) -> Source:
        return database(folder, tables, {"ItemTable": rows})

    def test_chats_with_messages_are_listed(self, tmp_path: Path) -> None:
        (tmp_path / "workspace.json").write_text('{"folder": "file:///srv/my%20shop"}')
        inline = {"composerId": "c1", "conversation": [{"type": 1, "text": "hi"}]}
        composers = {"allComposers": [inline, {"composerId": "elsewhere"}, 7]}
        source = self.workspace(tmp_path, (CHATS_KEY, TABS), (COMPOSERS_KEY, composers))
        assert detect_format(source) == "cursor"
        found = [
            (item.id, item.title, item.messages, item.cwd)
            for item in READER.list_conversations(source)
        ]
        assert found == [("t1", "A", 2, "/srv/my shop"), ("c1", None, 1, "/srv/my shop")]

    def test_a_database_without_the_newer_table(self, tmp_path: Path) -> None:
        only = "CREATE TABLE ItemTable (key TEXT UNIQUE, value BLOB);"
        source = self.workspace(tmp_path, (CHATS_KEY, TABS), tables=only)
        assert [item.id for item in READER.list_conversations(source)] == ["t1"]
        assert READER.find_owner(source, "ItemTable", {"key": CHATS_KEY, "value": ""}) is None
        assert (
            READER.find_owner(source, "ItemTable", {"key": "workbench.colorTheme", "value": ""})
            == "(nobody)"
        )

    @pytest.mark.parametrize(
        "value", [[], {"tabs": 3}, {"tabs": [3, {"tabId": 4, "bubbles": [1]}]}, {"tabs": None}]
    )
    def test_odd_rows_have_no_chats(self, tmp_path: Path, value: Any) -> None:
        assert READER.list_conversations(self.workspace(tmp_path, (CHATS_KEY, value))) == []


STREAM_START = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "permissionMode": "default",
}


class TestStream:
    """The output of `cursor-agent --output-format stream-json`."""

    @staticmethod
    def said(text: str, **fields: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"type": "assistant", "message": {"content": content}, "session_id": "s", **fields}

    def answers(self, *records: Any) -> list[Any]:
        data = b"".join(json.dumps(record).encode() + b"\n" for record in (STREAM_START, *records))
        source = Source("stream", data=data)
        assert detect_format(source) == "cursor"
        draft = Draft()
        READER.read(source, draft)
        events = list(draft.finish(lambda: "0" * 64).events)
        return [item["content"]["text"] for item in events if item.get("role") == "assistant"]

    def test_an_answer_in_pieces_is_reported_once(self) -> None:
        assert self.answers(self.said("ha"), self.said("ha")) == ["haha"]
        twice = [self.said("ha", timestamp_ms=1), self.said("ha", timestamp_ms=2)]
        assert self.answers(*twice, self.said("haha")) == ["haha"]
        pieces = [self.said("one ", timestamp_ms=1), self.said("two", timestamp_ms=2)]
        assert self.answers(*pieces) == ["one two"]
        assert self.answers(*pieces, self.said("one two")) == ["one two"]
        end = {"type": "result", "result": "one two", "session_id": "s"}
        assert self.answers(*pieces, self.said("one two"), end) == ["one two"]

    def test_a_stream_of_claude_code_is_not_claimed(self) -> None:
        init = {**STREAM_START, "uuid": "u", "tools": [], "mcp_servers": []}
        message = {"type": "assistant", "message": {"role": "assistant", "content": []}}
        data = b"".join(json.dumps(record).encode() + b"\n" for record in (init, message))
        assert not READER.sniff(Source("stream", data=data))
