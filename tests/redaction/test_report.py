"""The account of a redaction counts every marker by type, wherever the value was."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from open_token.context import Context
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.redaction.markers import MARKER
from open_token.redaction.redactor import redact
from open_token.redaction.report import build_redaction
from open_token.redaction.rule_catalogue import fill_placeholders


def draw(placeholder: str, seed: str) -> str:
    return fill_placeholders(placeholder, seed)[0]


GITHUB = draw("ghp_{alnum:36}", "one")
OTHER_GITHUB = draw("ghp_{alnum:36}", "two")
SLACK = draw("xoxb-{digit:12}-{digit:12}-{alnum:24}", "three")
EMAIL = draw("{word:5}.{word:7}@mail.test", "four")
CARD = draw("{cardspaced:4,16}", "five")


def build_event(number: int, type: str, content: dict[str, Any]) -> Event:
    event: Any = {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": type,
        "actor_id": "act_001",
        "visibility": "public",
        "content": content,
    }
    return event


def build_record() -> Record:
    """Plant values in a title, a participant, texts, a tool call and native data."""
    native = {
        "kind": "native",
        "reader": "claude_code",
        "value": {"env": {"GITHUB_TOKEN": GITHUB}, "log": f"sent to {EMAIL}"},
    }
    events = [
        build_event(1, "message", {"mime": "text/plain", "text": f"use {GITHUB}, or {GITHUB}"}),
        build_event(2, "message", {"mime": "text/plain", "text": f"the other is {OTHER_GITHUB}"}),
        build_event(
            3,
            "tool_use",
            {
                "mime": "application/json",
                "data": {"tool_name": "post", "arguments": {"text": f"token {SLACK}"}},
            },
        ),
        build_event(4, "message", {"mime": "text/plain", "text": f"pay with card {CARD}"}),
        build_event(5, "message", {"mime": "text/plain", "text": "nothing to mask here"}),
        build_event(6, "annotation", {"mime": "application/json", "data": native}),
    ]
    return Record(
        conversation={"id": "conv_1", "title": f"why does {GITHUB} fail for {EMAIL}"},
        participants=[{"actor_id": "act_001", "kind": "human", "name": EMAIL}],
        events=events,
    )


def count_markers_by_type(record: Record) -> Counter[str]:
    parts = [record.conversation, record.participants, list(record.events)]
    return Counter(match["type"] for match in MARKER.finditer(json.dumps(parts)))


def redact_with(record: Record, cache: Path, level: str, strategy: str = "mask") -> Record:
    options = ExportOptions(redact=level, strategy=strategy)
    return redact(record, Context(options, key=bytes(range(32)), rule_cache=cache))


@pytest.mark.parametrize("strategy", ["mask", "hash", "drop"])
def test_notes_count_every_planted_value_by_type(tmp_path: Path, strategy: str) -> None:
    masked = redact_with(build_record(), tmp_path, "pii", strategy)
    notes = masked.conversation["redaction"]["notes"]
    counts = [note for note in notes if note.startswith("masked ")]
    assert counts == [
        "masked 1 card (1 distinct value)",
        "masked 3 email (1 distinct value)",
        "masked 5 github_token (2 distinct values)",
        "masked 1 slack_token (1 distinct value)",
    ]
    assert count_markers_by_type(masked) == Counter(card=1, email=3, github_token=5, slack_token=1)


def test_notes_of_a_lower_level_count_only_its_types(tmp_path: Path) -> None:
    masked = redact_with(build_record(), tmp_path, "secrets")
    assert masked.conversation["redaction"]["notes"] == [
        "masked 5 github_token (2 distinct values)",
        "masked 1 slack_token (1 distinct value)",
    ]
    assert count_markers_by_type(masked) == Counter(github_token=5, slack_token=1)


def test_a_second_redaction_adds_to_the_counts_of_the_first(tmp_path: Path) -> None:
    first = redact_with(build_record(), tmp_path, "secrets")
    second = redact_with(
        Record(first.conversation, first.participants, list(first.events)), tmp_path, "pii"
    )
    redaction = second.conversation["redaction"]
    assert redaction["mode"] == "pii"
    assert [note for note in redaction["notes"] if note.startswith("masked ")] == [
        "masked 5 github_token (2 distinct values)",
        "masked 1 slack_token (1 distinct value)",
        "masked 1 card (1 distinct value)",
        "masked 3 email (1 distinct value)",
    ]


def test_counts_of_types_with_points_are_added() -> None:
    before: Any = {"mode": "secrets", "notes": ["masked 2 acme.key (1 distinct value)", "by hand"]}
    after = build_redaction(
        before, "secrets", "mask", Counter({"acme.key": 3}), {"acme.key": 1}, []
    )
    assert after is not None
    assert after["notes"] == ["masked 5 acme.key (2 distinct values)", "by hand"]
