"""Hooks are installed for every agent and removed without a trace."""

import json
import os
import stat
from pathlib import Path

import pytest

from open_token.errors import OutputError
from open_token.library.hooks import installation
from open_token.library.hooks.handlers import list_hook_agents
from open_token.library.hooks.installation import (
    ConfigChange,
    detect_agents,
    install_hooks,
    list_installations,
    list_installed_agents,
    uninstall_hooks,
)
from open_token.library.skills import InstallEnvironment

NAMES = list(list_hook_agents())
FILES = {
    "claude-code": (".claude/settings.json", ".claude/settings.local.json"),
    "codex": (".codex/hooks.json", ".codex/hooks.json"),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json"),
    "qwen-code": (".qwen/settings.json", ".qwen/settings.json"),
    "copilot-cli": (".copilot/hooks/open-token.json", ".github/hooks/open-token.json"),
    "cursor": (".cursor/hooks.json", ".cursor/hooks.json"),
}
MINE = b'{ "model": "mine",\n  "hooks": {"Stop": []},   "list": [1,2] }'


@pytest.fixture
def machine(tmp_path: Path) -> InstallEnvironment:
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    return InstallEnvironment(tmp_path / "home", tmp_path / "work", {}, tmp_path / "settings")


@pytest.fixture
def program(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "bin" / "open-token"
    path.parent.mkdir()
    path.touch(mode=0o755)
    return (str(path),)


def trees(machine: InstallEnvironment) -> dict[str, bytes | None]:
    roots = (machine.home, machine.project)
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for root in roots
        for path in root.rglob("*")
    }


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("name", NAMES)
def test_in_and_out_of_a_machine_without_the_file(
    machine: InstallEnvironment, program: tuple[str, ...], name: str, scope: str
) -> None:
    root = machine.home if scope == "user" else machine.project
    path = root / FILES[name][scope == "project"]
    before = trees(machine)
    assert install_hooks(machine, [name], scope, program, None, dry_run=True) == [
        ConfigChange(name, "write", path)
    ]
    assert trees(machine) == before
    assert install_hooks(machine, [name], scope, program, None) == [
        ConfigChange(name, "write", path)
    ]
    assert f"{program[0]} hook run --for {name}" in path.read_text()
    assert list_installed_agents(machine, scope) == [name]
    assert [
        (place.scope, place.state)
        for place in list_installations(machine, program)
        if place.state != "absent"
    ] == [(scope, "installed")]
    written = trees(machine)
    assert install_hooks(machine, [name], scope, program, None) == [
        ConfigChange(name, "same", path)
    ]
    assert uninstall_hooks(machine, [name], scope, dry_run=True) == [
        ConfigChange(name, "remove", path)
    ]
    assert trees(machine) == written
    assert uninstall_hooks(machine, [name], scope) == [ConfigChange(name, "remove", path)]
    assert trees(machine) == before
    assert uninstall_hooks(machine, [name], scope) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_the_very_one_it_was(
    machine: InstallEnvironment, program: tuple[str, ...], name: str
) -> None:
    path = machine.home / FILES[name][0]
    path.parent.mkdir(parents=True)
    path.write_bytes(MINE)
    path.chmod(0o600)
    assert install_hooks(machine, [name], "user", program, None)[0].action == "update"
    assert install_hooks(machine, [name], "user", program, Path("/sessions"))[0].action == "update"
    assert json.loads(path.read_bytes())["model"] == "mine"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (backup,) = (machine.settings / "hooks").iterdir()
    assert backup.read_bytes() == MINE
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert uninstall_hooks(machine, [name], "user")[0].action == "update"
    assert path.read_bytes() == MINE


def test_what_was_changed_since_stays(
    machine: InstallEnvironment, program: tuple[str, ...]
) -> None:
    path = machine.home / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(MINE)
    install_hooks(machine, ["claude-code"], "user", program, None)
    whole = json.loads(path.read_text()) | {"theme": "dark"}
    path.write_text(json.dumps(whole))
    uninstall_hooks(machine, ["claude-code"], "user")
    assert json.loads(path.read_text()) == {"model": "mine", "list": [1, 2], "theme": "dark"}


def test_our_own_file_with_something_of_others_in_it_stays(
    machine: InstallEnvironment, program: tuple[str, ...]
) -> None:
    path = machine.home / ".cursor/hooks.json"
    install_hooks(machine, ["cursor"], "user", program, None)
    whole = json.loads(path.read_text())
    whole["hooks"]["stop"].insert(0, {"command": "say done"})
    path.write_text(json.dumps(whole))
    assert uninstall_hooks(machine, ["cursor"], "user")[0].action == "update"
    assert json.loads(path.read_text()) == {
        "version": 1,
        "hooks": {"stop": [{"command": "say done"}]},
    }


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": 2}'])
def test_without_its_list_our_entries_are_recognized_by_their_command(
    machine: InstallEnvironment, program: tuple[str, ...], damage: bytes
) -> None:
    path = machine.home / ".codex/hooks.json"
    install_hooks(machine, ["codex"], "user", program, None)
    (machine.settings / "hooks.json").write_bytes(damage)
    assert install_hooks(machine, ["codex"], "user", program, None)[0].action == "same"
    assert uninstall_hooks(machine, ["codex"], "user") == [ConfigChange("codex", "update", path)]
    assert json.loads(path.read_text()) == {}


