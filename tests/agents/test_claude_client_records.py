"""Notices, attachments and requests: text for the model is a message, the rest an annotation."""

import base64
from typing import Any

import pytest

from readers.claude_lines import File, body, events, read, summarize

PNG = base64.b64encode(b"\x89PNG tiny").decode()


def attached(**attachment: Any) -> File:
    file = File()
    record = {key: attachment.pop(key) for key in ("rendered", "renderedRole") if key in attachment}
    file.add("attachment", attachment=attachment, **record)
    return file


def test_a_compaction_is_marked() -> None:
    file = File()
    meta = {"trigger": "auto", "preTokens": 160000, "postTokens": 9000, "preservedSegment": {}}
    file.add(
        "system", subtype="compact_boundary", content="Conversation compacted", compactMetadata=meta
    )
    file.add("system", subtype="microcompact_boundary", compactMetadata=None)
    assert [body(e) for e in events(file)] == [
        {"kind": "compaction", "trigger": "auto", "pre_tokens": 160000, "post_tokens": 9000},
        {"kind": "compaction", "scope": "microcompact"},
    ]


@pytest.mark.parametrize(
    "error",
    [
        "busy",
        {"message": "busy"},
        {"formatted": "busy"},
        {"error": {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}},
    ],
)
def test_errors_of_the_api(error: Any) -> None:
    file = File()
    file.add("system", subtype="api_error", error=error, retryAttempt=2, maxRetries=10)
    (event,) = events(file)
    assert body(event) == {"kind": "api_error", "attempt": 2, "max_retries": 10, "message": "busy"}


def test_notices_carry_what_they_say_and_empty_ones_are_noted() -> None:
    file = File()
    file.add("system", subtype="turn_duration", durationMs=900)
    file.add("system", subtype="informational", content="Model changed.", level="info")
    file.add("system", subtype="session_start", level="info", content=None)
    record = read(file)
    assert [body(e) for e in record.events][1:] == [
        {"kind": "notice", "subtype": "turn_duration", "duration_ms": 900},
        {"kind": "notice", "subtype": "informational", "level": "info", "text": "Model changed."},
    ]
    assert [(note.code, note.detail) for note in record.notes] == [
        ("skipped-record", "type system")
    ]


def test_local_commands_are_reported_as_commands() -> None:
    file = File()
    file.add("system", subtype="local_command", content="<command-name>/cost</command-name>")
    file.add(
        "system",
        subtype="local_command",
        content="<local-command-stdout>3 cents</local-command-stdout>",
    )
    names = {p["actor_id"]: p["name"] for p in read(file).participants}
    command, facts, output = events(file)
    assert (names[command["actor_id"]], command["visibility"]) == ("user", "public")
    assert command["content"]["text"] == "/cost"
    assert facts["content"]["data"]["kind"] == "user_command"
    assert (names[output["actor_id"]], output["visibility"]) == ("Claude Code", "internal")


def test_a_queued_prompt_is_a_persons_word() -> None:
    file = attached(type="queued_command", prompt="also the docs", commandMode="prompt")
    file.add(
        "attachment",
        attachment={
            "type": "queued_command",
            "prompt": "job 7 ended",
            "commandMode": "task-notification",
        },
    )
    prompt = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        "see",
    ]
    file.add("attachment", attachment={"type": "queued_command", "prompt": prompt})
    one, two, three = events(file)
    assert (one["role"], one["visibility"], one["content"]["text"]) == (
        "user",
        "public",
        "also the docs",
    )
    assert (two["role"], two["visibility"]) == ("user", "internal")
    assert three["content"]["data"][0]["sha256"]


