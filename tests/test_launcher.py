"""The launcher on checkouts of a stub package: first use, later use, change, failure, interruption,
two at once.

The stub builds itself without an index, counts its builds, and prints its arguments and its working
folder."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FIRST_USE = 120
CANNOT_RUN = 126

PYPROJECT = """
[build-system]
requires = []
build-backend = "stub_backend"
backend-path = ["."]
"""

BACKEND = """
import pathlib, time, zipfile

HERE = pathlib.Path(__file__).parent
INFO = "open_token-0.1.0.dist-info"
FILES = {
    "open_token_stub.pth": f"{HERE / 'src'}\\n",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\\nName: open-token\\nVersion: 0.1.0\\n"
    "Provides-Extra: dev\\nProvides-Extra: http\\nProvides-Extra: server\\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\\nGenerator: stub\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\\nopen-token = open_token.cli:main\\n",
    f"{INFO}/RECORD": "",
}


def build_editable(folder, settings=None, metadata=None):
    with open(HERE / "builds.log", "a") as log:
        log.write("build\\n")
    if (HERE / "broken").exists():
        raise SystemExit("this build is meant to fail")
    while (HERE / "slow").exists():
        time.sleep(0.05)
    name = "open_token-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        for path, text in FILES.items():
            wheel.writestr(path, text)
    return name
"""

CLI = """
import json, os, sys


def main():
    print(json.dumps({"words": sys.argv[1:], "folder": os.getcwd(), "input": sys.stdin.read()}))
    return int(os.environ.get("STUB_STATUS", "0"))
