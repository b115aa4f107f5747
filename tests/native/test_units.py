"""Every piece of a source is a unit: lines, items, rows, members, blocks, bytes."""

import contextlib
import io
import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

from helpers.fake_reader import FakeReader
from open_token.model.document import Found
from open_token.native.units import NOBODY, iter_owned_units, iter_parts
from open_token.sources.source import Source


def list_units(source: Source, split: str | None = None) -> list[Any]:
    return [
        (part.file, part.shape, [(unit.number, unit.at, unit.value) for unit in part.units()])
        for part in iter_parts(source, split)
    ]


def of(data: bytes) -> Source:
    return Source("session", data=data)


def test_lines_keep_their_numbers() -> None:
    assert list_units(of(b'{"a":1}\n\n{"b":2}\n')) == [
        ("", "lines", [(1, "", {"a": 1}), (3, "", {"b": 2})])
    ]


def test_a_list_and_glued_values() -> None:
    assert list_units(of(b'[{"a":1},2]')) == [("", "list", [(1, "", {"a": 1}), (2, "", 2)])]
    assert list_units(of(b'{\n"a":1}\n{\n"b":2}')) == [
        ("", "glued", [(1, "", {"a": 1}), (2, "", {"b": 2})])
    ]


def test_a_document_is_a_shell_and_its_lists() -> None:
    document = {
        "head": 1,
        "session": [{"say": "a"}, {"say": "b"}],
        "empty": [],
        "numbers": [1],
        "other": [{"x": 1}],
    }
    (part,) = iter_parts(of(json.dumps(document, indent=1).encode()))
    assert part.facts == {"lists": {"session": 2, "other": 1}}
    shell = {"head": 1, "session": [], "empty": [], "numbers": [1], "other": []}
    assert [(unit.number, unit.at, unit.place, unit.value) for unit in part.units()] == [
        (1, "", 0, shell),
        (2, "session", 0, {"say": "a"}),
        (3, "session", 1, {"say": "b"}),
        (4, "other", 0, {"x": 1}),
    ]


def test_rows(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "session.db")) as made:
        made.executescript(
            "CREATE TABLE a (x, y); CREATE TABLE b (z); INSERT INTO a VALUES (1, x'00'); INSERT INTO b VALUES ('t');"
        )
    (part,) = iter_parts(Source.of(tmp_path / "session.db"))
    assert part.facts["columns"] == {"a": ["x", "y"], "b": ["z"]}
    assert [(unit.at, unit.value) for unit in part.units()] == [("a", [1, b"\0"]), ("b", ["t"])]


def test_members_of_a_zip() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("b.json", '{\n"a": 1}')
        made.writestr("image.png", b"\x89PNG\0\xff")
    first, second, third = list_units(of(out.getvalue()))
    assert first == ("", "zip", [])
    assert second == ("!b.json", "document", [(1, "", {"a": 1})])
    assert third == ("!image.png", "bytes", [(1, "", b"\x89PNG\0\xff")])


def test_text_is_cut_where_reported_and_never_too_long() -> None:
    text = "before\n# one\n" + "word\n" * 40_000 + "# two\nend"
    blocks = [value for _, _, value in list_units(of(text.encode()), "^# ")[0][2]]
    assert "".join(blocks) == text
    assert blocks[0] == "before\n"
    assert blocks[-1] == "# two\nend"
    assert max(map(len, blocks)) <= 1 << 16


def test_a_saved_stream_is_its_text() -> None:
    data = b'event: a\ndata: {"a":1}\n\nevent: b\ndata: {"b":2}\n\n'
    ((_, shape, units),) = list_units(of(data))
    assert shape == "text"
    assert "".join(value for _, _, value in units).encode() == data
    assert len(units) == 2


def test_all_that_was_read_is_reported_and_nothing_else(tmp_path: Path) -> None:
    for name in ("main.jsonl", "sub/child.jsonl", "stranger.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"name": name}) + "\n")
    source = Source.of(tmp_path / "main.jsonl")
    for other in source.find_siblings("**/*.jsonl"):
        if "child" in other.name:
            list(other.records())
    assert [file for file, _, _ in list_units(source)] == ["", "sub/child.jsonl"]


def test_every_unit_is_somebodys_but_what_no_export_may_keep() -> None:
    # A reader of lines, each of which names the conversation it belongs to.
    reader = FakeReader(
        "shelves",
        {
            "list_conversations": lambda source: [Found("a"), Found("b")],
            "find_owner": lambda source, position, value: value["of"],
        },
    )
    data = [{"of": name} for name in ("a", "b", None, "unknown", NOBODY)]
    source = Source("x", data=b"".join(json.dumps(item).encode() + b"\n" for item in data))

    def kept(name: str | None) -> list[Any]:
        source.conversation = name
        return [unit.value["of"] for _, units in iter_owned_units(source, reader) for unit in units]

    assert kept("a") == ["a", None, "unknown"]
    assert kept("b") == ["b"]
    assert kept(None) == ["a", "b", None, "unknown"]
