"""`open-token handoff`."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from conftest import ROOT
from open_token.cli import main
from open_token.handoff import list_target_names

SESSION = str(ROOT / "examples" / "claude_code.jsonl")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "QWEN_HOME",
        "COPILOT_HOME",
        "PI_CODING_AGENT_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and "open-token" not in str(path)
    )


@pytest.mark.parametrize("agent", list_target_names())
def test_stdout_has_the_command_that_goes_on(
    agent: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["handoff", SESSION, "--to", agent]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert "redact  masked 1 password" in err
    session = next(path for path in files(home.parent) if path.suffix in (".json", ".jsonl"))
    assert f"wrote   {session}" in err
    assert session.stat().st_mode & 0o077 == 0
    assert "hunter2" not in session.read_text()


def test_the_same_again_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["handoff", SESSION, "--to", "pi"]) == 0
    first = capsys.readouterr().out
    (path,) = files(home)
    path.write_text("the agent went on")
    assert main(["handoff", SESSION, "--to", "pi"]) == 0
    out, err = capsys.readouterr()
    assert out == first
    assert "handed over before" in err
    assert path.read_text() == "the agent went on"


def test_one_more_copy_on_request(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        assert main(["handoff", SESSION, "--to", "codex", "--again"]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 3
    assert len(files(home)) == 3


@pytest.mark.parametrize("agent", [name for name in list_target_names() if name != "opencode"])
def test_a_fresh_copy_is_not_taken_for_the_newest_conversation(
    agent: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["handoff", SESSION, "--to", agent]) == 0
    before = files(home)
    for words in (["last"], []):
        capsys.readouterr()
        assert main(["handoff", *words, "--to", "codex"]) == 3
        assert "a copy made by handoff" in capsys.readouterr().err
    assert files(home) == before
    assert main(["handoff", "@1", "--to", "codex"]) == 0


@pytest.mark.parametrize("agent", [name for name in list_target_names() if name != "opencode"])
def test_a_copy_is_passed_over_until_somebody_goes_on_with_it(
    agent: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = (
        home / ".claude" / "projects" / "-p" / "5e55104e-0000-4000-8000-0000000000aa.jsonl"
    )
    conversation.parent.mkdir(parents=True)
    record = {"type": "user", "uuid": "u", "sessionId": conversation.stem, "cwd": str(Path.cwd())}
    conversation.write_text(
        json.dumps(record | {"message": {"role": "user", "content": "the first words"}}) + "\n"
    )
    os.utime(conversation, (1_700_000_000, 1_700_000_000))
    assert main(["archive", "all", "-q"]) == 0
    assert main(["handoff", conversation.stem, "--to", agent, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.split("\n", 1)[1])["written"] is True
    for words in (["last"], [], ["@1"]):
        assert main(["export", *words, "-o", "out.json", "--quiet"]) == 0
        assert json.loads(Path("out.json").read_text())["conversation"]["id"] == conversation.stem
    assert main(["export", "@2", "-o", "out.json", "--quiet"]) == 0
    assert "the first words" in Path("out.json").read_text()
    assert json.loads(Path("out.json").read_text())["conversation"]["id"] != conversation.stem
    assert main(["handoff", "--to", agent, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] is False
    assert main(["sessions", "--json"]) == 0
    assert [item["title"] for item in json.loads(capsys.readouterr().out)["sessions"]][1:] == [
        "the first words"
    ]
    assert main(["archive", "all", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["new"], result["copy"], result["unchanged"]) == ([], 1, 1)
    conversation.unlink()
    assert main(["archive", "all", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copy"] == 1
    assert main(["archive", "other", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["new"]) == 1


def test_a_copy_that_goes_on_is_a_conversation(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = (
        home / ".claude" / "projects" / "-p" / "5e55104e-0000-4000-8000-0000000000aa.jsonl"
    )
    conversation.parent.mkdir(parents=True)
    conversation.write_bytes(Path(SESSION).read_bytes())
    assert main(["handoff", str(conversation), "--to", "pi", "--quiet"]) == 0
    assert main(["archive", "all", "--quiet"]) == 0
    (copy,) = (path for path in files(home) if path != conversation)
    more = {
        "type": "message",
        "id": "m",
        "message": {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    }
    last = json.loads(copy.read_text().splitlines()[-1])
    with copy.open("a") as out:
        out.write(
            json.dumps(more | {"parentId": last["id"], "timestamp": last["timestamp"]}) + "\n"
        )
    capsys.readouterr()
    assert main(["archive", "all", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert ([item["reader"] for item in result["new"]], result["copy"]) == (["pi"], 0)
    assert main(["export", "last", "--quiet", "-o", "out.json"]) == 0
    assert "go on" in Path("out.json").read_text()


def test_in_another_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = home.parent / "my project"
    other.mkdir()
    assert main(["handoff", SESSION, "--to", "claude-code", "--cwd", str(other)]) == 0
    assert capsys.readouterr().out.startswith(f"cd {shlex.quote(str(other))} && claude --resume ")


def test_to_a_file_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["handoff", SESSION, "--to", "claude-code", "-o", "session.jsonl"]) == 0
    assert capsys.readouterr().out == f"claude --resume {Path.cwd() / 'session.jsonl'}\n"
    assert files(home.parent) == [Path.cwd() / "session.jsonl"]
    assert main(["handoff", SESSION, "--to", "codex", "-o", "session.jsonl"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "this agent finds the session only at" in err


def test_the_conversation_itself_is_never_replaced(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = Path("session.jsonl")
    conversation.write_bytes(Path(SESSION).read_bytes())
    Path("link.jsonl").symlink_to(conversation)
    for name in ("session.jsonl", "link.jsonl"):
        assert main(["handoff", "session.jsonl", "--to", "claude-code", "-o", name]) == 2
        assert "would overwrite the source" in capsys.readouterr().err
    assert conversation.read_bytes() == Path(SESSION).read_bytes()


def test_what_stays_behind_is_reported(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["max_bytes=5000", "drop=oldest", "-o", "small.jsonl"]
    assert main(["handoff", SESSION, "--to", "pi", *small]) == 0
    assert "omitted events dropped to fit: " in capsys.readouterr().err
    Path("rules.json").write_text('{"messages": [{"role": "system", "content": "Be brief."}]}')
    assert main(["handoff", "rules.json", "--to", "pi", "--from", "openai_chat"]) == 3
    err = capsys.readouterr().err
    assert "omitted system messages: 1\n" in err
    assert "has no messages" in err


def test_for_scripts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["handoff", SESSION, "--to", "codex", "--json", "--quiet"]) == 0
    facts = json.loads(capsys.readouterr().out)
    (path,) = files(home)
    assert facts["files"] == [str(path)]
    assert facts["start"] == [f"codex resume {facts['id']}"]
    assert (facts["turns"], facts["calls"], facts["behind"]) == (5, 4, {})


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([SESSION], 2, "handoff needs --to AGENT"),
        ([SESSION, "--to", "cursor"], 2, "cannot hand over to 'cursor'"),
        ([SESSION, "--to", "claude"], 2, "did you mean claude-code?"),
        ([SESSION, "--to", "Copilot"], 2, "did you mean copilot-cli?"),
        ([SESSION, "--to", "opencod"], 2, "did you mean opencode?"),
        ([SESSION, "--to", "codex", "--cwd", "nowhere"], 2, "--cwd must be an existing folder"),
        (["nothing.jsonl", "--to", "codex"], 3, "No such file"),
        ([SESSION, "--to", "codex", "--from", "smoke"], 2, "unknown reader"),
        ([SESSION, "--to", "codex", "redact=all"], 2, "redact"),
        ([SESSION, "--to", "pi", "-o", "-"], 2, "-o needs a file"),
        ([SESSION, "--to", "pi", "-o", "."], 3, "the output is a folder"),
    ],
)
def test_errors_say_what_to_do(
    words: list[str], code: int, said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["handoff", *words]) == code
    assert said in capsys.readouterr().err
    assert files(home.parent) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
@pytest.mark.parametrize("agent", list_target_names())
def test_a_folder_whose_name_is_no_text(
    agent: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = os.fsdecode(b"tides\xff")
    Path(odd).mkdir()
    assert main(["handoff", SESSION, "--to", agent, "--cwd", odd]) == 2
    assert "rename the folder" in capsys.readouterr().err
    assert files(home.parent) == []


def test_what_no_agent_can_take_is_refused_before_it_is_held(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("open_token.cli.handoff.MAX_DOCUMENT_BYTES", 5000)
    assert main(["handoff", SESSION, "--to", "codex"]) == 3
    assert "max_bytes=1000000 drop=oldest" in capsys.readouterr().err
    assert files(home.parent) == []
    assert main(["handoff", SESSION, "--to", "codex", "max_bytes=5000", "drop=oldest"]) == 0


def test_a_folder_that_cannot_be_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    (home / ".codex").write_text("no folder")
    assert main(["handoff", SESSION, "--to", "codex"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "cannot write" in err