"""

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the launcher is a POSIX shell script"
)


class Checkout:
    """A copy of the launcher around the stub package."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.launcher = root / "open-token"
        self.venv = root / ".venv"
        shutil.copytree(
            ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copy2(ROOT / "open-token", self.launcher)
        (root / "src" / "open_token" / "cli").mkdir(parents=True)
        self.write("pyproject.toml", PYPROJECT)
        self.write("constraints.txt", "")
        self.write("stub_backend.py", BACKEND)
        self.write("src/open_token/cli/__init__.py", CLI)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def builds(self) -> int:
        log = self.root / "builds.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def start(
        self, *words: str, program: Path | None = None, **extra: str
    ) -> "subprocess.Popen[str]":
        pip = {
            "PIP_NO_INDEX": "1",
            "PIP_CONFIG_FILE": os.devnull,
            "OPEN_TOKEN_PYTHON": sys.executable,
        }
        return subprocess.Popen(
            [str(program or self.launcher), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **pip, **extra},
            start_new_session=True,
        )

    def run(
        self, *words: str, program: Path | None = None, **extra: str
    ) -> "subprocess.CompletedProcess[str]":
        process = self.start(*words, program=program, **extra)
        out, err = process.communicate(timeout=FIRST_USE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def words(self, *words: str, program: Path | None = None) -> list[str]:
        done = self.run(*words, program=program)
        assert (done.returncode, done.stderr) == (0, "")
        return list(json.loads(done.stdout)["words"])

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.root.glob(".venv*") if path.name != ".venv.lock")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout after two first uses at the same time, in a folder whose name needs quoting."""
    root = tmp_path_factory.mktemp("a folder with 'quotes' ü")
    checkout = Checkout(root)
    processes = [checkout.start("number", str(number)) for number in range(2)]
    for number, process in enumerate(processes):
        out, err = process.communicate(timeout=FIRST_USE)
        assert process.returncode == 0, err
        assert json.loads(out)["words"] == ["number", str(number)]
        assert "open-token: " in err
    return checkout


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """A checkout that was never used."""
    return Checkout(tmp_path)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FIRST_USE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_first_uses_at_once_install_once(ready: Checkout) -> None:
    assert ready.builds() == 1
    assert ready.leftovers() == [".venv"]


def test_arguments_pass_unchanged(ready: Checkout) -> None:
    words = [
        "two words",
        "",
        "--",
        "-x",
        "it's",
        'a "b"',
        "$HOME",
        "*",
        "back\\slash",
        "new\nline",
        "ü…",
    ]
    assert ready.words(*words) == words


def test_later_use_installs_nothing(ready: Checkout) -> None:
    before = ready.builds()
    ready.words("again")
    assert ready.builds() == before


def test_the_working_folder_stays(
    ready: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert json.loads(ready.run().stdout)["folder"] == str(tmp_path.resolve())


def test_symlinks_lead_to_the_checkout(ready: Checkout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "direct").symlink_to(ready.launcher)
    (tmp_path / "bin" / "relative").symlink_to(Path("..") / "direct")
    assert ready.words("x", program=tmp_path / "bin" / "relative") == ["x"]


def test_the_status_is_the_commands(ready: Checkout) -> None:
    assert ready.run(STUB_STATUS="3").returncode == 3


def test_standard_input_reaches_the_command(ready: Checkout) -> None:
    done = subprocess.run(
        [ready.launcher], input="payload", capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["input"] == "payload"


@pytest.mark.parametrize(
    "name", ["constraints.txt", pytest.param("pyproject.toml", marks=pytest.mark.full)]
)
def test_a_change_installs_again(ready: Checkout, name: str) -> None:
    before, old = ready.builds(), (ready.root / name).stat()
    (ready.root / name).write_text((ready.root / name).read_text() + "# changed\n")
    # As unpacked from an archive: the content is new, the time is not.
    os.utime(ready.root / name, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert json.loads(ready.run("changed").stdout)["words"] == ["changed"]
    assert ready.builds() == before + 1
    ready.words("and not once more")
    assert ready.builds() == before + 1


def test_a_failed_renewal_is_tried_again(ready: Checkout) -> None:
    before = ready.builds()
    ready.write("constraints.txt", "# newer\n")
    ready.write("broken", "")
    failed = ready.run()
    assert (failed.returncode, failed.stdout) == (CANNOT_RUN, "")
    assert "error: .venv could not be set up" in failed.stderr
    (ready.root / "broken").unlink()
    assert json.loads(ready.run("mended").stdout)["words"] == ["mended"]
    assert ready.builds() == before + 2


def test_extras_are_kept_by_a_later_renewal(ready: Checkout) -> None:
    setup = ready.root / "scripts" / "setup"
    assert ready.run("dev", program=setup).returncode == 0
    before = ready.builds()
    assert ready.run("dev", program=setup).stderr == ""
    assert ready.builds() == before
    ready.write("constraints.txt", "# newest\n")
    ready.run()
    assert (ready.venv / "installed" / "extras").read_text() == "dev\n"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("serve",), marks=pytest.mark.full),
        ("--json", "--color", "never", "server", "user", "list"),
    ],
)
def test_the_server_is_installed_when_it_is_first_used(
    ready: Checkout, words: tuple[str, ...]
) -> None:
    place = ready.venv / "installed" / "extras"
    place.write_text("dev\n")
    before = ready.builds()
    for other in (("export", "serve"), (), (*words, "--help"), ("serve", "-h")):
        assert ready.words(*other) == list(other)
    assert ready.builds() == before
    done = ready.run(*words)
    assert json.loads(done.stdout)["words"] == list(words)
    assert "open-token: adding to .venv what the server needs" in done.stderr
    assert (ready.builds(), place.read_text()) == (before + 1, "dev server\n")
    ready.words(*words)
    assert ready.builds() == before + 1


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.full),
    ],
)
def test_an_interrupted_first_use_leaves_nothing(fresh: Checkout, number: int, status: int) -> None:
    process = fresh.start()
    until((fresh.venv / "bin").exists)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=FIRST_USE)
    assert (process.returncode, out) == (status, "")
    assert "Traceback" not in err
    assert fresh.leftovers() == []


@pytest.mark.full
def test_a_killed_first_use_is_made_good(fresh: Checkout) -> None:
    fresh.write("slow", "")
    process = fresh.start()
    until(lambda: fresh.builds() == 1)
    process.kill()
    (fresh.root / "slow").unlink()
    process.communicate(timeout=FIRST_USE)
    assert not (fresh.venv / "installed").exists()
    assert json.loads(fresh.run("second").stdout)["words"] == ["second"]
    assert fresh.builds() == 2
    assert not (fresh.venv / "unfinished").exists()


@pytest.mark.full
def test_a_moved_checkout_is_set_up_anew(fresh: Checkout, ready: Checkout) -> None:
    shutil.copytree(ready.venv, fresh.venv, symlinks=True)
    (fresh.venv / "stale").touch()
    done = fresh.run("moved")
    assert json.loads(done.stdout)["words"] == ["moved"]
    assert str(ready.root) not in (fresh.venv / "bin" / "open-token").read_text()
    assert not (fresh.venv / "stale").exists()


def test_a_failed_first_use_leaves_nothing(fresh: Checkout, ready: Checkout) -> None:
    """Nor does a .venv stay that was moved here: it leads to another checkout."""
    shutil.copytree(ready.venv, fresh.venv, symlinks=True)
    fresh.write("broken", "")
    done = fresh.run()
    assert (done.returncode, done.stdout) == (CANNOT_RUN, "")
    assert "error: .venv could not be set up" in done.stderr
    assert "help: " in done.stderr
    assert fresh.leftovers() == []


@pytest.fixture
def no_python(tmp_path: Path) -> Path:
    """A folder for PATH with the few commands the scripts need and no Python."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("sh", "dirname", "cmp", "readlink"):
        (commands / name).symlink_to(str(shutil.which(name)))
    return commands


def test_without_python_the_message_says_so(fresh: Checkout, no_python: Path) -> None:
    done = fresh.run(PATH=str(no_python), OPEN_TOKEN_PYTHON="")
    assert (done.returncode, done.stdout) == (CANNOT_RUN, "")
    assert done.stderr.startswith("error: no Python 3.11 or newer was found")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 1", "error: no Python 3.11 or newer was found"),
        (
            "case $* in *ensurepip*) exit 1 ;; esac",
            "error: python3 cannot make virtual environments",
        ),
    ],
    ids=["too old", "without ensurepip"],
)
def test_an_unfit_python_is_named(
    fresh: Checkout, no_python: Path, script: str, message: str
) -> None:
    (no_python / "python3").write_text(f"#!/bin/sh\n{script}\n")
    (no_python / "python3").chmod(0o755)
    done = fresh.run(PATH=str(no_python), OPEN_TOKEN_PYTHON="")
    assert done.returncode == CANNOT_RUN
    assert done.stderr.startswith(message)
    assert fresh.leftovers() == []
