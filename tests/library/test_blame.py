"""Which prompt wrote a line, from the edits of sessions and the history of git."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import open_token
from library.index.sessions import SessionFile
from open_token.cli import main
from open_token.errors import InputError

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"
SECOND = "22222222-bbbb-4bbb-8bbb-222222222222"
SOURCE = "def tide(zone):\n    return zone.high + offset\n\n\nprint(tide(north_sea))\n"

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file that two sessions and a person wrote."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "tide"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file = folder / "tide.py"
    first = SessionFile(tmp_path, FIRST, cwd=str(folder))
    first.ask("Write the **tide** function.")
    written = "def tide(zone):\n    return zone.high\n"
    first.call("Write", {"file_path": str(file), "content": written}, "ok")
    second = SessionFile(tmp_path, SECOND, cwd=str(folder))
    second.ask("Add the offset.")
    arguments = {
        "file_path": "tide.py",
        "old_string": "    return zone.high\n",
        "new_string": "    return zone.high + offset\n\n\n",
    }
    second.call("Edit", arguments, "ok")
    arguments = {
        "file_path": str(file),
        "old_string": "x",
        "new_string": "print(tide(north_sea))\n",
    }
    second.call("Edit", arguments, "no such text", fails=True)
    file.write_text(SOURCE)
    return folder


def run_git(folder: Path, *words: str, date: str = "2026-11-02T00:00:00Z") -> None:
    env = {
        **os.environ,
        "GIT_COMMITTER_DATE": date,
        "GIT_AUTHOR_DATE": date,
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    command = ["git", "-c", "user.name=Sam", "-c", "user.email=sam@example.org", *words]
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)


def test_each_line_belongs_to_the_edit_that_wrote_it(project: Path) -> None:
    lines = open_token.blame("tide.py")
    assert [line.text for line in lines] == SOURCE.splitlines()
    sessions = [line.origin.session_id if line.origin else None for line in lines]
    # Empty lines belong to the line before them; the edit that failed wrote nothing.
    assert sessions == [FIRST, SECOND, SECOND, SECOND, None]
    origin = lines[0].origin
    assert origin is not None
    assert origin.prompt == "Write the tide function."
    assert (origin.agent, origin.model) == ("claude-code", "claude-sonnet-4-5")
    document = open_token.export(
        next(project.parent.glob(f".claude/projects/*/{FIRST}.jsonl")), include="include-internal"
    )
    assert document["events"][origin.event - 1]["type"] == "tool_use"
    assert document["events"][origin.prompt_event - 1]["role"] == "user"


@needs_git
def test_a_line_that_was_committed_before_the_edit_is_not_its_work(project: Path) -> None:
    run_git(project, "init", "-q")
    run_git(project, "add", "tide.py")
    # Before any session began: the text is the same, but somebody else had written it.
    run_git(project, "commit", "-qm", "All", date="2026-10-01T00:00:00Z")
    lines = open_token.blame(project / "tide.py")
    assert all(line.origin is None for line in lines)
    assert all(len(line.commit) == 40 for line in lines)


@needs_git
def test_a_copy_of_the_repository_in_another_place_is_explained_too(
    project: Path, tmp_path: Path
) -> None:
    run_git(project, "init", "-q")
    run_git(project, "add", "tide.py")
    run_git(project, "commit", "-qm", "All")
    copy = tmp_path / "elsewhere" / "tide"
    run_git(tmp_path, "clone", "-q", str(project), str(copy))
    with (copy / "tide.py").open("a") as out:
        out.write("print('mine')\n")
    lines = open_token.blame(copy / "tide.py")
    assert [line.origin is not None for line in lines] == [True, True, True, True, False, False]
    assert lines[-1].commit == ""


def test_a_patch_without_a_path_argument_counts(tmp_path: Path, project: Path) -> None:
    third = SessionFile(tmp_path, "33333333-cccc-4ccc-8ccc-333333333333", cwd=str(project))
    third.ask("Print it.")
    patch = "*** Begin Patch\n*** Update File: tide.py\n@@\n+print(tide(north_sea))\n*** End Patch"
    third.call("apply_patch", {"input": patch}, "ok")
    origin = open_token.blame("tide.py")[-1].origin
    assert origin is not None
    assert origin.prompt == "Print it."


def test_the_command_prints_groups_and_json(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blame", "tide.py"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[:3] == [
        "-- claude-code  11111111  2026-11-01  Write the tide function.",
        "1  def tide(zone):",
        "-- claude-code  22222222  2026-11-01  Add the offset.",
    ]
    assert "-- no session on this machine explains this\n5  print(tide(north_sea))" in shown.out
    assert "4 of 5 lines were written by sessions on this machine" in shown.err
    assert main(["blame", "tide.py:2"]) == 0
    assert f"read it  open-token show {SECOND} --at" in capsys.readouterr().out
    assert main(["blame", "tide.py", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [line["number"] for line in result["lines"]] == [1, 2, 3, 4, 5]
    assert main(["blame", "tide.py:5"]) == 1
    for place in ("tide.py:9", "tide.py:0"):
        assert main(["blame", place]) == 2
    assert main(["blame", "none.py"]) == 3


def test_what_is_no_text_is_refused(project: Path) -> None:
    (project / "image.bin").write_bytes(b"\0\1")
    with pytest.raises(InputError, match="no text file"):
        open_token.blame("image.bin")


def test_many_equal_lines_take_linear_time(tmp_path: Path, project: Path) -> None:
    text = "same_line = 1\n" * 20_000
    third = SessionFile(tmp_path, "33333333-cccc-4ccc-8ccc-333333333333", cwd=str(project))
    third.ask("Fill it.")
    for _ in range(3):
        third.call("Write", {"file_path": str(project / "many.py"), "content": text}, "ok")
    (project / "many.py").write_text(text)
    lines = open_token.blame("many.py")
    assert len({line.origin for line in lines}) == 1
