"""Every text of a golden input, found without its reader, is in its export."""

import contextlib
import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import KEY
from helpers.golden_cases import CASES, read_case
from helpers.source_texts import iter_strings, list_texts
from open_token.context import Context
from open_token.errors import InputError
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import list_conversations
from open_token.sources.source import Source
from readers.exported import ALL

NOT_SAID = {
    "antigravity/transcript": "the tags between what a person typed and what the client added, separated",
    "atif/continuation_alone": "only the continuation is opened, and it does not name the files beside it",
    "claude_code/compaction": "the client's own line 'Conversation compacted' at the place that an annotation marks",
    "claude_code/slash_commands": "a reminder that repeats what a person sent in the meantime",
    "copilot_cli/folder": "facts about the workspace, exported as annotations",
    "crush/database": "the title that the client gives to a session that finds a title",
    "crush/database_reference": "the same",
    "cursor/chats_before_composers": "a title of several lines stands on one",
    "goose/database": "times, which are exported in UTC",
    "goose/database_reference": "the same",
    "goose/export": "the description of a recipe, which a note counts",
    "hermes/database": "the mark before a content that is not a text",
    "http_recording/base64_json": "the time of the recording",
    "open_token/odd_values": "a key that the format does not have, which a note counts",
    "open_webui/details": "tags around reasoning and calls, which are exported as such",
    "opencode/database": "the title that the client gives to a subagent's session",
    "opencode/database_branches": "the same",
    "openai_responses/compacted_history": "answers that the client sends back with other quotes",
    "openai_responses/straight_quotes": "answers that the client sends back with other quotes and dashes",
    "openhands/model_log_as_text": "the messages once more, as text for a model without function calling, which a note counts",
    "qwen_code/commands": "an answer that the client makes up for the shortened context, which a note counts",
    "swe_agent/mini": "the part of an output that the model was not shown, which a note counts",
    "swe_agent/mini_text": "a template in the configuration of the run",
    "kiro_cli/database": "the history once more, as lines of plain text",
    "zed/old_thread": "a message of a role that is not known, which a note counts",
}
"""Cases whose inputs hold texts that nobody said, each with the reason."""
SESSIONS = (".json", ".jsonl", ".yaml", ".yml", ".md", ".traj")
"""How the names of files end that hold session; the others are attachments and pages."""


def inputs(case: Path, opened: Path) -> Iterator[bytes]:
    """The bytes of a case in which somebody may speak."""
    given = next(case.glob("input*"))
    if given.name == "input.sql":
        yield from cells(opened)
    elif given.is_dir():
        yield from (
            path.read_bytes()
            for path in sorted(given.rglob("*"))
            if path.is_file() and path.suffix in SESSIONS
        )
    else:
        yield given.read_bytes()


def cells(path: Path) -> Iterator[bytes]:
    """Every text in a database, as JSON."""
    with contextlib.closing(sqlite3.connect(path)) as opened:
        tables = [
            name
            for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            for row in opened.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    is_json = isinstance(cell, bytes) and cell[:1] in (b"{", b"[")
                    if isinstance(cell, str) or is_json:
                        yield json.dumps([cell.decode() if is_json else cell]).encode()


def exported(opened: Path, reader: str) -> set[str]:
    """Every string in the exports of all conversations that a source holds."""
    source = Source.of_folder(opened, opened.name) if opened.is_dir() else Source.of(opened)
    found = list_conversations(source, reader)
    kept: set[str] = set()
    for item in found if len(found) > 1 else [None]:
        source.conversation = item.id if item else None
        out = io.BytesIO()
        try:
            export(source, out, Context(ExportOptions.of(ALL), key=KEY), reader)
        except InputError as problem:
            if problem.code != "input.no-events":
                raise
        else:
            kept.update(iter_strings(json.loads(out.getvalue())))
    return kept


def lost(case: Path, made: Path) -> list[str]:
    """What is said in the input of a case and does not stand in its exports."""
    opened, _ = read_case(case, made)
    kept = exported(opened, case.parent.name)
    whole = "\0".join(kept)
    said = dict.fromkeys(
        text for data in inputs(case, opened) for text in list_texts(data, case.parent.name)
    )
    return [text for text in said if text not in kept and text not in whole]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_nothing_that_is_said_is_lost(case: Path, tmp_path: Path) -> None:
    missing = lost(case, tmp_path)
    assert bool(missing) == (f"{case.parent.name}/{case.name}" in NOT_SAID), missing


def test_the_walk_finds_what_a_reader_forgets() -> None:
    record = {
        "type": "user",
        "message": {"content": [{"type": "novel", "words": "nobody knows this block yet"}]},
    }
    assert list(list_texts(json.dumps(record).encode(), "claude_code")) == [
        "nobody knows this block yet"
    ]
