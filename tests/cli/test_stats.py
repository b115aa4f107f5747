"""`open-token stats` and `statusline`: counts, costs, and nothing counted twice."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from helpers.terminal import Terminal
from library.index.sessions import SessionFile
from open_token.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    first = SessionFile(tmp_path, "aaaaaaaa-0000-4000-8000-000000000001", cwd=str(tmp_path))
    first.ask("Why does the tide table jump?")
    first.call("Bash", {"command": "pytest"}, "1 failed", fails=True)
    first.answer("The clock changes.", tokens=1000)
    second = SessionFile(
        tmp_path, "bbbbbbbb-0000-4000-8000-000000000002", cwd="/home/sam/bread", branch="oven"
    )
    second.ask("Bake")
    second.call("Read", {"file_path": "/x"}, "text")
    second.call("Bash", {"command": "ls"}, "x")
    second.answer("Done.", tokens=500)
    settings = tmp_path / "open-token" / "settings"
    settings.mkdir(parents=True)
    (settings / "prices.toml").write_text('["claude-sonnet-4-5"]\ninput = 3\noutput = 15\n')
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "open-token"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    main(["stats", "--json", *words])
    return json.loads(capsys.readouterr()[0])


def test_totals(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = count(capsys)
    assert found["total"] == {
        "sessions": 2,
        "prompts": 2,
        "calls": 3,
        "failures": 1,
        "input": 1500,
        "cache_read": 0,
        "cache_write": 0,
        "output": 1500,
        "reasoning": 0,
        "cost": 0.027,
    }
    assert [group["day"] for group in found["groups"]] == ["2026-11-01"]
    assert found["unpriced_models"] == {}


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("week", ["2026-10-26"]),
        ("month", ["2026-11"]),
        ("model", ["claude-sonnet-4-5"]),
        ("agent", ["claude_code"]),
        ("tool", ["Bash", "Read"]),
        ("branch", ["main", "oven"]),
        ("session", ["aaaaaaaa", "bbbbbbbb"]),
    ],
)
def test_groups(home: Path, capsys: pytest.CaptureFixture[str], by: str, names: list[str]) -> None:
    found = count(capsys, "--by", by)
    assert [group[by][:8] if by == "session" else group[by] for group in found["groups"]] == names
    if by not in ("tool", "model"):
        for name in ("prompts", "calls", "input", "output"):
            assert sum(group[name] for group in found["groups"]) == found["total"][name]


def test_a_copy_of_a_session_counts_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = count(capsys)["total"]
    folder = home / ".claude" / "projects" / "-home-sam-tide"
    original = folder / "aaaaaaaa-0000-4000-8000-000000000001.jsonl"
    # A fork: the same records under another session id, and then some of its own.
    fork = SessionFile(home, "cccccccc-0000-4000-8000-000000000003")
    text = original.read_text().replace("aaaaaaaa-0000-4000-8000-000000000001", fork.id)
    fork.path.write_text(text)
    assert count(capsys)["total"] == before
    shutil.copy(original, home / "elsewhere.jsonl")
    fork._count = 40
    fork.answer("More.", tokens=7)
    after = count(capsys)["total"]
    assert after["input"] == before["input"] + 7
    assert after["prompts"] == before["prompts"]


def test_filters(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert count(capsys, "--here")["total"]["sessions"] == 1
    assert count(capsys, "--project", "BREAD")["total"]["calls"] == 2
    assert count(capsys, "--agent", "codex")["groups"] == []
    assert count(capsys, "--since", "2026-11-02")["groups"] == []
    assert count(capsys, "--until", "2026-11-01")["total"]["sessions"] == 2


def test_a_model_without_a_price_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "open-token" / "settings" / "prices.toml").unlink()
    path = home / ".claude" / "projects" / "-home-sam-tide"
    for file in path.glob("*.jsonl"):
        file.write_text(file.read_text().replace("claude-sonnet-4-5", "my-own-model"))
    found = count(capsys)
    assert found["unpriced_models"] == {"my-own-model": 3000}
    assert found["total"]["cost"] == 0
    main(["stats"])
    assert "my-own-model" in capsys.readouterr()[1]


def test_csv(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", "--by", "tool", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr()[0])))
    assert [(row["tool"], row["calls"], row["failed"]) for row in rows] == [
        ("Bash", "2", "1"),
        ("Read", "1", "0"),
    ]


def test_blocks_begin_at_the_full_hour(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = count(capsys, "--blocks")["blocks"]
    assert [(block["start"], block["end"]) for block in found] == [
        ("2026-11-01T09:00:00Z", "2026-11-01T14:00:00Z")
    ]
    assert found[0]["input"] == 1500


def test_on_a_screen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, columns=120, stdout=True) as terminal:
        assert main(["stats", "--by", "branch"]) == 0
    rows = [row.split() for row in terminal.seen.split("\r\n")]
    assert rows[0][:3] == ["BRANCH", "SESSIONS", "PROMPTS"]
    assert rows[3][0] == "total"
    assert rows[3][-1] == "$0.03"


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_narrow_screen_keeps_the_cost(
    home: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    with Terminal(monkeypatch, columns=columns, stdout=True) as terminal:
        main(["stats", "--by", "project"])
    rows = [row for row in terminal.seen.split("\r\n") if "$" in row or "COST" in row]
    assert len(rows) == 4
    assert max(map(len, rows)) <= columns
    assert rows[0].endswith("COST")


@pytest.mark.parametrize("words", [["--by", "mood"], ["--csv", "--json"], ["--since", "soon"]])
def test_invalid_usage(home: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(["stats", *words]) == 2


def test_nothing_to_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats"]) == 1
    assert "nothing to count" in capsys.readouterr()[1]


def test_statusline_is_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["index", "--quiet"])
    capsys.readouterr()
    assert main(["statusline"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("today ")
    assert out.count("\n") == 1
    assert err == ""
