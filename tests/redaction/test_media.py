"""Images and files: dropped or kept as asked, counted, and nowhere left when dropped."""

import base64
import hashlib
import io
import json
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from open_token.context import Context
from open_token.jsontools.media import build_media_block
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.redaction.live import LiveRedaction
from open_token.redaction.marker_factory import build_drop_factory
from open_token.redaction.media import MediaRemoval, count_media
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.sources.source import Source
from open_token.validation.validate import validate

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 6).decode()
PDF = base64.b64encode(b"%PDF-1.7" + bytes(range(256))).decode()
WORDS = "Please look at the picture of the garden."


def session() -> bytes:
    """A prompt with an image, a result with another form of it, and one in a text."""
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    image = {"type": "image", "source": source}
    call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file": "a.png"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [image]}
    output = f"It is data:image/png;base64,{PNG} here."
    rows = [
        ("user", [{"type": "text", "text": WORDS}, image]),
        ("assistant", [call]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": output}]),
    ]
    lines = []
    for number, (role, content) in enumerate(rows):
        record: dict[str, Any] = {
            "type": role,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": "s",
            "message": {"role": role, "content": content},
            "toolUseResult": {"file": {"base64": PNG, "type": "image/png"}},
        }
        lines.append(json.dumps(record) + "\n")
    return "".join(lines).encode()


def exported(**words: str) -> dict[str, Any]:
    out = io.BytesIO()
    context = Context(ExportOptions.of({"exported_at": "omit", **words}), key=bytes(32))
    export(Source("session", data=session()), out, context, "claude_code")
    document: dict[str, Any] = json.loads(out.getvalue())
    assert [item for item in validate(document) if item.severity == "error"] == []
    return document


def unpacked(document: dict[str, Any]) -> str:
    """The document with its native data expanded."""
    from open_token.native.compression import expand_event

    return json.dumps([expand_event(event) for event in document["events"]])


@pytest.mark.parametrize("native", ["none", "full"])
@pytest.mark.parametrize(
    ("words", "is_dropped"),
    [
        ({"redact": "none"}, False),
        ({"redact": "secrets"}, False),
        ({"redact": "pii"}, True),
        ({"redact": "strict"}, True),
        ({"redact": "none", "images": "drop"}, True),
        ({"redact": "secrets", "images": "drop"}, True),
        ({"redact": "pii", "images": "keep"}, False),
    ],
)
def test_images_are_dropped_or_kept(words: dict[str, str], is_dropped: bool, native: str) -> None:
    document = exported(native=native, **words)
    everything = unpacked(document)
    assert (PNG[:80] not in everything) == is_dropped
    assert (PNG[-80:] not in everything) == is_dropped
    if is_dropped:
        assert "[REDACTED:image:" in everything
        # A hash would still tell which image it was.
        assert "sha256" not in everything
    if words["redact"] != "strict":
        assert WORDS in everything


def test_the_account_counts_them() -> None:
    (kept,) = exported(redact="secrets")["conversation"]["redaction"]["notes"]
    assert kept == "kept 2 images or files, not searched"
    notes = exported(redact="secrets", images="drop")["conversation"]["redaction"]["notes"]
    assert notes == ["masked 3 image (2 distinct values)"]
    assert "redaction" not in exported(redact="none")["conversation"]
    assert exported(redact="none", images="drop")["conversation"]["redaction"]["mode"] == "none"


def test_a_placeholder_says_what_it_stands_for() -> None:
    removal = MediaRemoval(build_drop_factory())
    block = build_media_block("image/png", PNG, "image")
    event: Any = {"content": {"mime": "application/json", "data": [block, {"x": 1}]}}
    placeholder, other = removal.clean_event(event)["content"]["data"]
    assert placeholder == {
        "type": "image",
        "media_type": "image/png",
        "bytes": 1544,
        "redacted": "[REDACTED:image:00000000]",
    }
    assert other == {"x": 1}
    assert (count_media([event]), count_media([removal.clean_event(event)])) == (1, 0)


@pytest.mark.parametrize(
    "value",
    [
        {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
        {"$bytes": PDF},
        f"before {PDF} after",
        json.dumps({"deep": json.dumps({"data": PDF})}),
        PDF.replace("/", "\\/"),
        "\n".join(PDF[start : start + 76] for start in range(0, len(PDF), 76)),
        {"list": [[f"data:application/pdf;name=a.pdf;base64,{PDF}"]]},
        {"mime_type": "application/x-unknown", "data": "QUJD" * 40},
    ],
)
def test_binary_data_is_found_in_every_form(value: Any) -> None:
    removal = MediaRemoval(build_drop_factory())
    event: Any = {"content": {"mime": "application/json", "data": value}}
    cleaned = json.dumps(removal.clean_event(event))
    assert "[REDACTED:file:00000000]" in cleaned
    for part in (PDF[:60], PDF[100:160], PDF[200:260], "QUJDQUJD"):
        assert part not in cleaned.replace("\\", "")
    assert removal.counts == {"file": 1}


@pytest.mark.parametrize(
    "value",
    ["/9j/ is how a JPEG begins", "SUQz" + "a" * 20, {"data": "words " * 20}, {"data": PDF[:8]}, 7],
)
def test_what_is_no_binary_data_stays(value: Any) -> None:
    event: Any = {"content": {"mime": "application/json", "data": value}}
    assert MediaRemoval(build_drop_factory()).clean_event(event) is event


def test_images_in_a_stream_that_goes_on_are_dropped() -> None:
    live = LiveRedaction(Context(ExportOptions.of({"redact": "pii"}), key=bytes(32)))
    block = build_media_block("image/png", PNG, "image")
    event: Any = {
        "id": "evt_000001",
        "seq": 1,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": {"mime": "application/json", "data": [block]},
    }
    (masked,) = live.redact_events([event], "conv")
    assert PNG not in json.dumps(masked)
    from open_token.model.document import Record

    ended = live.redact_metadata(Record(conversation={"id": "conv"}, participants=[], events=[]))
    assert "masked 1 image (1 distinct value)" in ended.conversation["redaction"]["notes"]


@pytest.mark.parametrize(
    "text",
    ["data:image/png;base64," * 20_000, "iVBORw0KGgo" * 40_000, "/9j" * 100_000, "\\/" * 200_000],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    event: Any = {"content": {"mime": "text/plain", "text": text}}
    MediaRemoval(build_drop_factory()).clean_event(event)
    assert time.process_time() - started < 2


def test_a_project_cannot_keep_images(tmp_path: Path) -> None:
    from open_token.settings import _keep_stricter

    assert _keep_stricter({"images": "keep"}, "pii") == {}
    assert _keep_stricter({"images": "drop"}, "none") == {"images": "drop"}


def test_an_export_with_kept_images_is_exported_again_as_it_is() -> None:
    words = {"exported_at": "omit", "redact": "pii", "images": "keep"}
    event = {
        "type": "user.message",
        "data": {"attachments": [{"path": "/home/ada/or"}, {"data": PNG, "mimeType": "image/png"}]},
        "id": "1",
        "timestamp": "2026-01-01T00:00:00Z",
        "parentId": None,
    }
    data = json.dumps(event).encode() + b"\n"
    exports = []
    for reader in ("copilot_cli", "open_token"):
        out = io.BytesIO()
        context = Context(ExportOptions.of(words), key=bytes(32))
        export(Source("session", data=data), out, context, reader)
        data = out.getvalue()
        exports.append(data)
    notes = json.loads(data)["conversation"]["redaction"]["notes"]
    assert [note.split()[0] for note in notes] == ["kept", "masked"]
    assert exports[0] == exports[1]


SECRET = fill_placeholders("ghp_{alnum:36}", "files")[0]
TEXT = f"The deploy token is {SECRET}, thanks for your help with it."


def build_pdf(*, compressed: bool) -> bytes:
    """A page that shows the text in pieces, as programs write it."""
    shown = f"BT [({TEXT[:30]}) -20 ({TEXT[30:]})] TJ ET".encode()
    body = zlib.compress(shown) if compressed else shown
    return b"%PDF-1.4\n1 0 obj\n<<>>\nstream\n" + body + b"\nendstream\nendobj\n%%EOF"


def build_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", f"<w:t>{TEXT}</w:t>")
    return out.getvalue()


FILES = {
    "text": ("text/plain", TEXT.encode()),
    "utf16": ("text/csv", TEXT.encode("utf-16")),
    "pdf": ("application/pdf", build_pdf(compressed=False)),
    "deflated-pdf": ("application/pdf", build_pdf(compressed=True)),
    "zip": ("application/zip", build_zip()),
}
SHAPES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "anthropic": lambda mime, data: {
        "model": "claude-x",
        "max_tokens": 5,
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {
                        "type": "document",
                        "source": {"type": "base64", "media_type": mime, "data": data},
                    },
                ],
            }
        ],
    },
    "gemini": lambda mime, data: {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "see"}, {"inlineData": {"mimeType": mime, "data": data}}],
            }
        ]
    },
    "openai": lambda mime, data: {
        "model": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "see"},
                    {"type": "file", "file": {"file_data": f"data:{mime};base64,{data}"}},
                ],
            }
        ],
    },
    "bedrock": lambda mime, data: {
        "modelId": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "see"},
                    {"document": {"name": "n", "format": "x", "source": {"bytes": data}}},
                ],
            }
        ],
    },
}


