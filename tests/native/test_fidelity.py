"""The report finds what is missing, on its own."""

import contextlib
import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from open_token.context import Context
from open_token.native.fidelity import ExportObserver, FidelityReport, measure_fidelity
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source

LONG = "A sentence that is long enough to be text and not a name."


def report(
    records: list[Any], spoil: Any = None, reader: str = "claude_code", **words: str
) -> FidelityReport:
    source = Source(
        "session", data=b"".join(json.dumps(record).encode() + b"\n" for record in records)
    )
    witness = ExportObserver()
    if spoil:
        take = witness.take
        witness.take = lambda event: take(spoil(event))  # type: ignore[method-assign]
    receipt = export(
        source, io.BytesIO(), Context(ExportOptions.of(words), key=bytes(32)), reader, witness
    )
    return measure_fidelity(source, reader, witness, receipt.notes)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "user",
        "uuid": "u",
        "sessionId": "s",
        "message": {"role": "user", "content": content},
        **more,
    }


def test_all_that_was_said_is_there() -> None:
    found = report([user(LONG), user(f"{LONG} And more.", uuid="v")])
    assert (found.records, found.carried, found.percent) == (2, 2, 100.0)
    assert found.said == len(LONG) * 2 + len(" And more.")


def test_a_loss_is_found() -> None:
    def spoil(event: Any) -> Any:
        text = event["content"].get("text", "")
        return {**event, "content": {"mime": "text/plain", "text": text[:-20]}}

    found = report([user(LONG)], spoil)
    assert (found.carried, found.said_kept, found.percent) == (0, 0, 0.0)


def test_the_same_text_counts_once() -> None:
    found = report([user(LONG), user(LONG, uuid="v")])
    assert (found.records, found.said) == (2, len(LONG))


def test_side_data_and_encrypted_values_are_no_conversation() -> None:
    found = report([user(LONG, toolUseResult={"stdout": f"{LONG} Nobody said it."})])
    assert found.percent == 100.0
    assert found.percent_of_all < 60


@pytest.mark.parametrize(
    "value",
    [
        "data:image/png;base64," + "iVBORw0KGgo" * 8,
        "attachment://0123456789abcdef0123456789abcdef",
        "bubbleId:5d1f7b3e-9a2c-4e8f-b1d0-3c4a5b6c7d8e:b-text",
    ],
)
def test_images_pointers_and_keys_are_no_conversation(value: str) -> None:
    found = report([user(LONG, beside=value)])
    assert (found.percent, found.said) == (100.0, len(LONG))
    assert found.text == len(LONG) + len(value)


CURSOR = [
    {
        "role": "user",
        "message": {"content": [{"type": "text", "text": f"<user_query>\n{LONG}\n</user_query>"}]},
    },
    {
        "role": "assistant",
        "message": {
            "content": [{"type": "text", "text": f"<thinking>Hm.</thinking>\n{LONG} Yes."}]
        },
    },
]


def test_words_that_readers_take_out_of_their_tags_are_kept() -> None:
    found = report(CURSOR, reader="cursor")
    assert (found.carried, found.percent) == (2, 100.0)


def test_what_is_lost_between_tags_is_found() -> None:
    def spoil(event: Any) -> Any:
        return {
            **event,
            "content": {
                "mime": "text/plain",
                "text": "Something else was said here, so it seems, in one.",
            },
        }

    found = report(CURSOR, spoil, reader="cursor")
    assert (found.carried, found.percent) == (0, 0.0)


def test_fields_that_are_never_mapped_are_named_with_a_place() -> None:
    found = report([user(LONG), user("x", slug="brave-fox", number=4711, flag=True)])
    assert {(item.path, item.first) for item in found.unmapped} >= {
        ("slug", "line 2"),
        ("number", "line 2"),
    }
    assert "message.content" not in {item.path for item in found.unmapped}


def test_a_key_that_is_content_is_not_shown() -> None:
    found = report([user(LONG, files={"/home/someone/secret plan.txt": "unmapped value"})])
    assert "files.*" in {item.path for item in found.unmapped}
    assert "secret plan" not in json.dumps(found.as_json())


def test_text_with_a_masked_part_is_kept() -> None:
    secret = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
    assert report([user(f"{LONG} The token is {secret}, use it.")]).percent == 100.0


def test_json_in_a_string_is_one_field() -> None:
    found = report([user(LONG, extra=json.dumps({"deep": {"words": f"{LONG} Unmapped."}}))])
    assert "extra" in {item.path for item in found.unmapped}


def test_a_list_of_technical_data_is_no_conversation() -> None:
    session = {
        "session_id": "s",
        "session_start": "2026-01-01T00:00:00",
        "platform": "cli",
        "messages": [{"role": "user", "content": LONG}],
        "tools": [{"function": {"name": "look", "description": f"{LONG} Nobody said it."}}],
    }
    found = report([session], reader="hermes")
    assert (found.percent, found.said) == (100.0, len(LONG))
    assert found.percent_of_all < 60


