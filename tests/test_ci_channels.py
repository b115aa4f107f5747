"""The GitHub Action and the pre-commit hooks: their steps are executed on real files."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
RELEASE_TOOLS = ROOT / ".venv.release" / "bin"
CLEAN = ROOT / "examples" / "codex.jsonl"
SECRET = ROOT / "examples" / "claude_code.jsonl"


class Runner:
    """Executes the `run` steps of the action as a runner does: expressions, environment, files."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        self.folder = folder
        self.inputs = {
            name: inputs.get(name, one.get("default", "")) for name, one in ACTION["inputs"].items()
        }
        self.summary = folder / "summary.md"
        self.outputs: dict[str, str] = {}
        # The package of this environment in place of an installation.
        programs = folder / "open-token-venv" / "bin"
        programs.mkdir(parents=True)
        for name in ("open-token", "python"):
            (programs / name).symlink_to(Path(sys.executable).parent / name)

    def resolve(self, value: str) -> str:
        """Return a value with its expressions filled in."""
        values = {f"inputs.{name}": one for name, one in self.inputs.items()}
        values |= {f"steps.export.outputs.{name}": one for name, one in self.outputs.items()}
        values |= {
            "github.token": "t",
            "github.repository": "o/r",
            "github.event.pull_request.number": "7",
            "github.event_name": "pull_request",
        }
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: values[found[1]], str(value))

    def applies(self, step: dict[str, Any]) -> bool:
        """Return whether the condition of a step holds; only == and != joined by && are used."""
        condition = step.get("if", "").removeprefix("${{ ").removesuffix(" }}")
        for part in condition.split(" && ") if condition else ():
            left, operator, right = part.partition(" == " if " == " in part else " != ")
            assert operator, condition
            is_same = self.resolve(f"${{{{ {left} }}}}") == right.strip("'")
            if is_same != (operator == " == "):
                return False
        return True

    def run(self, name: str, path: str = "") -> subprocess.CompletedProcess[str]:
        """Execute the step of this name, which must apply."""
        (step,) = (step for step in ACTION["runs"]["steps"] if step["name"] == name)
        assert self.applies(step)
        output = self.folder / "output"
        output.write_text("")
        env = {name: self.resolve(value) for name, value in step["env"].items()}
        env |= {
            "PATH": f"{path}:{os.environ['PATH']}",
            "HOME": os.environ["HOME"],
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(output),
        }
        # The shell of `shell: bash`, as the documentation of the runner gives it.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
        self.outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return done


def test_action_exports_records_and_pages(tmp_path: Path) -> None:
    runner = Runner(
        tmp_path,
        {"path": "examples/cl*.jsonl\nexamples/codex.jsonl\nexamples/none-*", "redact": "pii"},
    )
    done = runner.run("Export records and pages")
    assert done.returncode == 0, done.stderr
    folder = Path(runner.outputs["folder"])
    records = sorted(path.name for path in folder.glob("*.ot.json"))
    assert records == ["1-claude_code.ot.json", "2-codex.ot.json"]
    assert runner.outputs["records"] == "2"
    assert len(list(folder.glob("*.html"))) == 2
    assert runner.summary.read_text().count("\n# ") >= 1
    assert runner.resolve(ACTION["outputs"]["folder"]["value"]) == str(folder)


def test_action_fails_without_files(tmp_path: Path) -> None:
    done = Runner(tmp_path, {"path": "examples/none-*"}).run("Export records and pages")
    assert done.returncode == 1
    assert "::error::no file matches" in done.stdout


def test_action_is_a_gate(tmp_path: Path) -> None:
    names = {"found": SECRET, "clean": CLEAN}
    for name, file in names.items():
        folder = tmp_path / name
        folder.mkdir()
        runner = Runner(folder, {"path": str(file), "check": "true"})
        done = runner.run("Fail on secrets")
        assert done.returncode == (1 if file == SECRET else 0), done.stderr
        exporting = [step for step in ACTION["runs"]["steps"] if step.get("id") == "export"]
        assert not runner.applies(exporting[0])


def test_action_comments_with_the_summary(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> "$HOME/gh.log"\n')
    program.chmod(0o755)
    runner = Runner(tmp_path, {"path": str(CLEAN), "comment": "true"})
    assert runner.run("Export records and pages").returncode == 0
    done = runner.run("Comment on the pull request", path=str(program.parent))
    assert done.returncode == 0, done.stderr
    called = (Path(os.environ["HOME"]) / "gh.log").read_text()
    assert called.startswith("pr comment 7 --repo o/r --body-file ")


def test_foreign_actions_are_pinned_and_no_script_has_expressions() -> None:
    for step in ACTION["runs"]["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
        # An expression in a script would let whoever chooses its value run commands.
        assert "${{" not in step.get("run", "")


def run_hook(name: str, *files: Path) -> int:
    (hook,) = (hook for hook in HOOKS if hook["id"] == name)
    program, *words = hook["entry"].split()
    command = [str(Path(sys.executable).parent / program), *words, *map(str, files)]
    return subprocess.run(command, capture_output=True).returncode


def test_hooks_accept_and_refuse(tmp_path: Path) -> None:
    assert run_hook("open-token-no-secrets", CLEAN) == 0
    assert run_hook("open-token-no-secrets", CLEAN, SECRET) == 1
    record = tmp_path / "a.ot.json"
    command = [str(Path(sys.executable).parent / "open-token"), "export", str(CLEAN)]
    subprocess.run([*command, "-o", str(record)], check=True, capture_output=True)
    assert run_hook("open-token-validate", record, record) == 0
    record.write_text(record.read_text().replace('"seq"', '"seqq"', 1))
    assert run_hook("open-token-validate", record) == 1
    for hook in HOOKS:
        assert re.search(hook["files"], "sessions/one.ot.json")
        assert not re.search(hook["files"], "package.json")


@pytest.mark.full
def test_pre_commit_installs_and_runs_the_hooks(tmp_path: Path) -> None:
    program = RELEASE_TOOLS / "pre-commit"
    if not program.exists():
        pytest.skip("pre-commit is not installed: scripts/release.sh")
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", project], check=True)
    shutil.copy(SECRET, project / "session.jsonl")
    subprocess.run(["git", "-C", project, "add", "."], check=True)
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "cache")}
    # A clone, as users get it: without what lies about in this checkout.
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    command = [program, "try-repo", clone, "open-token-no-secrets", "--all-files"]

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)

    found = check()
    assert found.returncode == 1, found.stdout + found.stderr
    assert "Failed" in found.stdout
    assert re.search(r"^password\t.*\tevt_\d+ /content/text$", found.stdout, re.MULTILINE)
    shutil.copy(CLEAN, project / "session.jsonl")
    clean = check()
    assert clean.returncode == 0, clean.stdout + clean.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "command",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"],
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", ".github/workflows/release.yml"],
        ["zizmor", "--offline", "--quiet", "action.yml", ".github/workflows/release.yml"],
        ["pre-commit", "validate-manifest", ".pre-commit-hooks.yaml"],
    ],
    ids=lambda command: f"{command[0]} {Path(command[-1]).name}",
)  # fmt: skip
def test_checkers_of_the_field_accept_them(command: list[str]) -> None:
    program = RELEASE_TOOLS / command[0]
    if not program.exists():
        pytest.skip("the checkers are not installed: scripts/release.sh")
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
