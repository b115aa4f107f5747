"""Every real conversation: exported in both shapes, valid, verified, reported on; nothing that was
said is lost."""

import importlib.util
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import CORPUS, KEY
from helpers.source_texts import iter_strings, list_texts
from open_token.cli import main
from open_token.context import Context
from open_token.errors import InputError
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.native.fidelity import ExportObserver, measure_fidelity
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format, list_conversations
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

pytestmark = pytest.mark.full

CHECK = CORPUS.parent / "tools" / "check_export.py"
NOT_A_SESSION = ("jcs", "jsontestsuite", "redaction", "SOURCES.tsv", "reserved.bin")
"""What lies there for other tests."""
PARTS = {
    "agent-a0ad4f44468bdf20d.meta.json": "facts about a subagent",
    "workspace.yaml": "facts about a session",
    "005.json": "the end of a step in a folder of parts",
}
"""Files beside a conversation that are none."""
FOLDERS = ("opencode/fixture_storage_v2",)
"""Folders that are one source."""
EVERYTHING: dict[str, Any] = {
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "redact": "none",
}
SAMPLE = 12
"""Of so many conversations in one file each is checked in both shapes; of more, that many, evenly
chosen."""


def files() -> list[Any]:
    if not CORPUS.is_dir():
        return [
            pytest.param(
                None, marks=pytest.mark.skip("the shared corpus is not beside this checkout")
            )
        ]
    found = (
        path for path in sorted(CORPUS.rglob("*")) if path.is_file() and path.name not in PARTS
    )
    sessions = [path for path in found if path.relative_to(CORPUS).parts[0] not in NOT_A_SESSION]
    return [*sessions, *(CORPUS / folder for folder in FOLDERS)]


def opened(path: Path) -> Source:
    return Source.of_folder(path) if path.is_dir() else Source.of(path)


def all_bytes(path: Path) -> bytes:
    return b"\n".join(
        item.read_bytes() for item in ([path] if path.is_file() else sorted(path.rglob("*.json")))
    )


def name(path: Path | None) -> str:
    return path.relative_to(CORPUS).as_posix() if path else "corpus"


def exported(
    source: Source, reader: str, witness: ExportObserver | None = None, **words: Any
) -> bytes:
    """The export; no bytes when nothing was said in the conversation."""
    out = io.BytesIO()
    try:
        export(
            source,
            out,
            Context(ExportOptions.of({"exported_at": "omit", **words}), key=KEY),
            reader,
            witness,
        )
    except InputError as problem:
        if problem.code != "input.no-events":
            raise
    return out.getvalue()


def each(source: Source, reader: str) -> Iterator[str | None]:
    """Choose every conversation of a source in turn."""
    found = list_conversations(source, reader)
    for item in found if len(found) > 1 else [None]:
        source.conversation = item.id if item else None
        yield source.conversation


@pytest.fixture(scope="module")
def peer() -> Any:
    """A check of exports that shares no code with this project."""
    spec = importlib.util.spec_from_file_location("check_export", CHECK)
    if not CHECK.exists() or spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def faults(peer: Any, data: bytes, redact: str) -> list[str]:
    if peer is None:
        return []
    document, _, found = peer.load(data)
    found += peer.check(document, redact)
    same = document["integrity"]["events_hash"] == peer.events_hash(document)
    return [*found, *([] if same else ["events_hash"])]


@pytest.mark.parametrize("path", files(), ids=name)
def test_export_is_valid_and_verified_in_both_shapes(path: Path, peer: Any) -> None:
    source = opened(path)
    reader = detect_format(source)
    chosen = list(each(source, reader))
    tried = 0
    for source.conversation in chosen[:: max(1, len(chosen) // SAMPLE)]:
        document, stream = (exported(source, reader, mode=mode) for mode in ("json", "ndjson"))
        if document or stream:
            tried += 1
            hashes = [
                json.loads(data)["integrity"]["events_hash"]
                for data in (document, stream.splitlines()[-1])
            ]
            assert hashes[0] == hashes[1]
            assert [verify_bytes(data).status for data in (document, stream)] == [
                VERIFIED,
                VERIFIED,
            ]
            wrong = [
                item
                for data in (document, stream)
                for item in validate_bytes(data)
                if item.severity == "error"
            ]
            assert wrong == []
            assert faults(peer, document, "secrets") == []
    assert tried


@pytest.mark.parametrize("path", files(), ids=name)
def test_nothing_of_what_was_said_is_lost(path: Path) -> None:
    source = opened(path)
    reader = detect_format(source)
    kept: set[str] = set()
    for _ in each(source, reader):
        kept.update(
            iter_strings(
                json.loads(
                    exported(source, reader, mode="json", pretty=False, **EVERYTHING) or b"0"
                )
            )
        )
    whole = "\0".join(kept)
    lost = [
        text
        for text in dict.fromkeys(list_texts(all_bytes(path), reader))
        if text not in kept and text not in whole
    ]
    assert lost == []


@pytest.mark.parametrize("path", files(), ids=name)
def test_fidelity_report_counts_records(path: Path) -> None:
    source = opened(path)
    reader = detect_format(source)
    for _ in each(source, reader):
        witness = ExportObserver()
        exported(source, reader, witness, mode="ndjson", **EVERYTHING)
        report = measure_fidelity(source, reader, witness, []).as_json()
        assert report["records"]["read"] >= 1
        break


@pytest.mark.parametrize("path", files(), ids=name)
def test_one_command_exports_all_that_a_file_holds(
    path: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = opened(path)
    count = len(list_conversations(source, detect_format(source)))
    if count < 2:
        assert main(["export", str(path), "-o", str(tmp_path / "one.json"), "--report"]) == 0
        assert "preserved" in capfd.readouterr().err
        return
    assert main(["export", str(path), "-o", str(tmp_path / "one.json")]) == 2
    assert f"{count:,} conversations" in capfd.readouterr().err
    assert main(["export", str(path), "--conversation", "all", "-o", str(tmp_path / "all")]) == 0
    index = json.loads((tmp_path / "all" / "index.json").read_text())
    assert len(index["conversations"]) == count
    for entry in index["conversations"][:: max(1, count // SAMPLE)]:
        assert (
            not entry["events"]
            or verify_bytes((tmp_path / "all" / entry["file"]).read_bytes()).status == VERIFIED
        )
