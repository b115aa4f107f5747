"""Session files in lines: how the tests of command line agents write, read and mangle them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.model.document import Event, Record
from open_token.registry import detect_format
from open_token.sources.source import Source
from readers.exported import documents, words
from readers.odd_shapes import iter_misshapen

GOLDEN = Path(__file__).parent.parent / "golden"


def lines(*records: Any) -> bytes:
    """Records as JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def laid_out(folder: Path, **files: Any) -> Path:
    """A folder with files of JSON lines, or of one value where that is no list; gives the
    folder."""
    for name, records in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            lines(*records) if isinstance(records, list) else json.dumps(records).encode()
        )
    return folder


def read_file(reader: ModuleType, path: Path, **options: Any) -> tuple[Record, list[Event]]:
    """What a reader makes of a file."""
    draft = Draft(**options)
    reader.read(Source.of(path), draft)
    record = draft.finish(lambda: "0" * 64)
    return record, list(record.events)


def facts(events: list[Event], kind: str) -> list[dict[str, Any]]:
    """The annotations of a kind."""
    held = [event["content"]["data"] for event in events if event["type"] == "annotation"]
    return [data for data in held if data["kind"] == kind]


def summarize_messages(events: list[Event]) -> list[tuple[str, str, Any]]:
    """Role, visibility and words of each message."""
    said = [event for event in events if event["type"] == "message"]
    return [
        (
            event["role"],
            event["visibility"],
            event["content"].get("text", event["content"].get("data")),
        )
        for event in said
    ]


def assert_paired(events: list[Event]) -> None:
    """Every call has one result, and every result its call."""
    calls = [event["links"]["call_id"] for event in events if event["type"] == "tool_use"]
    results = [event["links"]["call_id"] for event in events if event["type"] == "tool_result"]
    assert sorted(calls) == sorted(results)
    assert len(set(calls)) == len(calls)


def golden_records(reader: str) -> Iterator[list[Any]]:
    """The records of every golden input of a reader that lies alone."""
    for path in sorted((GOLDEN / reader).glob("*/input.*")):
        text = path.read_text()
        yield (
            [json.loads(text)]
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines()]
        )


def assert_takes_odd_shapes(reader: ModuleType, name: str) -> None:
    """Any value in any field of a golden input: an export that pairs, or an error of
    ours."""
    tried = 0
    for records in golden_records(name):
        for made in iter_misshapen(records):
            source = Source(
                "odd", data=lines(*made) if isinstance(made, list) else json.dumps(made).encode()
            )
            draft = Draft(branches="all")
            try:
                reader.sniff(source)
                reader.peek(source.sample)
                reader.read(source, draft)
            except InputError:
                continue
            list(draft.finish(lambda: "0" * 64).events)
            tried += 1
    assert tried > 100


def assert_whole(
    path: Path, reader: str, names: tuple[str, ...], within: Callable[[Any], bool] = bool
) -> None:
    """A real file is claimed by its reader alone, and all words under these names are in its
    export."""
    assert detect_format(Source.of(path)) == reader
    made = list(documents(Source.of(path)))
    everything = "\n".join(words(made))
    text = path.read_text(encoding="utf-8")
    records = (
        [json.loads(text)]
        if text.startswith("{\n")
        else [json.loads(line) for line in text.splitlines()]
    )
    wanted = [text for record in records for text in _under(record, names) if within(text)]
    assert wanted
    assert [text for text in wanted if text.strip() not in everything] == []
    for document in made:
        assert_paired(document["events"])


def _under(value: Any, names: tuple[str, ...], inside: bool = False) -> Iterator[str]:
    """The texts that stand under one of these names, at any depth below it."""
    if isinstance(value, str):
        if inside:
            yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _under(item, names, inside or name in names)
    elif isinstance(value, list):
        for item in value:
            yield from _under(item, names, inside)
