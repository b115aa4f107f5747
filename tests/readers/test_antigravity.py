"""Antigravity CLI: transcripts, what the client adds to prompts, texts that were cut short."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from open_token.agents.antigravity.detect import sniff, split_user_input
from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.session_files import GOLDEN

READER = READERS["antigravity"]
INPUT = GOLDEN / "antigravity/transcript/input"
LOGS = Path("brain/4d1f2c9e-0000-4000-8000-00000000a001/.system_generated/logs")


def lines(*records: Any) -> Source:
    return Source("session", data=b"".join(json.dumps(item).encode() + b"\n" for item in records))


def step(number: int, kind: str, source: str = "MODEL", **fields: Any) -> dict[str, Any]:
    return {"step_index": number, "source": source, "type": kind, "status": "DONE", **fields}


def test_it_is_found_with_its_id_and_title(tmp_path: Path) -> None:
    shutil.copytree(INPUT, tmp_path / ".gemini/antigravity-cli")
    discovery = Discovery({}, tmp_path)
    (session,) = [discovery.inspect(item) for item in discovery.sessions()]
    assert session.reader == "antigravity"
    assert session.id == "4d1f2c9e-0000-4000-8000-00000000a001"
    assert session.title == "Which seeds are left?"


def test_nobody_else_claims_it() -> None:
    assert detect_format(Source.of(INPUT / LOGS / "transcript.jsonl")) == "antigravity"


@pytest.mark.parametrize(
    "record",
    [
        {"step_index": 0, "type": "USER_INPUT", "source": "somebody"},
        {"step_index": "0", "type": "USER_INPUT", "source": "MODEL"},
        {"step_index": 0, "type": "input", "source": "MODEL"},
        {"type": "USER_INPUT", "source": "MODEL"},
        [1],
    ],
)
def test_other_steps_are_not_claimed(record: Any) -> None:
    assert not sniff(lines(record))


def test_a_cut_text_without_the_full_file_is_noted(tmp_path: Path) -> None:
    shutil.copytree(INPUT, tmp_path / "input")
    (tmp_path / "input" / LOGS / "transcript_full.jsonl").unlink()
    draft = Draft()
    READER.read(Source.of(tmp_path / "input" / LOGS / "transcript.jsonl"), draft)
    record = draft.finish(lambda: "0" * 64)
    assert {note.code: note.count for note in record.notes}["stored-cut-short"] == 2


@pytest.mark.parametrize(
    ("content", "typed", "added"),
    [
        ("plain", "plain", ""),
        ("<USER_REQUEST>a</USER_REQUEST>", "a", ""),
        ("<USER_REQUEST>a</USER_REQUEST> b</USER_REQUEST>c", "a</USER_REQUEST> b", "c"),
        ("a\n<ADDITIONAL_METADATA>b</ADDITIONAL_METADATA>", "a", "<ADDITIONAL_METADATA>b</ADDITIONAL_METADATA>"),
        ("</USER_REQUEST>a<USER_REQUEST>", "</USER_REQUEST>a<USER_REQUEST>", ""),
    ],
)  # fmt: skip
def test_what_was_typed(content: str, typed: str, added: str) -> None:
    assert split_user_input(content) == (typed, added)


@pytest.mark.parametrize(
    "record",
    [
        step(1, "USER_INPUT", "USER_EXPLICIT", content=7),
        step(1, "PLANNER_RESPONSE", tool_calls=[7, {"name": ""}]),
        step(1, "PLANNER_RESPONSE", tool_calls="x", truncated_fields="y"),
        step(1, "VIEW_FILE", content={"a": 1}, truncated_fields=[7]),
        step(1, "CHECKPOINT", "SYSTEM", content=["x"]),
        7,
    ],
)
def test_odd_steps_do_not_stop_it(record: Any) -> None:
    draft = Draft()
    READER.read(lines(step(0, "USER_INPUT", "USER_EXPLICIT", content="Sow"), record), draft)
    assert draft.finish(lambda: "0" * 64).events
