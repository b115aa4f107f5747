"""Sessions of Cline's command line: the same session by its folder, agents that were left out, odd
values, the list."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.library.discovery import Discovery
from open_token.model.document import Event
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source
from readers.odd_values import iter_mangled
from readers.provider_readers import summarize_events

READER = READERS["cline"]

NAME = "1793696400000_ab12c"
FOLDER = Path(__file__).parent.parent / "golden" / "cline" / "session" / "input" / NAME
MAIN = FOLDER / f"{NAME}.messages.json"


def read_events(source: Source, **options: Any) -> list[Event]:
    assert READER.sniff(source)
    draft = Draft(**options)
    READER.read(source, draft)
    return list(draft.finish(lambda: "0" * 64).events)


def test_no_other_reader_claims_it() -> None:
    assert detect_format(Source.of(MAIN)) == "cline"


def test_a_session_by_its_folder() -> None:
    assert summarize_events(read_events(Source.of_folder(FOLDER))) == summarize_events(
        read_events(Source.of(MAIN))
    )


def test_references_and_omission() -> None:
    spans = [
        event
        for event in read_events(Source.of(MAIN), subagents="reference")
        if event["type"] == "span_start"
    ]
    assert [event["content"]["data"]["file"] for event in spans][
        -1
    ] == "agent_1793696409000_cccccc.messages.json"
    assert not [
        event
        for event in read_events(Source.of(MAIN), subagents="none")
        if event["type"] == "span_start"
    ]


def test_a_damaged_file_of_a_subagent(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / NAME)
    (tmp_path / NAME / "mate__Xy12Zz.messages.json").write_text("{")
    (tmp_path / NAME / f"{NAME}.json").unlink()
    assert ("user", "Walk the fence.") not in summarize_events(
        read_events(Source.of(tmp_path / NAME / MAIN.name))
    )


def test_peek_gives_directory_and_title(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / ".cline/data/sessions" / NAME)
    found = Discovery({}, tmp_path)
    [row] = [found.inspect(session) for session in found.sessions()]
    assert (row.id, row.cwd, row.title) == (NAME, "/srv/farm", "The gate of the farm")
    (tmp_path / ".cline/data/sessions" / NAME / f"{NAME}.json").unlink()
    found = Discovery({}, tmp_path)
    [row] = [found.inspect(session) for session in found.sessions()]
    assert (row.id, row.cwd, row.title) == (NAME, None, "Is the gate shut?")


@pytest.mark.parametrize("name", [MAIN.name, "mate__Xy12Zz.messages.json"])
def test_odd_values_do_not_fail(name: str) -> None:
    for odd in iter_mangled(json.loads((FOLDER / name).read_text())):
        source = Source("x", data=json.dumps(odd).encode())
        if READER.sniff(source):
            read_events(source)


def test_an_odd_manifest_does_not_fail(tmp_path: Path) -> None:
    shutil.copyfile(MAIN, tmp_path / MAIN.name)
    for odd in iter_mangled(json.loads((FOLDER / f"{NAME}.json").read_text())):
        (tmp_path / f"{NAME}.json").write_text(json.dumps(odd))
        read_events(Source.of(tmp_path / MAIN.name))
        READER.peek([odd])