def test_an_attachment_is_exported_as_rendered() -> None:
    file = attached(
        type="date",
        newDate="2026-02-03",
        rendered=[{"content": "Today is the 3rd."}],
        renderedRole="user",
    )
    blocks = [{"type": "text", "text": "Skills: none"}]
    file.add(
        "attachment",
        attachment={"type": "skill_listing"},
        rendered=[{"content": blocks}, {"content": 4}],
    )
    assert summarize(file) == ["user: Today is the 3rd.", "system: Skills: none"]
    assert {e["visibility"] for e in events(file)} == {"internal"}


def test_attached_text_is_a_message_and_other_facts_are_not() -> None:
    file = attached(type="nested_memory", path="/p/CLAUDE.md", content={"content": "Use tabs."})
    file.add("attachment", attachment={"type": "todo_reminder", "content": [], "itemCount": 0})
    file.add("attachment", attachment="odd")
    memory, reminder = events(file)
    assert memory["content"]["data"][0]["content"] == {"content": "Use tabs."}
    assert (memory["role"], memory["visibility"]) == ("user", "internal")
    assert body(reminder)["attachment"] == {"type": "todo_reminder", "content": [], "itemCount": 0}


def test_an_attached_image_has_the_form_of_all_media() -> None:
    image = {"type": "image", "file": {"base64": PNG, "type": "image/png", "originalSize": 9}}
    (event,) = events(attached(type="file", filename="a.png", content=image))
    stored = event["content"]["data"][0]["content"]["file"]
    assert (stored["media_type"], stored["bytes"], stored["originalSize"]) == ("image/png", 9, 9)


def test_system_prompt_and_tools_are_exported_once() -> None:
    file = File()
    file.user("hi")
    tools = [{"name": "Bash", "description": "runs", "input_schema": {}}, {"name": "Read"}, 4]
    shape = {"system": [{"type": "text", "text": "You are terse."}], "tools": tools, "hash": "h1"}
    file.bare("api-request-shape", **shape)
    file.bare("api-request-shape", **shape)
    file.bare("api-request-blob", hash="b", message={"role": "user", "content": "hi"})
    file.add(
        "attachment",
        attachment={"type": "prompt_snapshot", "systemPrompt": ["You are terse."], "tools": tools},
    )
    file.bare("api-request-shape", system="You are kind.", tools=tools[:1])
    record = read(file)
    made = list(record.events)[2:]
    assert [(e.get("role"), e["visibility"]) for e in made] == [
        ("system", "internal"),
        (None, "metadata"),
    ] * 2
    assert [e["content"].get("text") or body(e)["tools"] for e in made] == [
        "You are terse.",
        ["Bash", "Read"],
        "You are kind.",
        ["Bash"],
    ]
    assert [(note.code, note.count) for note in record.notes] == [
        ("tool-definitions", 2),
        ("skipped-record", 1),
    ]


def test_a_pull_request_is_annotated() -> None:
    file = File()
    file.user("ship it")
    file.bare(
        "pr-link", prNumber=4, prUrl="https://example.invalid/pull/4", prRepository="kim/shop"
    )
    assert body(events(file)[-1]) == {
        "kind": "pull_request",
        "number": 4,
        "url": "https://example.invalid/pull/4",
        "repository": "kim/shop",
    }


@pytest.mark.parametrize(
    "odd", [None, 3, [], {}, {"type": []}, {"type": "queued_command", "prompt": 5}, {"content": {}}]
)
def test_odd_records_break_nothing(odd: Any) -> None:
    file = File()
    file.user("start")
    for kind in ("system", "attachment", "summary", "ai-title", "api-request-shape", "pr-link"):
        names = (
            "attachment",
            "content",
            "error",
            "compactMetadata",
            "rendered",
            "system",
            "tools",
            "subtype",
            "leafUuid",
        )
        file.add(kind, **dict.fromkeys(names, odd))
        file.add(kind, **dict.fromkeys(names, odd) | {"subtype": "api_error"})
        file.add(kind, **dict.fromkeys(names, odd) | {"subtype": "compact_boundary"})
    assert summarize(file)[0] == "user: start"