def test_folders_that_moved_are_followed(
    machine: InstallEnvironment, program: tuple[str, ...], tmp_path: Path
) -> None:
    env = {
        "CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "CODEX_HOME": str(tmp_path / "x"), "QWEN_HOME": str(tmp_path / "q"),
        "GEMINI_CLI_HOME": str(tmp_path / "g"), "COPILOT_HOME": str(tmp_path / "o"),
    }  # fmt: skip
    moved = InstallEnvironment(machine.home, machine.project, env, machine.settings)
    changes = install_hooks(
        moved,
        ["claude-code", "codex", "gemini-cli", "qwen-code", "copilot-cli"],
        "user",
        program,
        None,
    )
    assert [str(change.path.relative_to(tmp_path)) for change in changes] == [
        "c/settings.json", "x/hooks.json", "g/.gemini/settings.json", "q/settings.json", "o/hooks/open-token.json",
    ]  # fmt: skip


def test_a_file_with_comments_is_left_and_the_words_are_given(
    machine: InstallEnvironment, program: tuple[str, ...]
) -> None:
    path = machine.home / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text('// mine\n{"theme": "dark"}\n')
    before = trees(machine)
    (change,) = install_hooks(machine, ["gemini-cli"], "user", program, None)
    assert (change.action, change.path) == ("refuse", path)
    assert "comments" in change.reason
    assert list(json.loads(change.snippet)["hooks"]) == ["SessionEnd", "PreCompress", "AfterAgent"]
    assert [change.action for change in uninstall_hooks(machine, ["gemini-cli"], "user")] == [
        "refuse"
    ]
    assert trees(machine) == before
    assert [place.state for place in list_installations(machine, program)] == ["unreadable"]


def test_a_link_of_the_user_is_followed_and_stays_one(
    machine: InstallEnvironment, program: tuple[str, ...], tmp_path: Path
) -> None:
    kept = tmp_path / "dotfiles.json"
    kept.write_bytes(MINE)
    link = machine.home / ".cursor/hooks.json"
    link.parent.mkdir()
    link.symlink_to(kept)
    install_hooks(machine, ["cursor"], "user", program, None)
    assert link.is_symlink()
    assert b"hook run" in kept.read_bytes()
    uninstall_hooks(machine, ["cursor"], "user")
    assert kept.read_bytes() == MINE


def test_a_project_is_not_left_through_a_link(
    machine: InstallEnvironment, program: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (machine.project / ".cursor").symlink_to(tmp_path / "elsewhere")
    (change,) = install_hooks(machine, ["cursor"], "project", program, None)
    assert "symbolic link" in change.reason
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling"])
def test_what_is_no_plain_file_is_left(
    machine: InstallEnvironment, program: tuple[str, ...], kind: str
) -> None:
    path = machine.home / ".cursor/hooks.json"
    path.parent.mkdir()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    (change,) = install_hooks(machine, ["cursor"], "user", program, None)
    assert change.reason == "it is not a plain file"


def test_what_cannot_be_backed_up_is_not_changed(
    machine: InstallEnvironment, program: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.home / ".cursor/hooks.json"
    path.parent.mkdir()
    path.write_bytes(MINE)
    monkeypatch.setattr(installation, "make_folder", lambda _: False)
    with pytest.raises(OutputError, match="backup"):
        install_hooks(machine, ["cursor"], "user", program, None)
    assert path.read_bytes() == MINE


def test_states(machine: InstallEnvironment, program: tuple[str, ...], tmp_path: Path) -> None:
    assert list_installations(machine, program) == []
    (machine.home / ".codex").mkdir()
    assert detect_agents(machine) == ["codex"]
    assert [place.state for place in list_installations(machine, program)] == ["absent"]
    install_hooks(machine, ["codex"], "user", program, None)
    assert [place.state for place in list_installations(machine, ("/other/open-token",))] == [
        "outdated"
    ]
    path = machine.home / ".codex/hooks.json"
    whole = json.loads(path.read_text())
    del whole["hooks"]["Stop"]
    path.write_text(json.dumps(whole))
    assert [place.state for place in list_installations(machine, program)] == ["outdated"]
    Path(program[0]).unlink()
    assert [place.state for place in list_installations(machine, program)] == ["broken"]
