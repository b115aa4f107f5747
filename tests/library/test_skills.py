"""The skill is installed completely for every agent, and files of the user are not touched."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from open_token.errors import InputError, OpenTokenError, OutputError
from open_token.library import skills

INSTALLED = ("SKILL.md", "agents/openai.yaml", "references/format.md", "references/options.md")
# These honour lines beyond the skill standard, so the installer adds them and the strict validator
# may say no.
BEYOND_STANDARD = {"claude-code", "cursor", "pi", "qwen-code", "zed"}
USER_FOLDERS = {
    "claude-code": ".claude/skills",
    "amp": ".config/agents/skills",
    "windsurf": ".codeium/windsurf/skills",
}
PROJECT_FOLDERS = {"claude-code": ".claude/skills", "windsurf": ".windsurf/skills"}


@pytest.fixture
def machine(tmp_path: Path) -> skills.InstallEnvironment:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return skills.InstallEnvironment(home, project, {}, tmp_path / "settings")


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def actions(steps: list[skills.FileChange]) -> set[str]:
    return {step.action for step in steps}


@pytest.mark.parametrize("name", skills.list_targets())
@pytest.mark.parametrize("scope", skills.SCOPES)
def test_install_writes_the_whole_skill_where_the_runtime_looks(
    machine: skills.InstallEnvironment, name: str, scope: str
) -> None:
    root, own = (
        (machine.home, USER_FOLDERS) if scope == "user" else (machine.project, PROJECT_FOLDERS)
    )
    folder = root / own.get(name, ".agents/skills") / skills.SKILL_NAME
    steps = skills.install_skill(machine, [name], scope)
    assert actions(steps) == {"write"}
    assert sorted(tree(folder)) == sorted(INSTALLED)
    assert {step.path for step in steps} == {folder / file for file in INSTALLED}
    assert len(tree(root)) == len(INSTALLED)
    assert not any(
        path.is_file() for path in (machine.project if scope == "user" else machine.home).rglob("*")
    )


def test_folders_of_the_environment_are_honoured(
    machine: skills.InstallEnvironment, tmp_path: Path
) -> None:
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "c"), "XDG_CONFIG_HOME": str(tmp_path / "x")}
    moved = skills.InstallEnvironment(machine.home, machine.project, env, machine.settings)
    assert (
        skills.get_install_folder(moved, "claude-code", "user")
        == tmp_path / "c/skills" / skills.SKILL_NAME
    )
    assert (
        skills.get_install_folder(moved, "amp", "user")
        == tmp_path / "x/agents/skills" / skills.SKILL_NAME
    )
    assert (
        skills.get_install_folder(moved, "claude-code", "project")
        == machine.project / ".claude/skills" / skills.SKILL_NAME
    )
    for empty in ("", "relative"):
        usual = skills.InstallEnvironment(
            machine.home, machine.project, {"CLAUDE_CONFIG_DIR": empty}, machine.settings
        )
        assert (
            skills.get_install_folder(usual, "claude-code", "user")
            == machine.home / ".claude/skills" / skills.SKILL_NAME
        )


def test_detect_goes_by_folders_and_commands(
    machine: skills.InstallEnvironment, tmp_path: Path
) -> None:
    assert skills.detect_agents(machine) == []
    (machine.home / ".claude").mkdir()
    (machine.home / ".config/zed").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("qwen", "goose"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    here = skills.InstallEnvironment(
        machine.home, machine.project, {"PATH": str(tmp_path / "bin")}, machine.settings
    )
    assert skills.detect_agents(here) == ["claude-code", "qwen-code", "zed"]


def test_frontmatter_of_a_runtime_is_added_and_the_rest_is_the_same(
    machine: skills.InstallEnvironment,
) -> None:
    skills.install_skill(machine, ["claude-code"], "user")
    text = (skills.get_install_folder(machine, "claude-code", "user") / "SKILL.md").read_text()
    head, body = text.split("\n---\n", 1)
    assert head.startswith(skills.read_skill_text().split("\n---\n", 1)[0])
    assert head.endswith("\n".join(skills.list_targets()["claude-code"].skill.frontmatter))
    assert "disable-model-invocation: true\n" in head
    assert body == skills.read_skill_text().split("\n---\n", 1)[1]


def test_shared_folder_serves_all_its_runtimes_and_goes_back(
    machine: skills.InstallEnvironment,
) -> None:
    file = skills.get_install_folder(machine, "codex", "user") / "SKILL.md"
    skills.install_skill(machine, ["codex"], "user")
    assert file.read_text() == skills.read_skill_text()
    steps = skills.install_skill(machine, ["cursor", "zed"], "user")
    assert [step.path for step in steps if step.action == "update"] == [file]
    assert "\ndisable-model-invocation: true\n---\n" in file.read_text()
    assert actions(skills.uninstall_skill(machine, ["cursor"], "user")) == {"same"}
    assert actions(skills.uninstall_skill(machine, ["zed"], "user")) == {"same", "update"}
    assert file.read_text() == skills.read_skill_text()
    assert actions(skills.uninstall_skill(machine, ["codex"], "user")) == {"remove"}
    assert list(machine.home.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["", *sorted(set(skills.list_targets()) - BEYOND_STANDARD)])
def test_skill_standard_validator_passes(
    machine: skills.InstallEnvironment, tool: Callable[[str], str], name: str
) -> None:
    command = tool("agentskills")
    if name:
        skills.install_skill(machine, [name], "user")
    folder = skills.get_install_folder(machine, name, "user") if name else skills.get_skill_folder()
    done = subprocess.run(
        [command, "validate", str(folder)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(BEYOND_STANDARD))
def test_what_is_beyond_the_standard_is_only_what_we_added(
    machine: skills.InstallEnvironment, name: str
) -> None:
    skills.install_skill(machine, [name], "user")
    text = (skills.get_install_folder(machine, name, "user") / "SKILL.md").read_text()
    lines = skills.list_targets()[name].skill.frontmatter
    assert lines
    assert (
        "".join(line for line in text.splitlines(keepends=True) if line.rstrip("\n") not in lines)
        == skills.read_skill_text()
    )


@pytest.mark.full
@pytest.mark.parametrize("name", ["", "claude-code", "codex"])
def test_static_scanner_finds_nothing(
    machine: skills.InstallEnvironment, tool: Callable[[str], str], name: str
) -> None:
    command = tool("skill-scanner")
    if name:
        skills.install_skill(machine, [name], "user")
    folder = skills.get_install_folder(machine, name, "user") if name else skills.get_skill_folder()
    words = [
        command,
        "scan",
        str(folder),
        "--use-behavioral",
        "--use-trigger",
        "--policy",
        "strict",
        "--format",
        "json",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["findings"] == []


def test_second_run_changes_nothing(machine: skills.InstallEnvironment) -> None:
    skills.install_skill(machine, ["codex", "claude-code"], "user")
    before = tree(machine.home), machine.record_path.read_bytes()
    assert actions(skills.install_skill(machine, ["codex", "claude-code"], "user")) == {"same"}
    assert (tree(machine.home), machine.record_path.read_bytes()) == before


def test_foreign_file_is_never_overwritten_and_nothing_is_written_beside_it(
    machine: skills.InstallEnvironment,
) -> None:
    folder = skills.get_install_folder(machine, "codex", "user")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("mine")
    steps = skills.install_skill(machine, ["codex"], "user")
    assert [(step.action, step.path, step.reason) for step in steps] == [
        ("refuse", folder / "SKILL.md", "open-token did not write it")
    ]
    assert tree(folder) == {"SKILL.md": b"mine"}
    assert not machine.record_path.exists()
    assert skills.uninstall_skill(machine, ["codex"], "user") == []
    assert tree(folder) == {"SKILL.md": b"mine"}


def test_conflict_in_one_folder_does_not_stop_another(machine: skills.InstallEnvironment) -> None:
    folder = skills.get_install_folder(machine, "codex", "user")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("mine")
    assert actions(skills.install_skill(machine, ["codex", "amp"], "user")) == {"refuse", "write"}
    assert sorted(tree(skills.get_install_folder(machine, "amp", "user"))) == sorted(INSTALLED)


def test_edited_file_is_neither_updated_nor_removed(machine: skills.InstallEnvironment) -> None:
    skills.install_skill(machine, ["codex"], "user")
    folder = skills.get_install_folder(machine, "codex", "user")
    (folder / "SKILL.md").write_text("my own words")
    (step,) = skills.install_skill(machine, ["codex", "cursor"], "user")
    assert (step.action, step.reason) == ("refuse", "it was changed since it was installed")
    steps = skills.uninstall_skill(machine, ["codex"], "user")
    assert [step.path.name for step in steps if step.action == "keep"] == ["SKILL.md"]
    assert tree(folder) == {"SKILL.md": b"my own words"}
    assert skills.list_installations(machine) == []


def test_own_unchanged_files_of_an_older_version_are_upgraded(
    machine: skills.InstallEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = skills._read_shipped_files()
    older = {
        "references/old.md": b"gone since",
        **shipped,
        "SKILL.md": shipped["SKILL.md"].replace(b"0.1.0", b"0.0.9"),
    }
    monkeypatch.setattr(skills, "_read_shipped_files", lambda: dict(older))
    skills.install_skill(machine, ["codex"], "user")
    monkeypatch.undo()
    folder = skills.get_install_folder(machine, "codex", "user")
    assert [place.state for place in skills.list_installations(machine)] == ["outdated"]
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"same", "update", "remove"}
    assert sorted(tree(folder)) == sorted(INSTALLED)
    assert [place.state for place in skills.list_installations(machine)] == ["installed"]


def test_lost_record_makes_every_file_the_users(machine: skills.InstallEnvironment) -> None:
    skills.install_skill(machine, ["codex"], "user")
    machine.record_path.unlink()
    before = tree(machine.home)
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"same"}
    assert actions(skills.install_skill(machine, ["cursor"], "user")) == {"refuse"}
    assert skills.uninstall_skill(machine, ["codex"], "user") == []
    assert tree(machine.home) == before


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version": 2}', b'{"folders": {"x": {"files": {"a": "b"}}}}']
)
def test_broken_record_is_an_error_with_a_remedy(
    machine: skills.InstallEnvironment, data: bytes
) -> None:
    machine.settings.mkdir()
    machine.record_path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        skills.install_skill(machine, ["codex"], "user")
    assert caught.value.where == str(machine.record_path)
    assert "move that file away" in str(caught.value.help)
    assert list(machine.home.iterdir()) == []


def test_run_that_broke_off_is_finished_by_the_next_one(
    machine: skills.InstallEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills.install_skill(machine, ["codex"], "user")

    def stop(target: Path, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            (target / name).write_bytes(data)
        raise OutputError("the disk is full")

    monkeypatch.setattr(skills, "_write_files", stop)
    with pytest.raises(OutputError):
        skills.install_skill(machine, ["cursor"], "user")
    monkeypatch.undo()
    assert actions(skills.install_skill(machine, ["cursor"], "user")) == {"same"}
    assert actions(skills.uninstall_skill(machine, ["codex", "cursor"], "user")) == {"remove"}
    assert list(machine.home.iterdir()) == []


def test_uninstall_that_broke_off_is_finished_by_the_next_one(
    machine: skills.InstallEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    skills.install_skill(machine, ["codex"], "user")

    def stop(target: Path, names: list[str]) -> None:
        (target / "SKILL.md").unlink()
        raise OutputError("the disk is gone")

    monkeypatch.setattr(skills, "_remove_files", stop)
    with pytest.raises(OutputError):
        skills.uninstall_skill(machine, ["codex"], "user")
    monkeypatch.undo()
    assert actions(skills.uninstall_skill(machine, ["codex"], "user")) == {"remove"}
    assert list(machine.home.iterdir()) == []


def test_uninstall_writes_no_file_again_for_the_runtime_that_stays(
    machine: skills.InstallEnvironment,
) -> None:
    skills.install_skill(machine, ["codex", "cursor"], "user")
    file = skills.get_install_folder(machine, "codex", "user") / "SKILL.md"
    file.unlink()
    assert actions(skills.uninstall_skill(machine, ["cursor"], "user")) == {"same"}
    assert not file.exists()
    assert skills.list_installed_agents(machine, "user") == ["codex"]


def test_skill_appears_last(machine: skills.InstallEnvironment) -> None:
    steps = skills.install_skill(machine, ["codex"], "user")
    assert steps[-1].path.name == "SKILL.md"


def test_deleted_files_are_written_again(machine: skills.InstallEnvironment) -> None:
    skills.install_skill(machine, ["codex"], "user")
    (skills.get_install_folder(machine, "codex", "user") / "SKILL.md").unlink()
    assert [place.state for place in skills.list_installations(machine)] == ["incomplete"]
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"same", "write"}
    assert [place.state for place in skills.list_installations(machine)] == ["installed"]


@pytest.mark.parametrize("scope", skills.SCOPES)
def test_dry_run_touches_nothing(machine: skills.InstallEnvironment, scope: str) -> None:
    steps = skills.install_skill(machine, ["codex", "claude-code"], scope, dry_run=True)
    assert actions(steps) == {"write"}
    assert len(steps) == 2 * len(INSTALLED)
    assert [*machine.home.iterdir(), *machine.project.iterdir()] == []
    assert not machine.settings.exists()
    skills.install_skill(machine, ["codex"], scope)
    before = tree(machine.home), tree(machine.project), machine.record_path.read_bytes()
    assert actions(skills.uninstall_skill(machine, ["codex"], scope, dry_run=True)) == {"remove"}
    assert (tree(machine.home), tree(machine.project), machine.record_path.read_bytes()) == before


@pytest.mark.parametrize(
    "link", [".agents", ".agents/skills", f".agents/skills/{skills.SKILL_NAME}"]
)
def test_project_folder_behind_a_link_is_refused(
    machine: skills.InstallEnvironment, tmp_path: Path, link: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (machine.project / link).parent.mkdir(parents=True, exist_ok=True)
    (machine.project / link).symlink_to(elsewhere)
    (step,) = skills.install_skill(machine, ["codex"], "project")
    assert (step.action, step.path) == ("refuse", machine.project / link)
    assert "symbolic link" in step.reason
    assert list(elsewhere.iterdir()) == []


def test_project_that_turned_into_a_link_is_not_uninstalled_through_it(
    machine: skills.InstallEnvironment, tmp_path: Path
) -> None:
    skills.install_skill(machine, ["codex"], "project")
    (machine.project / ".agents").rename(tmp_path / "elsewhere")
    (machine.project / ".agents").symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path / "elsewhere")
    assert actions(skills.uninstall_skill(machine, ["codex"], "project")) == {"refuse"}
    assert tree(tmp_path / "elsewhere") == before


def test_user_folders_may_be_links_but_not_the_skill_itself(
    machine: skills.InstallEnvironment, tmp_path: Path
) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    (machine.home / ".agents").symlink_to(dotfiles)
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"write"}
    assert sorted(tree(dotfiles / "skills" / skills.SKILL_NAME)) == sorted(INSTALLED)
    (machine.home / ".claude/skills").mkdir(parents=True)
    (machine.home / ".claude/skills" / skills.SKILL_NAME).symlink_to(
        dotfiles / "skills" / skills.SKILL_NAME
    )
    assert actions(skills.install_skill(machine, ["claude-code"], "user")) == {"refuse"}


def test_two_runtimes_whose_folders_are_one_get_one_file(
    machine: skills.InstallEnvironment,
) -> None:
    (machine.home / ".agents/skills").mkdir(parents=True)
    (machine.home / ".claude").symlink_to(machine.home / ".agents")
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"write"}
    assert actions(skills.install_skill(machine, ["claude-code"], "user")) == {"same", "update"}
    assert [place.runtimes for place in skills.list_installations(machine)] == [
        ("claude-code", "codex")
    ]


@pytest.mark.parametrize("name", ["SKILL.md", "references"])
def test_link_among_the_files_is_not_followed(
    machine: skills.InstallEnvironment, tmp_path: Path, name: str
) -> None:
    skills.install_skill(machine, ["codex"], "user")
    folder = skills.get_install_folder(machine, "codex", "user")
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"refuse"}
    assert "keep" in actions(skills.uninstall_skill(machine, ["codex"], "user"))
    assert (folder / name).is_symlink()
    assert (tmp_path / name).exists()


def test_read_only_folder_is_an_error_that_names_it(machine: skills.InstallEnvironment) -> None:
    (machine.home / ".agents").mkdir(mode=0o500)
    if os.access(machine.home / ".agents", os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(OutputError) as caught:
        skills.install_skill(machine, ["codex"], "user")
    assert caught.value.exit_code == 3
    assert str(machine.home / ".agents/skills") in str(caught.value.where)
    assert "-o FILE" not in str(caught.value)


def test_pipe_in_a_files_place_is_not_read(machine: skills.InstallEnvironment) -> None:
    folder = skills.get_install_folder(machine, "codex", "user")
    folder.mkdir(parents=True)
    os.mkfifo(folder / "SKILL.md")
    assert actions(skills.install_skill(machine, ["codex"], "user")) == {"refuse"}


def test_links_in_a_circle_are_an_error(machine: skills.InstallEnvironment) -> None:
    (machine.home / ".agents").symlink_to(machine.home / ".agents")
    with pytest.raises(OutputError):
        skills.install_skill(machine, ["codex"], "user")


def test_something_else_in_the_folders_place_is_an_error(
    machine: skills.InstallEnvironment,
) -> None:
    (machine.home / ".agents").write_text("a file")
    with pytest.raises(OutputError) as caught:
        skills.install_skill(machine, ["codex"], "user")
    assert (machine.home / ".agents").read_text() == "a file"
    assert "writable" in str(caught.value.help)


def test_without_a_place_for_the_record_nothing_is_installed(
    machine: skills.InstallEnvironment,
) -> None:
    machine.settings.write_text("a file")
    with pytest.raises(OpenTokenError) as caught:
        skills.install_skill(machine, ["codex"], "user")
    assert "OPEN_TOKEN_HOME" in str(caught.value.help)
    assert list(machine.home.iterdir()) == []


@pytest.mark.parametrize("scope", skills.SCOPES)
def test_uninstall_leaves_no_trace(machine: skills.InstallEnvironment, scope: str) -> None:
    skills.install_skill(machine, list(skills.list_targets()), scope)
    assert actions(
        skills.uninstall_skill(machine, skills.list_installed_agents(machine, scope), scope)
    ) == {"remove"}
    assert [*machine.home.iterdir(), *machine.project.iterdir()] == []
    assert json.loads(machine.record_path.read_bytes())["folders"] == {}


def test_uninstall_keeps_folders_that_were_there_and_files_of_others(
    machine: skills.InstallEnvironment,
) -> None:
    (machine.home / ".agents/skills").mkdir(parents=True)
    skills.install_skill(machine, ["codex", "amp"], "user")
    note = skills.get_install_folder(machine, "amp", "user") / "note.txt"
    note.write_text("mine")
    skills.uninstall_skill(machine, ["codex", "amp"], "user")
    assert list((machine.home / ".agents/skills").iterdir()) == []
    assert tree(machine.home) == {note.relative_to(machine.home).as_posix(): b"mine"}


def test_uninstall_of_one_scope_leaves_the_other(machine: skills.InstallEnvironment) -> None:
    skills.install_skill(machine, ["codex"], "user")
    skills.install_skill(machine, ["codex"], "project")
    skills.uninstall_skill(machine, ["codex"], "project")
    assert skills.list_installed_agents(machine, "user") == ["codex"]
    assert skills.list_installed_agents(machine, "project") == []
    assert sorted(tree(skills.get_install_folder(machine, "codex", "user"))) == sorted(INSTALLED)


def test_status_distinguishes_the_states(machine: skills.InstallEnvironment) -> None:
    for folder in (".gemini", ".codex", ".claude/skills/" + skills.SKILL_NAME, ".codeium/windsurf"):
        (machine.home / folder).mkdir(parents=True)
    skills.install_skill(machine, ["codex"], "user")
    states = {place.runtimes: place.state for place in skills.list_installations(machine)}
    assert states == {
        ("codex",): "installed",
        ("gemini-cli",): "shared",
        ("claude-code",): "foreign",
        ("windsurf",): "absent",
    }