def test_technical_fields_in_columns_of_json_are_no_conversation(tmp_path: Path) -> None:
    path = tmp_path / "crush.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE sessions (id, parent_session_id, title, created_at)")
        database.execute("CREATE TABLE files (id, session_id, content)")
        names = "id, session_id, role, parts, model, created_at"
        database.execute(f"CREATE TABLE messages ({names})")
        database.execute("INSERT INTO sessions VALUES ('s', NULL, 'Herons', 1)")
        database.execute("INSERT INTO files VALUES ('f', 's', ?)", (f"{LONG} A file.",))
        result = {"tool_call_id": "c", "content": LONG, "metadata": f"{LONG} A diff."}
        parts = json.dumps([{"type": "tool_result", "data": result}])
        values = ("m", "s", "tool", parts, "", 2)
        database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", values)
    observer = ExportObserver()
    source = Source.of(path)
    export(source, io.BytesIO(), Context(ExportOptions.of({}), key=bytes(32)), "crush", observer)
    found = measure_fidelity(source, "crush", observer, [])
    assert (found.percent, found.said) == (100.0, len(LONG))
    assert {"parts", "parts.metadata", "content"} <= {item.path for item in found.unmapped} | {
        "parts"
    }


def test_a_string_in_json_in_a_string_is_searched() -> None:
    observer = ExportObserver()
    observer.take({"content": {"data": {"arguments": {"path": LONG}}}})  # type: ignore[typeddict-item]
    source = Source(
        "session", data=json.dumps({"step_index": 1, "args": json.dumps(LONG)}).encode()
    )
    found = measure_fidelity(source, "antigravity", observer, [])
    assert (found.percent, found.said) == (100.0, len(LONG))


def test_json_below_a_header_is_searched() -> None:
    row = "a row of a table that a server returned as JSON"
    inner = json.dumps({"rows": [row]})
    found = report([user(f"Wall time: 1 second\nOutput:\n{inner}"), user(row, uuid="v")])
    assert found.percent == 100.0
    observer = ExportObserver()
    observer.learn(f"Output:\n{inner}")
    assert observer.knows(row)


def test_with_the_whole_source_everything_is_there() -> None:
    words = {"native": "full", "include": "include-internal", "internal": "full", "redact": "none"}
    found = report(
        [user(LONG, toolUseResult={"stdout": f"{LONG} Nobody said it."}, slug="brave-fox")], **words
    )
    assert found.percent_of_all == 100.0
    assert "slug" not in {item.path for item in found.unmapped}


def test_usage_is_added_up_once() -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    message = {
        "id": "m",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "text", "text": LONG}],
        "usage": usage,
    }
    records = [
        {"type": "assistant", "uuid": f"u{n}", "sessionId": "s", "message": message}
        for n in range(2)
    ]
    records[1]["message"] = {**message, "content": [{"type": "text", "text": f"{LONG} 2"}]}
    found = report(records)
    assert (found.usage["input_tokens"], found.usage["output_tokens"]) == (10, 5)


def of_text(reader: str, text: str) -> FidelityReport:
    source, witness = Source("session", data=text.encode()), ExportObserver()
    receipt = export(
        source, io.BytesIO(), Context(ExportOptions.of({"redact": "none"})), reader, witness
    )
    return measure_fidelity(source, reader, witness, receipt.notes)


def test_a_text_is_judged_by_its_lines() -> None:
    """A history of Aider was one string, of which nothing was found."""
    rows = [
        "# aider chat started at 2026-01-01 00:00:00",
        "",
        f"> {LONG}  ",
        f"> {LONG} Second.  ",
        "",
    ]
    rows += [f"#### {LONG} Asked.  ", "", f"{LONG} Answered.", ""]
    history = "\n".join(rows)
    found = of_text("aider", history)
    assert (found.percent, found.carried) == (100.0, 1)
    assert found.said > 3 * len(LONG)


def test_a_recording_is_judged_by_its_values() -> None:
    """So were recordings in YAML, whose texts are wrapped and escaped."""
    recording = f"""interactions:
- request:
    body: '{{"model": "gpt-4o", "messages": [{{"role": "user", "content": "{LONG}"}}]}}'
    headers:
      x-side: ["{LONG} Nobody said it."]
    method: POST
    uri: https://api.openai.com/v1/chat/completions
  response:
    body:
      string: "{{\\"choices\\": [{{\\"message\\": {{\\"role\\": \\"assistant\\", \\"content\\": \\"{LONG}
        Answered.\\"}}}}]}}"
    status: {{code: 200, message: OK}}
version: 1
"""
    found = of_text("http_recording", recording)
    assert (found.percent, found.said) == (100.0, 2 * len(LONG) + len(" Answered."))


def test_hidden_reasoning_is_reported_apart() -> None:
    block = {"type": "thinking", "thinking": f"{LONG} Hidden.", "signature": "c2ln"}
    said = {
        "type": "assistant",
        "uuid": "v",
        "sessionId": "s",
        "message": {"role": "assistant", "content": [block]},
    }
    assert report([user(LONG), said]).reasoning_left == len(f"{LONG} Hidden.")
    assert (
        report([user(LONG), said], include="include-internal", internal="full").reasoning_left == 0
    )


def test_every_real_conversation_keeps_all_that_was_said(corpus: Any) -> None:
    words = {"include": "include-internal", "internal": "full", "branches": "all", "redact": "none"}
    tried = 0
    for path in sorted(corpus.glob("claude_code/*.jsonl")):
        source, witness = Source.of(path), ExportObserver()
        receipt = export(
            source, io.BytesIO(), Context(ExportOptions.of(words)), "claude_code", witness
        )
        assert measure_fidelity(source, "claude_code", witness, receipt.notes).percent > 98, (
            path.name
        )  # titles of other sessions
        tried += 1
    assert tried > 5