def export_secrets(request: dict[str, Any], **words: str) -> dict[str, Any]:
    out = io.BytesIO()
    context = Context(ExportOptions.of({"exported_at": "omit", **words}), key=bytes(32))
    export(Source("request.json", data=json.dumps(request).encode()), out, context)
    document: dict[str, Any] = json.loads(out.getvalue())
    assert [item for item in validate(document) if item.severity == "error"] == []
    return document


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("file", FILES)
def test_text_in_attached_files_is_searched(shape: str, file: str) -> None:
    mime, raw = FILES[file]
    data = base64.b64encode(raw).decode()
    document = export_secrets(SHAPES[shape](mime, data))
    assert data[:40] not in json.dumps(document)
    assert hashlib.sha256(raw).hexdigest() not in json.dumps(document)
    notes = document["conversation"]["redaction"]["notes"]
    assert any(note.startswith("masked") for note in notes)
    assert not any("not searched" in note for note in notes)


def test_a_text_beside_a_media_type_is_searched() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": TEXT}
    block = {"type": "document", "source": source}
    request = {
        "model": "claude-x",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [block]}],
    }
    assert SECRET not in json.dumps(export_secrets(request))


def test_harmless_files_stay_and_unread_ones_are_counted() -> None:
    plain = base64.b64encode(WORDS.encode() * 4).decode()
    document = export_secrets(SHAPES["anthropic"]("text/plain", plain))
    assert plain in json.dumps(document)
    assert document["conversation"]["redaction"]["notes"] == []
    notes = export_secrets(SHAPES["gemini"]("image/png", PNG))["conversation"]["redaction"]["notes"]
    assert notes == ["kept 1 image or file, not searched"]
