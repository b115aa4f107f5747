"""A session with torn lines: every command works on it, and only those lines are missing."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main
from open_token.context import Context
from open_token.library.follow import Follower
from open_token.library.ndjson_stream import FollowStream
from open_token.options import ExportOptions

SESSION = "5b1c7f00-0000-4000-8000-000000000001"
WHOLE = {"redact": "none", "include": "include-internal", "internal": "full", "native": "full"}


def record(number: int, role: str, text: str) -> bytes:
    value = {
        "type": role,
        "uuid": f"uuid-{number}",
        "parentUuid": f"uuid-{number - 1}" if number else None,
        "sessionId": SESSION,
        "timestamp": f"2026-03-01T10:00:{number:02d}.000Z",
        "message": {"role": role, "content": text},
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


TORN = b"".join(
    (
        record(0, "user", "first question, which is long enough to be searched for") + b"\n",
        record(1, "assistant", "first answer")[:60] + b"\n",
        record(2, "user", "second question") + record(3, "assistant", "second answer") + b"\n",
        record(4, "user", "lost half")[:70] + record(5, "user", "third question") + b"\n",
        b"\0" * 64 + b"\n",
        record(6, "assistant", "third answer") + b"\n",
        record(7, "user", "@").replace(b"@", b"broken \xe9 byte") + b"\n",
        record(8, "user", "cut off")[:50],
    )
)
SAID = [
    "first question, which is long enough to be searched for",
    "second question",
    "second answer",
    "third question",
    "third answer",
]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".claude" / "projects" / "-tmp-x" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(TORN)
    return path


def list_said(document: Any) -> list[str]:
    return [event["content"]["text"] for event in document["events"] if event["type"] == "message"]


def test_only_the_torn_lines_are_missing(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(session)]) == 0
    out, err = capsys.readouterr()
    assert list_said(json.loads(out))[:5] == SAID
    assert list_said(json.loads(out))[-1] == "broken \ufffd byte"
    for line, size in ((2, 60), (4, 70), (5, 64)):
        assert f"line {line}" in err
        assert f"a line of which {size} bytes are not JSON" in err
    assert "the last line was not complete" in err


def test_the_source_comes_back_byte_for_byte(session: Path, tmp_path: Path) -> None:
    words = [f"{name}={value}" for name, value in WHOLE.items()]
    export = tmp_path / "out.json"
    assert main(["export", str(session), "-o", str(export), *words]) == 0
    assert main(["restore", str(export), "-o", str(tmp_path / "back")]) == 0
    assert (tmp_path / "back" / session.name).read_bytes() == TORN


def test_a_torn_line_is_redacted_and_withheld(session: Path, tmp_path: Path) -> None:
    secret = "ghp_" + "aB3dE5fG7h" * 3 + "xYz123"
    half = record(4, "user", f"keep {secret}")[:-4]
    session.write_bytes(TORN.replace(record(4, "user", "lost half")[:70], half))
    export = tmp_path / "out.json"
    assert main(["export", str(session), "-o", str(export), "native=full"]) == 0
    assert main(["restore", str(export), "-o", str(tmp_path / "back")]) == 3
    assert secret not in export.read_text()


def test_fidelity_counts_what_is_missing(
    session: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "out.json"
    assert main(["export", str(session), "-o", str(export)]) == 0
    capsys.readouterr()
    main(["fidelity", str(session), str(export), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert [note["code"] for note in report["skipped"]].count("torn-line") == 3


def test_it_is_followed(session: Path) -> None:
    context = Context(ExportOptions.of({"mode": "ndjson", "exported_at": "omit"}))
    session.write_bytes(TORN[: TORN.index(b"\n") + 1])
    steps = [lambda: session.write_bytes(TORN) > 0]

    def idle() -> bool:
        return steps.pop()() if steps else False

    out = io.BytesIO()
    stream = FollowStream(out, context, "out")
    ended = Follower(session, session.name, "claude_code", context, stream, idle).run()
    stream.close(ended)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    said = [line["content"]["text"] for line in lines if line.get("event_type") == "message"]
    assert said[:5] == SAID
    assert [note.code for note in ended.notes].count("torn-line") == 3


def test_it_is_listed_and_archived(
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(session.parents[2]))
    assert main(["sessions", "--json"]) == 0
    assert SESSION in capsys.readouterr().out
    for _ in range(2):
        assert main(["archive", str(tmp_path / "archive")]) == 0
    (export,) = (tmp_path / "archive").rglob(f"*{SESSION[:8]}*.json")
    assert list_said(json.loads(export.read_text()))[:5] == SAID
