"""The verb `hook`: what it says, what it writes, how it ends."""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from open_token.cli import hook, main
from open_token.cli.hook_run import list_folder_options
from open_token.library.hooks.handlers import get_hooks, list_hook_agents
from open_token.library.hooks.log import LogLine, append_log


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    for path in (folder, tmp_path / "here", tmp_path / "bin"):
        path.mkdir()
    (tmp_path / "bin/open-token").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/open-token")])
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "ot"))
    monkeypatch.chdir(tmp_path / "here")
    return folder


def run_hook(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], list[str]]:
    code = main(["hook", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


def test_install_and_uninstall_say_what_they_did(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install = ("install", "--for", "codex")
    assert run_hook(capsys, *install, "--dry-run") == (0, ["would write  ~/.codex/hooks.json"], [])
    code, out, err = run_hook(capsys, *install)
    assert (code, out) == (0, ["wrote        ~/.codex/hooks.json"])
    assert "trust" in err[0]
    assert run_hook(capsys, *install)[1] == ["unchanged    ~/.codex/hooks.json"]
    assert run_hook(capsys, *install, "--to", "sessions", "--quiet") == (
        0,
        ["updated      ~/.codex/hooks.json"],
        [],
    )
    command = json.loads((home / ".codex/hooks.json").read_text())["hooks"]["Stop"][0]["hooks"][0][
        "command"
    ]
    words = shlex.split(command)
    assert words[:7] == [
        f"{home.parent}/bin/open-token",
        *("hook", "run", "--for", "codex", "--to"),
        f"{home.parent}/here/sessions",
    ]
    # Where the settings of the user are is said here, and not by the environment of the agent.
    assert words[7:] == [*list_folder_options(os.environ)]
    assert "--open-token-home" in words
    assert run_hook(capsys, "uninstall", "--for", "codex") == (
        0,
        ["removed      ~/.codex/hooks.json"],
        [],
    )
    assert run_hook(capsys, "uninstall", "--for", "codex") == (
        0,
        [],
        ["no hooks of open-token are installed there"],
    )
    assert list(home.iterdir()) == []


def test_project_scope(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_hook(capsys, "install", "--for", "claude-code", "--scope", "project")
    assert (code, out) == (0, ["wrote        .claude/settings.local.json"])
    assert run_hook(capsys, "status")[1] == [
        "installed\tclaude-code\tproject\tnever\t.claude/settings.local.json"
    ]


def test_what_to_paste_is_printed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text("{} // mine")
    code, out, err = run_hook(capsys, "install", "--for", "gemini-cli")
    assert code == 1
    assert list(json.loads("".join(out))["hooks"]) == list(get_hooks("gemini-cli").events)
    assert err == [
        "error: file left unchanged: it is not plain JSON; comments would be lost",
        "  --> ~/.gemini/settings.json",
        "help: add the text printed below to it yourself",
    ]
    assert path.read_text() == "{} // mine"
    assert run_hook(capsys, "uninstall", "--for", "gemini-cli")[0] == 1


def test_auto(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_hook(capsys, "install", "--for", "auto")
    assert (code, err[0]) == (1, "error: no agent that supports hooks was found")
    for name in (".claude", ".cursor"):
        (home / name).mkdir()
    code, out, err = run_hook(capsys, "install", "--for", "auto")
    assert (code, len(out), len(err)) == (0, 2, 2)
    assert run_hook(capsys, "uninstall", "--for", "auto")[1] == [
        "removed      ~/.claude/settings.json",
        "removed      ~/.cursor/hooks.json",
    ]


def test_status_shows_the_last_call(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hook(capsys, "status") == (0, [], ["no agent that supports hooks was found"])
    (home / ".qwen").mkdir()
    run_hook(capsys, "install", "--for", "cursor")
    folder = home.parent / "ot/data/hooks"
    folder.mkdir(parents=True)
    append_log(
        folder, LogLine(at="2026-01-02T03:04:05Z", runtime="cursor", event="stop", result="new")
    )
    assert run_hook(capsys, "status")[1] == [
        "installed\tcursor\tuser\t2026-01-02T03:04:05Z new\t~/.cursor/hooks.json",
        "absent\tqwen-code\tuser\tnever\t~/.qwen/settings.json",
    ]
    facts = json.loads("".join(run_hook(capsys, "status", "--json")[1]))
    assert facts["schema"] == "open-token/hook-status/1"
    assert facts["files"][0]["last"] == {
        "at": "2026-01-02T03:04:05Z", "event": "stop", "id": "", "result": "new", "code": None,
    }  # fmt: skip


def test_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads("".join(run_hook(capsys, "install", "--for", "cursor", "--json")[1]))
    assert facts == {
        "schema": "open-token/hook-install/1",
        "scope": "user",
        "dry_run": False,
        "files": [
            {
                "for": "cursor",
                "action": "write",
                "path": f"{home}/.cursor/hooks.json",
                "why": None,
                "paste": None,
            }
        ],
    }


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("install",), "needs --for AGENT"),
        (("install", "--for", "codx"), "did you mean codex?"),
        (("install", "--for", "codex", "--to", ""), "--to must be a folder"),
        (("install", "--for", "codex", "--to", "../bin/open-token"), "--to must be a folder"),
        (("uninstall", "--for", "codex", "--to", "x"), "--to cannot be used with"),
        (("status", "--for", "codex"), "--for cannot be used with"),
        (("status", "--dry-run"), "--dry-run cannot be used with"),
        (("begin",), "invalid choice"),
    ],
)
def test_usage(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str
) -> None:
    code, out, err = run_hook(capsys, *words)
    assert (code, out) == (2, [])
    assert what in "\n".join(err)
    assert list(home.iterdir()) == []


def test_the_help_names_every_runtime(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hook", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in list_hook_agents())
    parser = argparse.ArgumentParser()
    hook.add_arguments(parser)
    assert parser.parse_args(["status"]).runtimes == []


def test_a_command_in_a_cache_is_warned_of(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.parent / ".cache/uv/open-token"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(path)])
    assert run_hook(capsys, "install", "--for", "codex")[2][0].startswith(
        "warning: this open-token is installed in a cache"
    )


def test_the_program_is_the_command_or_this_python(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hook.find_own_command() == (str(home.parent / "bin/open-token"),)
    monkeypatch.setattr(sys, "argv", ["/x/open_token/__main__.py"])
    assert hook.find_own_command() == (sys.executable, "-P", "-m", "open_token")
