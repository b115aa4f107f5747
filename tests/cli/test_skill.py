"""The verb `skill`: what it says, what it writes, how it ends."""

import argparse
import json
from pathlib import Path

import pytest

from open_token.cli import main, skill
from open_token.library import skills

FOLDER = f".agents/skills/{skills.SKILL_NAME}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (tmp_path / "work").mkdir()
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(tmp_path / "no-commands"))
    monkeypatch.chdir(tmp_path / "work")
    return folder


def lines(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], list[str]]:
    result = capsys.readouterr()
    return result.out.splitlines(), result.err.splitlines()


def test_install_says_every_file_and_how_to_call_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["skill", "install", "--for", "codex"]) == 0
    out, err = lines(capsys)
    assert out == [
        f"wrote        ~/{FOLDER}/references/format.md",
        f"wrote        ~/{FOLDER}/references/options.md",
        f"wrote        ~/{FOLDER}/agents/openai.yaml",
        f"wrote        ~/{FOLDER}/SKILL.md",
    ]
    assert err == [
        "next    in Codex CLI: $stream-of-consciousness",
        "note    open-token is not on PATH, where the agent looks for it",
    ]
    assert all((home / line.split()[1].removeprefix("~/")).is_file() for line in out)


def test_install_does_not_warn_where_the_command_is_on_path(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = home / "open-token"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(home))
    assert main(["skill", "install", "--for", "codex"]) == 0
    assert lines(capsys)[1] == ["next    in Codex CLI: $stream-of-consciousness"]


def test_copilot_is_short_for_copilot_cli(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "install", "--for", "copilot", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runtimes"] == ["copilot-cli"]


def test_install_twice_is_fine(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["skill", "install", "--for", "codex", "--quiet"])
    lines(capsys)
    assert main(["skill", "install", "--for", "codex", "--quiet"]) == 0
    out, err = lines(capsys)
    assert {line.split()[0] for line in out} == {"unchanged"}
    assert err == []


def test_project_scope_writes_below_the_working_folder(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["skill", "install", "--for", "windsurf", "--scope", "project"]) == 0
    out, err = lines(capsys)
    assert out[-1] == f"wrote        .windsurf/skills/{skills.SKILL_NAME}/SKILL.md"
    assert "trust this folder" in err[0]
    assert list(home.glob("**/SKILL.md")) == []


def test_dry_run_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "install", "--for", "codex", "--dry-run"]) == 0
    out, err = lines(capsys)
    assert out[-1] == f"would write  ~/{FOLDER}/SKILL.md"
    assert err == []
    assert list(home.iterdir()) == []


def test_conflict_is_an_error_in_three_parts_and_exit_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / FOLDER).mkdir(parents=True)
    (home / FOLDER / "SKILL.md").write_text("mine")
    assert main(["skill", "install", "--for", "codex"]) == 1
    assert lines(capsys) == (
        [],
        [
            "error: folder left unchanged: open-token did not write it",
            f"  --> ~/{FOLDER}/SKILL.md",
            "help: move it away and run the command again; `open-token skill show` prints our text",
        ],
    )
    assert (home / FOLDER / "SKILL.md").read_text() == "mine"


def test_auto_installs_for_what_is_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "install", "--for", "auto"]) == 1
    assert lines(capsys)[1][0] == "error: no supported agent was found"
    (home / ".claude").mkdir()
    (home / ".gemini").mkdir()
    assert main(["skill", "install", "--for", "auto"]) == 0
    assert lines(capsys)[1][0] == "next    open-token skill status"
    assert main(["skill", "status"]) == 0
    assert lines(capsys)[0] == [
        f"installed\tgemini-cli\t~/{FOLDER}",
        f"installed\tclaude-code\t~/.claude/skills/{skills.SKILL_NAME}",
    ]
    assert main(["skill", "uninstall", "--for", "auto"]) == 0
    assert sorted(path.name for path in home.iterdir()) == [".claude", ".gemini"]


