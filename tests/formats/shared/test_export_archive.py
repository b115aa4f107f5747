"""Where the conversations of an export lie: lists, objects, lines, zips, folders; ids, choices,
files beside them."""

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.export_assets import Assets, detect_media_type
from open_token.registry import READERS, detect_format
from open_token.sources.source import Source

READER = READERS["claude_ai_export"]

ASSET = re.compile(r"(file-[A-Za-z0-9]+)")


def build_conversation(name: str | None, *texts: str) -> dict[str, Any]:
    messages = [{"sender": "human", "text": text} for text in texts]
    return {**({"uuid": name} if name else {}), "chat_messages": messages}


def source(value: Any) -> Source:
    return Source("export", data=value if isinstance(value, bytes) else json.dumps(value).encode())


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


def ids(value: Any) -> list[str]:
    return [found.id for found in READER.list_conversations(source(value))]


def test_ids_are_unique_and_numbers_where_there_are_none() -> None:
    names = ids(
        [
            build_conversation("a"),
            build_conversation(None),
            build_conversation("a"),
            build_conversation("a"),
            5,
            build_conversation(None),
        ]
    )
    assert len(set(names)) == len(names) == 5
    assert names[:2] == ["a", "2"]


@pytest.mark.parametrize(
    "value",
    [
        [build_conversation("a", "x"), build_conversation("b", "y")],
        {"conversations": [build_conversation("a", "x"), build_conversation("b", "y")]},
        b'{"uuid":"a","chat_messages":[]}\n{"uuid":"b","chat_messages":[]}\n',
        b'{"uuid":"a",\n"chat_messages":[]}\n{"uuid":"b",\n"chat_messages":[]}\n',
        packed(
            {
                "x/conversations.json": json.dumps(
                    [build_conversation("a"), build_conversation("b")]
                ).encode()
            }
        ),
        packed(
            {
                "conversations-000.json": b'[{"uuid":"a","chat_messages":[]}]',
                "conversations-001.json": b'[{"uuid":"b","chat_messages":[]}]',
            }
        ),
    ],
    ids=["list", "object", "lines", "glued", "zip", "split"],
)
def test_wherever_they_lie(value: Any) -> None:
    assert READER.sniff(source(value))
    assert ids(value) == ["a", "b"]


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "conversations.json").write_text(
        json.dumps([build_conversation("a", "x"), build_conversation("b", "y")])
    )
    (tmp_path / "users.json").write_text("[]")
    folder = Source.of_folder(tmp_path)
    assert detect_format(folder) == "claude_ai_export"
    folder.conversation = "b"
    draft = Draft()
    READER.read(folder, draft)
    record = draft.finish(lambda: "0" * 64)
    assert [event["content"]["text"] for event in record.events] == ["y"]
    assert [(note.code, note.count) for note in record.notes] == [("other-file", 1)]


@pytest.mark.parametrize(
    "value", [[], [1], {}, {"conversations": []}, [{"mapping": {}}], packed({"a.json": b"[]"})]
)
def test_other_values_are_not_claimed(value: Any) -> None:
    assert not READER.sniff(source(value))


def test_which_part_is_whose() -> None:
    values = [build_conversation("a"), build_conversation(None), build_conversation("a")]
    given = source(values)
    claims = [READER.find_owner(given, f"/{number}", value) for number, value in enumerate(values)]
    assert claims == [found.id for found in READER.list_conversations(given)]
    assert READER.find_owner(given, "/9", 5) is None
    assert READER.find_owner(given, "users.json", None) is None


def test_an_empty_export_is_an_error() -> None:
    with pytest.raises(InputError) as caught:
        READER.read(source([]), Draft())
    assert caught.value.code == "input.no-events"


def test_an_empty_conversation_among_others_is_reported() -> None:
    given = source([build_conversation("a", "x"), build_conversation("b")])
    given.conversation = "b"
    draft = Draft()
    READER.read(given, draft)
    assert [
        event["content"]["data"]["kind"] for event in draft.finish(lambda: "0" * 64).events
    ] == ["notice"]


def test_files_of_a_zip_are_found_and_not_held() -> None:
    given = source(
        packed({"x.json": b"[]", "file-A1-one.png": b"one", "dalle/file-B2.webp": b"two"})
    )
    assets = Assets(given, ASSET)
    assert assets.get("file-A1") == b"one"
    assert assets.get("file-B2") == b"two"
    assert assets.get("file-C3") is None
    assert given.family == [given]


def test_files_of_a_folder_and_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file-A1.bin").write_bytes(b"one")
    (tmp_path / "file-B2.bin").write_bytes(b"two")
    (tmp_path / "conversations.json").write_text("[]")
    folder = Source.of_folder(tmp_path)
    assert Assets(folder, ASSET).get("file-A1") == b"one"
    assert folder.family == [folder]
    alone = Assets(Source.of(tmp_path / "conversations.json"), ASSET, beside="file*")
    assert alone.get("file-B2") == b"two"
    assert alone.get("file-A1") is None
    assert Assets(source([]), ASSET, beside="file*").get("file-A1") is None


def test_a_damaged_file_is_missing() -> None:
    data = packed({"file-A1.bin": b"some words that are packed" * 9})
    broken = bytearray(data)
    place = data.index(b"file-A1.bin") + 12
    broken[place : place + 8] = b"\xff" * 8
    assert Assets(source(bytes(broken)), ASSET).get("file-A1") is None


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", "audio/wav"),
        (b"\0\0\0\x18ftypmp42", "video/mp4"),
        (b"%PDF-1.7", "application/pdf"),
        (b"words", None),
        (b"", None),
    ],
)
def test_types_are_reported_by_the_first_bytes(start: bytes, kind: str | None) -> None:
    assert detect_media_type(start) == kind
