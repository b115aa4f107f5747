"""Small Codex rollouts of our own, line by line, and what a test asks of the events they become."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Event, Record
from open_token.registry import READERS
from open_token.sources.source import Source

READER = READERS["codex"]

ME, CHILD, GRANDCHILD = (f"0199c0de-{n:04d}-7000-8000-000000000000" for n in (1, 2, 3))
TS = "2026-03-02T09:00:00.000Z"


def line(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": TS, "type": kind, "payload": payload}


def meta(session: str = ME, **more: Any) -> dict[str, Any]:
    return line(
        "session_meta",
        id=session,
        timestamp=TS,
        cwd="/w",
        originator="codex_cli_rs",
        cli_version="0.104.0",
        **more,
    )


def turn(**more: Any) -> dict[str, Any]:
    return line(
        "turn_context",
        **{"cwd": "/w", "model": "gpt-5.2", "effort": "high", "approval_policy": "never", **more},
    )


def event(kind: str, /, **payload: Any) -> dict[str, Any]:
    return line("event_msg", type=kind, **payload)


def user(text: str) -> dict[str, Any]:
    return line(
        "response_item", type="message", role="user", content=[{"type": "input_text", "text": text}]
    )


def said(text: str) -> dict[str, Any]:
    return line(
        "response_item",
        type="message",
        role="assistant",
        content=[{"type": "output_text", "text": text}],
    )


def thought(*summary: str, sealed: str | None = "gAAAA") -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return line(
        "response_item", type="reasoning", summary=parts, content=None, encrypted_content=sealed
    )


def call(call_id: str, name: str = "exec_command", **arguments: Any) -> dict[str, Any]:
    return line(
        "response_item",
        type="function_call",
        name=name,
        arguments=json.dumps(arguments),
        call_id=call_id,
    )


def output(call_id: str, text: Any) -> dict[str, Any]:
    return line("response_item", type="function_call_output", call_id=call_id, output=text)


def count(spent: int, total: int) -> dict[str, Any]:
    def tokens(n: int) -> dict[str, int]:
        return {
            "input_tokens": n,
            "cached_input_tokens": n // 2,
            "output_tokens": 3,
            "reasoning_output_tokens": 1,
        }

    return event(
        "token_count",
        info={"total_token_usage": tokens(total), "last_token_usage": tokens(spent)},
        rate_limits=None,
    )


def source(records: list[Any]) -> Source:
    return Source(
        "rollout.jsonl", data=b"".join(json.dumps(record).encode() + b"\n" for record in records)
    )


def read(*records: Any, at: Path | None = None, **options: str) -> tuple[Record, list[Event]]:
    draft = Draft(**options)  # type: ignore[arg-type]
    READER.read(Source.of(at) if at else source(list(records)), draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def body(item: Event) -> Any:
    return item["content"]["text"] if "text" in item["content"] else item["content"]["data"]


def summarize_content(events: list[Event]) -> list[tuple[str, Any]]:
    """All that is not an annotation, by role or type."""
    return [
        (item.get("role", item["type"]), body(item))
        for item in events
        if item["type"] != "annotation"
    ]


def notes(events: list[Event], kind: str) -> list[dict[str, Any]]:
    return [
        body(item) for item in events if item["type"] == "annotation" and body(item)["kind"] == kind
    ]


def assert_paired(events: list[Event]) -> None:
    orphans = {
        item["links"]["parent_id"]
        for item in events
        if item["type"] == "annotation" and body(item).get("kind") == "orphan_result"
    }
    uses = Counter(item["links"]["call_id"] for item in events if item["type"] == "tool_use")
    results = Counter(
        item["links"]["call_id"]
        for item in events
        if item["type"] == "tool_result" and item["id"] not in orphans
    )
    assert uses == results
    assert all(number == 1 for number in uses.values())


END: dict[str, Any] = {
    "call_id": "a",
    "command": ["bash", "-lc", "ls"],
    "cwd": "/w",
    "aggregated_output": "cut …",
    "exit_code": 1,
    "duration": {"secs": 2, "nanos": 500000000},
    "status": "failed",
}
"""The end of call `a` as an event reports it."""