def test_uninstall_keeps_what_another_runtime_uses(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["skill", "install", "--for", "codex", "--for", "cursor"])
    lines(capsys)
    assert main(["skill", "uninstall", "--for", "cursor"]) == 0
    out, err = lines(capsys)
    assert out[-1] == f"updated      ~/{FOLDER}/SKILL.md"
    assert err == ["some files are still used by another agent that shares the folder"]
    assert main(["skill", "uninstall", "--for", "codex"]) == 0
    assert not (home / ".agents").exists()


def test_uninstall_keeps_an_edited_file_and_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["skill", "install", "--for", "codex"])
    (home / FOLDER / "SKILL.md").write_text("mine")
    lines(capsys)
    assert main(["skill", "uninstall", "--for", "codex"]) == 1
    out, err = lines(capsys)
    assert len(out) == 3
    assert err == [
        "error: file not removed: it was changed since it was installed",
        f"  --> ~/{FOLDER}/SKILL.md",
        "help: delete it yourself if you do not need it",
    ]


def test_uninstall_of_nothing_is_done_already(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("codex", "auto"):
        assert main(["skill", "uninstall", "--for", name]) == 0
        assert lines(capsys) == ([], ["the skill is not installed there"])


def test_closed_door_is_exit_three(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".agents").write_text("a file in the way")
    assert main(["skill", "install", "--for", "codex"]) == 3
    out, err = lines(capsys)
    assert out == []
    assert err[0].startswith("error: cannot change the skill's files: ")
    assert err[1].startswith(f"  --> {home}/.agents")
    assert err[2].startswith("help: ")


def test_show_prints_the_text_or_its_folder(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "show"]) == 0
    assert capsys.readouterr().out == skills.read_skill_text()
    assert main(["skill", "show", "--path"]) == 0
    assert Path(capsys.readouterr().out.strip(), "SKILL.md").read_text() == skills.read_skill_text()


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["install"], "available agents: amp, claude-code, cline, codex"),
        (["install", "--for", "claude"], "did you mean claude-code?"),
        (["install", "--for", "codex", "--path"], "skill --help"),
        (["show", "--for", "codex"], "skill --help"),
        (["status", "--scope", "user"], "skill --help"),
        (["status", "--dry-run"], "skill --help"),
        (["install", "--for", "codex", "--scope", "system"], "skill --help"),
        (["remove"], "skill --help"),
        ([], "skill --help"),
    ],
)
def test_wrong_words_are_usage_errors(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str], guess: str
) -> None:
    assert main(["skill", *words]) == 2
    out, err = lines(capsys)
    assert out == []
    assert err[0].startswith("error: ")
    assert guess in err[-1]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_changes_as_json(home: Path, capsys: pytest.CaptureFixture[str], action: str) -> None:
    main(["skill", "install", "--for", "codex"])
    lines(capsys)
    assert main(["skill", action, "--for", "codex", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["schema"] == f"open-token/skill-{action}/1"
    assert result["runtimes"] == ["codex"]
    assert {file["action"] for file in result["files"]} == {
        "same" if action == "install" else "remove"
    }
    assert result["files"][-1] == {
        **result["files"][-1],
        "path": str(home / FOLDER / "SKILL.md"),
        "why": None,
    }


def test_show_and_status_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["skill", "install", "--for", "codex"])
    lines(capsys)
    assert main(["skill", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "open-token/skill-status/1",
        "folders": [{"state": "installed", "for": ["codex"], "path": str(home / FOLDER)}],
    }
    assert main(["skill", "show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == skills.read_skill_text()


def test_help_names_every_action_runtime_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skill", "--help"]) == 0
    result = capsys.readouterr().out
    parser = argparse.ArgumentParser(add_help=False)
    skill.add_arguments(parser)
    flags = [flag for action in parser._actions for flag in action.option_strings]
    for word in (*skill.ACTIONS, *skills.list_targets(), skills.AUTO, *skills.SCOPES, *flags):
        assert word in result
