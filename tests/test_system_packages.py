"""What packages of systems need: the manual page, the container image, the Homebrew formula."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from open_token.cli import main
from open_token.cli.dispatch import VERBS
from open_token.cli.shared.help import Help
from open_token.cli.shared.man_page import render_man_page

ROOT = Path(__file__).resolve().parent.parent
RELEASE_TOOLS = ROOT / ".venv.release" / "bin"


def print_man_page(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", "man"]) == 0
    return capsys.readouterr().out


def test_manual_has_every_command_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    page = print_man_page(capsys)
    for verb in VERBS:
        assert f'.SS "open\\-token {verb}"' in page
    assert "\\fB\\-\\-max\\-bytes" in page
    assert ".SH EXIT STATUS" in page


def test_text_cannot_become_a_request() -> None:
    rows = ((".so /etc/passwd", "'br \\n(.x"),)
    page = render_man_page("1", Help("A.", ("x",), exit_codes=rows), [])
    assert "\n.so" not in page
    assert "\n'br" not in page
    assert "\\&'br \\en(.x" in page


@pytest.mark.full
@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not on this machine")
def test_manual_is_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    page = print_man_page(capsys)
    found = subprocess.run(["mandoc", "-T", "lint", "-W", "error"], input=page, text=True)
    assert found.returncode == 0
    shown = subprocess.run(
        ["mandoc", "-T", "ascii"], input=page, text=True, capture_output=True, check=True
    ).stdout
    assert re.search(r"sessions\b", shown)


def read_image(name: str) -> list[tuple[str, str]]:
    """Return the instructions of a stage and of the stages that it is based on."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    stages: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, _, stage = rest.partition(" AS ")
            current = list(stages.get(base, []))
            stages[stage] = current
        else:
            current.append((instruction, rest.strip()))
    return stages[name]


@pytest.mark.parametrize("stage", ["cli", "server"])
def test_images_do_not_run_as_root(stage: str) -> None:
    users = [rest for instruction, rest in read_image(stage) if instruction == "USER"]
    assert users
    assert int(users[-1]) >= 1000
    assert ("ENTRYPOINT", '["open-token"]') in read_image(stage)


@pytest.mark.full
def test_hadolint_accepts_the_image() -> None:
    program = RELEASE_TOOLS / "hadolint"
    if not program.exists():
        pytest.skip("hadolint is not installed: scripts/release.sh")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", ["cli", "server"])
def test_steps_of_the_image_install_the_command(name: str, tmp_path: Path) -> None:
    """The steps that make /opt/open-token, in a folder; those that change the system are not run."""
    places = {"/opt/open-token": str(tmp_path / "opt"), "/src": str(tmp_path / "src")}

    def move(text: str) -> str:
        for place, moved in places.items():
            text = re.sub(rf"(?<![\w/]){place}\b", moved, text)
        return text

    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (tmp_path / "src").mkdir()
    for instruction, rest in read_image(f"{name}-packages"):
        if instruction == "COPY":
            *sources, target = rest.split()
            for source in sources:
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, move(target), dirs_exist_ok=True)
                else:
                    shutil.copy(ROOT / source, move(target))
        else:
            assert instruction == "RUN"
            done = subprocess.run(
                ["sh", "-ec", move(rest)], env=env, cwd=tmp_path, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr[-2000:]
    command = [str(tmp_path / "opt" / "bin" / "open-token")]
    assert subprocess.run([*command, "--version"], capture_output=True).returncode == 0
    serving = subprocess.run([*command, "serve", "--check"], capture_output=True)
    assert (serving.returncode == 0) == (name == "server")


@pytest.mark.full
@pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is not on this machine")
def test_formula_is_valid_ruby(tmp_path: Path) -> None:
    template = ROOT / "scripts" / "open-token.rb.in"
    formula = tmp_path / "open-token.rb"
    formula.write_text(re.sub("@[A-Z0-9_]+@", "0" * 64, template.read_text(encoding="utf-8")))
    subprocess.run(["ruby", "-wc", formula], check=True, capture_output=True)
