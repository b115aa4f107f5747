"""OpenCode in its forms: what is exported, in which order, with whose subagents, and what is left
out."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main
from open_token.context import Context
from open_token.jsontools.walk import iter_strings
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from open_token.validation.validate import validate
from readers.databases import codes, database, notes_of, read_conversation
from readers.provider_readers import build_read_function, summarize_events, tokens

READER = READERS["opencode"]

read = build_read_function(READER)
SES, KID = "ses_1", "ses_2"
T = 1_767_225_600_000
SCHEMA = """
CREATE TABLE session (
  id text PRIMARY KEY, parent_id text, directory text, title text, revert text, time_created integer
);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text);
"""


def info(name: str = SES, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "directory": "/srv",
        "title": "A session",
        "time": {"created": T, "updated": T + 5},
        **more,
    }


def user(name: str = "m1", session: str = SES, **more: Any) -> dict[str, Any]:
    return {"id": name, "sessionID": session, "role": "user", "time": {"created": T}, **more}


def model(name: str = "m2", session: str = SES, **more: Any) -> dict[str, Any]:
    made = {"id": name, "sessionID": session, "role": "assistant", "time": {"created": T + 1}}
    return {**made, "providerID": "openai", "modelID": "gpt-5.2", **more}


def part(
    kind: str, name: str = "p", message: str = "m1", session: str = SES, **more: Any
) -> dict[str, Any]:
    return {"id": name, "messageID": message, "sessionID": session, "type": kind, **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return part("text", text=words, **more)


def tool(name: str = "bash", call: str = "c1", **state: Any) -> dict[str, Any]:
    return part(
        "tool",
        callID=call,
        tool=name,
        state={"status": "completed", "input": {}, "output": "ok", **state},
    )


def bundle(about: dict[str, Any], *parts: dict[str, Any]) -> dict[str, Any]:
    made = [
        {**item, "id": f"p{number}", "messageID": about["id"]} for number, item in enumerate(parts)
    ]
    return {"info": about, "parts": made}


def exported(*messages: dict[str, Any], **about: Any) -> dict[str, Any]:
    return {"info": info(**about), "messages": list(messages)}


def answered(*parts: dict[str, Any], **about: Any) -> tuple[Record, list[Event]]:
    return read(exported(bundle(user(), text("hi")), bundle(model(**about), *parts)))


def write(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=2))
    return path


def storage(folder: Path) -> Path:
    """A session with a task, whose session lies beside it, and a session that has nothing to do
    with them."""
    own = write(folder, f"session/p/{SES}.json", info())
    write(folder, f"session/p/{KID}.json", info(KID, parentID=SES))
    write(folder, "session/q/ses_3.json", info("ses_3", title="Another"))
    write(folder, f"message/{SES}/m1.json", user())
    write(folder, "part/m1/p1.json", text("go"))
    write(folder, f"message/{SES}/m2.json", model())
    task = tool(
        "task", input={"prompt": "look", "subagent_type": "explore"}, metadata={"sessionId": KID}
    )
    write(folder, "part/m2/p1.json", task)
    write(folder, f"message/{KID}/m3.json", user("m3", KID))
    write(folder, "part/m3/p1.json", text("look", message="m3", session=KID))
    write(folder, f"message/{KID}/m4.json", model("m4", KID))
    write(folder, "part/m4/p1.json", text("nothing", message="m4", session=KID))
    write(folder, "message/ses_3/m9.json", user("m9", "ses_3"))
    write(folder, "part/m9/p1.json", text("other", message="m9", session="ses_3"))
    return own


class TestForms:
    def test_an_export_is_one_conversation(self) -> None:
        source = Source("x", data=json.dumps(exported(bundle(user(), text("hi")))).encode())
        found = READER.list_conversations(source)
        assert [(item.id, item.title, item.cwd, item.started_at) for item in found] == [
            (SES, "A session", "/srv", "2026-01-01T00:00:00Z")
        ]

    def test_concatenated_files_are_sorted_by_id_and_grouped_by_session(self) -> None:
        first, second = "msg_b70000000001AbC", "msg_b70000000002AbC"
        values = [
            part("text", "prt_b70000000009A", second, text="late"),
            part("text", "prt_b70000000003A", second, text="early"),
            model(second),
            user("msg_b70000000005AbC", "ses_9"),
            text("elsewhere", message="msg_b70000000005AbC", session="ses_9"),
            text("ask", message=first),
            user(first),
        ]
        source = Source("x", data="".join(json.dumps(value, indent=1) for value in values).encode())
        assert source.shape == "glued"
        assert [item.id for item in READER.list_conversations(source)] == [SES, "ses_9"]
        record, events = read_conversation(READER, source, SES)
        assert summarize_events(events) == [
            ("user", "ask"),
            ("assistant", "early"),
            ("assistant", "late"),
        ]
        assert record.conversation["id"] == SES

    def test_ids_that_do_not_sort_keep_their_order(self) -> None:
        values = [user("z"), text("first", message="z"), user("a"), text("second", message="a")]
        _, events = read("".join(json.dumps(value) + "\n" for value in values).encode())
        assert summarize_events(events) == [("user", "first"), ("user", "second")]

    def test_a_repeated_part_replaces_the_earlier_state(self) -> None:
        values = [user(), text("hal", name="p1"), text("half a word", name="p1")]
        _, events = read("".join(json.dumps(value) + "\n" for value in values).encode())
        assert summarize_events(events) == [("user", "half a word")]

    @pytest.mark.parametrize("below", ["", "storage"])
    def test_a_folder_lists_the_sessions_without_a_parent(self, tmp_path: Path, below: str) -> None:
        storage(tmp_path / below)
        source = Source.of_folder(tmp_path)
        assert detect_format(source) == "opencode"
        assert [item.id for item in READER.list_conversations(source)] == [SES, "ses_3"]
        _, events = read_conversation(READER, source, "ses_3")
        assert ("user", "other") in summarize_events(events)
        assert ("user", "go") not in summarize_events(events)

    def test_a_session_file_is_read_with_its_messages(self, tmp_path: Path) -> None:
        source = Source.of(storage(tmp_path))
        assert detect_format(source) == "opencode"
        _, events = read_conversation(READER, source)
        spoken = [
            pair
            for pair in summarize_events(events)
            if pair[0] in ("user", "assistant") and isinstance(pair[1], str)
        ]
        assert spoken == [("user", "go"), ("user", "look"), ("assistant", "nothing")]
        assert {item["visibility"] for item in events if item.get("links", {}).get("span_id")} <= {
            "internal",
            "metadata",
        }

    def test_damaged_files_are_noted(self, tmp_path: Path) -> None:
        own = storage(tmp_path)
        write(tmp_path, "part/m1/p2.json", '{"type": "te')
        write(tmp_path, f"message/{SES}/m8.json", "")
        write(tmp_path, "session/p/ses_8.json", "{")
        record, events = read_conversation(READER, Source.of(own))
        assert codes(record)["broken-file"] == 3
        assert ("user", "go") in summarize_events(events)

    def test_an_id_is_not_used_as_a_pattern(self, tmp_path: Path) -> None:
        own = storage(tmp_path)
        write(tmp_path, f"session/p/{SES}.json", info("*"))
        _, events = read_conversation(READER, Source.of(own))
        assert [event for event in events if event["type"] == "message"] == []

    def test_an_event_of_opencode_run(self) -> None:
        value = {"type": "text", "timestamp": T, "sessionID": SES, "part": text("hi", message="m7")}
        step = {
            "type": "step_start",
            "timestamp": T,
            "sessionID": SES,
            "part": part("step-start", "q", "m7"),
        }
        record, events = read((json.dumps(value) + "\n" + json.dumps(step) + "\n").encode())
        assert summarize_events(events) == [("assistant", "hi")]
        assert codes(record)["no-message"] == 1

    @pytest.mark.parametrize(
        ("name", "place"), [("msg_7", "message msg_7"), ("what was said", "a message")]
    )
    def test_a_note_names_an_id_but_no_content(self, name: str, place: str) -> None:
        value = {"type": "text", "timestamp": T, "sessionID": SES, "part": text("hi", message=name)}
        record, _ = read((json.dumps(value) + "\n").encode())
        assert [note.place for note in record.notes if note.code == "no-message"] == [place]


SESSION_RECORD = {
    "id": "ses_1",
    "projectID": "p",
    "directory": "/w",
    "title": "t",
    "version": "1",
    "time": {"created": 1, "updated": 2},
}
MESSAGE_RECORD = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}
PART_RECORD = {
    "id": "prt_1",
    "messageID": "msg_1",
    "sessionID": "ses_1",
    "type": "text",
    "text": "hello",
}


class TestDatabase:
    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        return {
            "session": [
                (SES, None, "/srv", "A session", None, T),
                (KID, SES, "/srv", "Kid", None, T),
                ("ses_3", None, "", "", None, T),
            ],
            "message": [
                ("mz", SES, 1, {"role": "user", "time": {"created": T}}),
                ("ma", SES, 2, {"role": "assistant", "modelID": "m"}),
                ("mk", KID, 3, {"role": "user"}),
            ],
            "part": [
                ("p2", "ma", SES, {"type": "text", "text": "answer"}),
                ("p1", "mz", SES, {"type": "text", "text": "ask"}),
                ("p3", "mk", KID, {"type": "text", "text": "kid"}),
                ("p4", "gone", SES, {"type": "text", "text": "orphan"}),
                ("p5", "ma", SES, "{"),
            ],
        }

    def test_messages_are_in_the_order_of_opencode(self, tmp_path: Path) -> None:
        source = database(tmp_path, SCHEMA, self.rows())
        assert detect_format(source) == "opencode"
        assert [item.id for item in READER.list_conversations(source)] == [SES, "ses_3"]
        record, events = read_conversation(READER, source, SES)
        recorded = [pair for pair in summarize_events(events) if pair[0] in ("user", "assistant")]
        assert recorded == [("user", "ask"), ("assistant", "answer"), ("user", "kid")]
        assert codes(record) == {"no-message": 1, "broken-row": 1}

    def test_rows_belong_to_the_root_session(self, tmp_path: Path) -> None:
        source = database(tmp_path, SCHEMA, self.rows())
        assert READER.find_owner(source, "part", {"session_id": KID}) == SES
        assert READER.find_owner(source, "session", {"id": "ses_3"}) == "ses_3"
        assert READER.find_owner(source, "event", {"aggregate_id": KID, "data": ""}) == SES
        others = [item.id for item in READER.list_conversations(source)] + [None]
        assert READER.find_owner(source, "account", {"id": "a", "access_token": "x"}) not in others
        share = {"session_id": SES, "secret": "x"}
        assert READER.find_owner(source, "session_share", share) == SES

    @pytest.mark.parametrize(("newest", "words"), [(1, "old form"), (99, "new form")])
    def test_the_newer_form_of_a_session_is_read(
        self, tmp_path: Path, newest: int, words: str
    ) -> None:
        columns = (
            "id text, session_id text, type text, seq integer, time_created integer, data text"
        )
        script = f"{SCHEMA} CREATE TABLE session_message ({columns});"
        rows = {
            "session": [(SES, None, "/srv", "A session", None, T)],
            "message": [("m1", SES, 5, {"role": "user"})],
            "part": [("p1", "m1", SES, {"type": "text", "text": "old form"})],
            "session_message": [("m1", SES, "user", 1, newest, {"text": "new form"})],
        }
        record, events = read_conversation(READER, database(tmp_path, script, rows))
        assert ("user", words) in summarize_events(events)
        assert codes(record)["second-form"] == 1

    def test_sessions_in_a_cycle_are_read_once(self, tmp_path: Path) -> None:
        rows = self.rows()
        rows["session"] = [(SES, KID, "", "A", None, T), (KID, SES, "", "B", None, T)]
        source = database(tmp_path, SCHEMA, rows)
        assert [item.id for item in READER.list_conversations(source)] == [SES]
        _, events = read_conversation(READER, source)
        assert [pair[1] for pair in summarize_events(events) if pair[0] == "user"] == ["ask", "kid"]

    def test_many_parts_are_read_in_linear_time(self, tmp_path: Path) -> None:
        """No index on the parts: they are still walked once, beside their messages."""
        count = 3000
        rows = {
            "session": [(SES, None, "", "A", None, T)],
            "message": [(f"m{n:06}", SES, n, {"role": "user"}) for n in range(count)],
            "part": [
                (f"p{n:06}", f"m{n:06}", SES, {"type": "text", "text": str(n)})
                for n in range(count)
            ],
        }
        _, events = read_conversation(READER, database(tmp_path, SCHEMA, rows))
        assert [pair[1] for pair in summarize_events(events) if pair[0] == "user"] == [
            str(n) for n in range(count)
        ]


class TestMessages:
    def test_injected_parts_are_internal(self) -> None:
        _, events = read(
            exported(
                bundle(
                    user(), text("a"), text("b", synthetic=True), text("c"), text("d", ignored=True)
                )
            )
        )
        said = [
            (item["content"]["text"], item["visibility"])
            for item in events
            if item.get("role") == "user"
        ]
        assert said == [("a", "public"), ("b", "internal"), ("c", "public"), ("d", "internal")]

    def test_synthetic_text_of_the_model_is_a_client_message(self) -> None:
        _, events = answered(text("stopped", synthetic=True), text("hello"))
        assert notes_of(events, "client_message")[0]["text"] == "stopped"
        assert summarize_events(events)[-1] == ("assistant", "hello")

    def test_tokens_of_steps_are_counted_once(self) -> None:
        counts = {"input": 10, "output": 5, "reasoning": 2, "cache": {"read": 3, "write": 4}}
        _, events = answered(
            text("a"), part("step-finish", tokens=counts), text("b"), tokens=counts
        )
        assert [item.get("usage") for item in events if item.get("role") == "assistant"] == [
            tokens(
                input_tokens=17,
                output_tokens=5,
                reasoning_tokens=2,
                cache_read_tokens=3,
                cache_write_tokens=4,
            ),
            None,
        ]

    @pytest.mark.parametrize(
        ("counts", "provider", "output"),
        [
            ({"input": 1, "output": 50, "reasoning": 40}, "openai", 50),
            ({"input": 1, "output": 50, "reasoning": 40, "total": 91}, "openai", 90),
            ({"input": 1, "output": 50, "reasoning": 40, "total": 51}, "openai", 50),
            ({"input": 1, "output": 5, "reasoning": 40}, "openai", 45),
            ({"input": 1, "output": 50, "reasoning": 40}, "google", 90),
            ({"input": 1, "output": 50.0, "reasoning": -1}, "openai", 50),
        ],
    )
    def test_output_tokens_include_reasoning(
        self, counts: dict[str, Any], provider: str, output: int
    ) -> None:
        _, events = answered(text("a"), tokens=counts, providerID=provider)
        assert events[-1]["usage"]["output_tokens"] == output

    def test_usage_without_a_message_is_annotated(self) -> None:
        _, events = answered(tokens={"input": 3, "output": 0})
        assert events[-1]["usage"] == tokens(input_tokens=3, output_tokens=0)
        assert notes_of(events, "usage")

    @pytest.mark.parametrize("status", ["pending", "running", "streaming", None])
    def test_an_unfinished_call_has_no_result(self, status: str | None) -> None:
        _, events = answered(
            part("tool", callID="c", tool="bash", state={"status": status, "input": {"a": 1}})
        )
        assert events[-1]["content"]["data"] == {"missing_result": True}

    def test_an_empty_output_is_an_output(self) -> None:
        _, events = answered(tool(output=""))
        assert ("tool", "") in summarize_events(events)

    def test_a_call_with_a_repeated_id_is_exported(self) -> None:
        open_one = part("tool", callID="c", tool="bash", state={"status": "running", "input": {}})
        _, events = answered(open_one, tool(call="c", output="later"))
        calls = [
            item["content"]["data"]["native_call_id"]
            for item in events
            if item["type"] == "tool_use"
        ]
        assert calls == ["c", "c"]
        assert ("tool", "later") in summarize_events(events)

    def test_small_facts_are_included_and_bulk_is_noted(self) -> None:
        metadata = {"exit": 1, "diff": "x" * 999, "truncated": False, "files": [1]}
        record, events = answered(
            tool(title="t", metadata=metadata, time={"start": 5, "end": 9, "compacted": 10})
        )
        assert notes_of(events, "result_facts") == [
            {
                "kind": "result_facts",
                "title": "t",
                "duration_ms": 4,
                "cleared_from_context": True,
                "exit": 1,
                "truncated": False,
            }
        ]
        assert codes(record)["tool-metadata"] == 1

    def test_an_abort_and_an_error(self) -> None:
        aborted = {"name": "MessageAbortedError", "data": {"message": "stop"}}
        _, events = answered(error=aborted)
        assert notes_of(events, "aborted") == [
            {"kind": "aborted", "name": "MessageAbortedError", "message": "stop"}
        ]
        record, events = answered(
            error={"name": "APIError", "data": {"kind": "x", "responseHeaders": {"a": "b"}}}
        )
        assert notes_of(events, "error") == [
            {"kind": "error", "name": "APIError", "detail": {"kind": "x"}}
        ]
        assert codes(record)["response-headers"] == 1

    def test_the_secret_of_a_share_is_omitted(self) -> None:
        record, events = read(
            exported(
                bundle(user(), text("hi")), share={"url": "https://u.test", "secret": "s3cret"}
            )
        )
        assert "s3cret" not in json.dumps([event["content"] for event in events])
        assert codes(record)["share-secret"] == 1

    @pytest.mark.parametrize("level", ["none", "secrets"])
    def test_the_record_of_a_share_is_restored(self, tmp_path: Path, level: str) -> None:
        """Its secret is masked like any other; the record itself is never left out."""
        secret = "-".join(("0b1e7c1a", "9f4e", "4c2d", "8a55", "2f9d1b6f7e31"))
        share = {"secret": secret, "url": "https://share.test/abc"}
        records = [SESSION_RECORD, MESSAGE_RECORD, PART_RECORD, share]
        source = tmp_path / "dump.jsonl"
        source.write_text("".join(json.dumps(record) + "\n" for record in records))
        target = tmp_path / "export.json"
        options = [f"redact={level}", "native=full", "include=include-internal", "internal=full"]
        assert main(["export", str(source), "-o", str(target), *options]) == 0
        assert main(["restore", str(target), "-o", str(tmp_path / "back")]) == 0
        restored = (tmp_path / "back" / "dump.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in restored[:3]] == records[:3]
        last = json.loads(restored[3])
        assert last["url"] == share["url"]
        assert (last["secret"] == secret) == (level == "none")

    def test_settings_are_annotated_when_they_change(self) -> None:
        messages = [
            bundle(user(f"m{n}", agent=agent), text("x"))
            for n, agent in enumerate(("plan", "plan", "build"))
        ]
        _, events = read(exported(*messages))
        assert [item["agent"] for item in notes_of(events, "settings")] == ["plan", "build"]

    def test_several_providers_give_no_provider(self) -> None:
        record, _ = read(exported(bundle(model("a")), bundle(model("b", providerID="anthropic"))))
        assert "provider" not in record.conversation


class TestSubagents:
    def test_inline(self, tmp_path: Path) -> None:
        _, events = read_conversation(READER, Source.of(storage(tmp_path)))
        kinds = [item["type"] for item in events if item["type"] not in ("annotation", "message")]
        assert kinds == ["tool_use", "span_start", "span_end", "tool_result"]
        start = next(item for item in events if item["type"] == "span_start")
        call = next(item for item in events if item["type"] == "tool_use")
        assert start["links"]["call_id"] == call["links"]["call_id"]
        assert start["content"]["data"]["subagent_type"] == "explore"

    def test_reference_and_none(self, tmp_path: Path) -> None:
        own = storage(tmp_path)
        _, events = read_conversation(READER, Source.of(own), subagents="reference")
        assert notes_of(events, "subagent")[0]["reference"] == KID
        assert ("assistant", "nothing") not in summarize_events(events)
        record, events = read_conversation(READER, Source.of(own), subagents="none")
        assert notes_of(events, "subagent") == []
        assert codes(record)["subagent"] == 1

    def test_a_missing_session_is_a_reference(self) -> None:
        _, events = answered(tool("task", metadata={"sessionID": "ses_far"}))
        assert notes_of(events, "subagent") == [
            {"kind": "subagent", "session_id": "ses_far", "reference": "ses_far"}
        ]

    def test_a_continued_task_is_read_once(self, tmp_path: Path) -> None:
        own = storage(tmp_path)
        again = tool("task", "c2", metadata={"sessionId": KID})
        write(tmp_path, "part/m2/p2.json", again)
        _, events = read_conversation(READER, Source.of(own))
        assert ["reference" in item for item in notes_of(events, "subagent")] == [False, True]
        assert summarize_events(events).count(("assistant", "nothing")) == 1

    def test_a_subagent_without_a_call_is_at_the_end(self, tmp_path: Path) -> None:
        own = storage(tmp_path)
        write(tmp_path, "part/m2/p1.json", text("done", message="m2"))
        _, events = read_conversation(READER, Source.of(own))
        assert events[-1]["type"] == "span_end"
        assert ("assistant", "nothing") in summarize_events(events)

    def test_nesting_is_limited(self, tmp_path: Path) -> None:
        names = [f"ses_{n:02}" for n in range(40)]
        rows = {
            "session": [
                (name, above, "", "t", None, T)
                for name, above in zip(names, [None, *names], strict=False)
            ],
            "message": [(f"m{n}", name, n, {"role": "user"}) for n, name in enumerate(names)],
            "part": [
                (f"p{n}", f"m{n}", name, {"type": "text", "text": name})
                for n, name in enumerate(names)
            ],
        }
        _, events = read_conversation(READER, database(tmp_path, SCHEMA, rows))
        assert "reference" in notes_of(events, "subagent")[-1]


class TestReverts:
    def revert(self, value: Any, **options: Any) -> list[Any]:
        first = bundle(user("m1"), text("kept"))
        second = bundle(model("m2"), text("half"), text("left"))
        third = bundle(user("m3"), text("gone"))
        _, events = read(
            {"info": info(revert=value), "messages": [first, second, third]}, **options
        )
        return [pair[1] for pair in summarize_events(events) if pair[0] in ("user", "assistant")]

    def test_messages_and_parts(self) -> None:
        assert self.revert({"messageID": "m3"}) == ["kept", "half", "left"]
        assert self.revert({"messageID": "m2", "partID": "p1"}) == ["kept", "half"]
        assert self.revert({"messageID": "m2"}, branches="all") == ["kept", "half", "left", "gone"]
        assert self.revert("odd") == ["kept", "half", "left", "gone"]


@pytest.mark.parametrize("odd", [None, 5, "x", [], {}, [None], {"a": 1}, True, 1.5])
def test_odd_values_do_not_fail(odd: Any) -> None:
    fields = (
        "time",
        "tokens",
        "cost",
        "error",
        "path",
        "summary",
        "model",
        "agent",
        "tools",
        "structured",
        "finish",
    )
    state = {
        "status": "completed",
        "input": odd,
        "output": odd,
        "metadata": odd,
        "time": odd,
        "attachments": [odd],
    }
    parts = [
        part(
            kind,
            text=odd,
            url=odd,
            state=state,
            tool=odd,
            callID=odd,
            files=odd,
            error=odd,
            tokens=odd,
        )
        for kind in (
            "text",
            "tool",
            "reasoning",
            "file",
            "step-finish",
            "patch",
            "retry",
            "agent",
            "subtask",
            "compaction",
        )
    ]
    about = dict.fromkeys(fields, odd)
    value = exported(
        bundle(user(**about), *parts), bundle(model(**about), *parts), revert=odd, share=odd
    )
    value["messages"] += [odd, {"info": odd, "parts": odd}, {"info": user("m5"), "parts": odd}]
    out = io.BytesIO()
    export(
        Source("x", data=json.dumps(value).encode()),
        out,
        Context(ExportOptions.of({"exported_at": "omit"})),
        "opencode",
    )
    assert [item for item in validate(json.loads(out.getvalue())) if item.severity == "error"] == []


@pytest.mark.parametrize(
    "value",
    [
        {"role": "user", "content": "hi"},
        {"messages": [{"role": "user", "content": "hi"}], "info": {"id": "x"}},
        {"id": "a", "title": "t", "time": 5, "directory": "/"},
        {"sessionID": "a", "type": "text"},
        {"info": {"id": "x"}, "messages": []},
    ],
)
def test_other_formats_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(Source("x", data=json.dumps(value).encode()))


def test_peek() -> None:
    assert READER.peek([info()]) == {"id": SES, "cwd": "/srv", "title": "A session"}
    assert READER.peek([exported()])["id"] == SES
    assert READER.peek([]) == READER.peek([5]) == {}


def test_the_shared_corpus(corpus: Path) -> None:
    """Every word of the stored sessions is exported, from the folder and from the session file
    alike."""
    root = corpus / "opencode" / "fixture_storage_v2"
    sessions = sorted(root.glob("session/*/*.json"))
    assert sessions
    for path in sessions:
        _, events = read_conversation(READER, Source.of(path))
        everything = "\n".join(iter_strings([event["content"] for event in events]))
        for file in root.glob("part/*/*.json"):
            value = json.loads(file.read_text())
            words = [value.get("text"), value.get("url"), value.get("state", {}).get("output")]
            assert all(word in everything for word in words if word)
        _, again = read_conversation(READER, Source.of_folder(root))
        assert summarize_events(again) == summarize_events(events)
    for path in sorted((corpus / "native_minimal" / "opencode").glob("*import*.json")):
        source = Source.of(path)
        assert detect_format(source) == "opencode"
        _, events = read_conversation(READER, source)
        assert [item["type"] for item in events].count("tool_result") == 1


def test_events_of_a_run_are_from_the_model() -> None:
    part = {
        "id": "prt_1",
        "sessionID": "ses_1",
        "messageID": "msg_1",
        "type": "text",
        "text": "One file.",
    }
    line = (
        json.dumps({"type": "text", "timestamp": 1, "sessionID": "ses_1", "part": part}).encode()
        + b"\n"
    )
    assert [event["role"] for event in read(line)[1]] == ["assistant"]
