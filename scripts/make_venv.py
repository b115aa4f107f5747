"""Makes or renews the .venv of this checkout, whole or not at all, for the launcher and the
Makefile."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
INSTALLED = VENV / "installed"
UNFINISHED = VENV / "unfinished"
SOURCES = ("pyproject.toml", "constraints.txt")
CANNOT_RUN = 126


def main(words: list[str]) -> int:
    """`[EXTRA ...]` makes .venv ready; `[EXTRA ...] -- ARGUMENTS` then becomes open-token with
    these arguments. An extra is one of the package or a dependency group of this checkout."""
    cut = words.index("--") if "--" in words else len(words)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        with _lock() as lock:
            _make_ready(set(words[:cut]), lock)
    except subprocess.CalledProcessError:
        return _fail(
            ".venv could not be set up",
            "read the words above; the first use needs a package index in reach",
        )
    except OSError as error:
        return _fail(
            f".venv could not be set up: {error.strerror}", f"check {error.filename or ROOT}"
        )
    except KeyboardInterrupt:
        return 130
    if cut < len(words):
        program = str(VENV / "bin" / "open-token")
        os.execv(program, [program, *words[cut + 1 :]])
    return 0


def _make_ready(extras: set[str], lock: int) -> None:
    wanted = {name: (ROOT / name).read_bytes() for name in SOURCES}
    known = set(_read(INSTALLED / "extras").split())
    sound = _is_sound()
    if (
        sound
        and extras <= known
        and all(_read_bytes(INSTALLED / name) == wanted[name] for name in SOURCES)
    ):
        return
    start = time.monotonic()
    _say(_reason(sound, extras - known))
    fresh = not sound
    try:
        if fresh:
            _remove()
        _install(fresh, extras | known, lock)
        # Where the environment forbids to write byte code, every start would compile the project
        # anew.
        _run([PYTHON, "-I", "-m", "compileall", "-q", "src/open_token"], lock)
        _record(wanted, extras | known)
    except BaseException:
        if fresh:
            _remove()
        raise
    _say(f"ready after {time.monotonic() - start:.0f} s")


def _reason(sound: bool, new: set[str]) -> str:
    """What takes so long."""
    if not sound:
        return "setting up .venv, once; this may take a minute ..."
    if "server" in new:
        return "adding to .venv what the server needs, once; this may take a minute ..."
    return "renewing .venv ..."


def _is_sound() -> bool:
    """Whether .venv can be built upon: it runs, it was not left half made, and it was not moved
    here."""
    if UNFINISHED.exists() or _read(INSTALLED / "place") not in ("", f"{ROOT}\n"):
        return False
    question = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([PYTHON, "-I", "-c", question], capture_output=True).returncode == 0
    except OSError:
        return False


def _install(fresh: bool, extras: set[str], lock: int) -> None:
    VENV.mkdir(exist_ok=True)
    UNFINISHED.touch()
    if fresh:
        _run([sys.executable, "-I", "-m", "venv", VENV], lock)
    elif not any(VENV.glob("lib/python*/site-packages/pip")):
        _run([PYTHON, "-I", "-m", "ensurepip"], lock)
    requirements = _list_requirements(extras)
    options = ["-qq", "--no-input", "--disable-pip-version-check", "-c", "constraints.txt"]
    try:
        _run([PYTHON, "-I", "-m", "pip", "install", *options, "-e", *requirements], lock)
    except subprocess.CalledProcessError:
        # pip has put back what it took away, so an older environment stays as good as it was.
        UNFINISHED.unlink()
        raise


def _list_requirements(names: set[str]) -> list[str]:
    """The project with its extras, then the packages of the groups.

    The groups are read here because the pip of an older Python does not know them.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project.get("dependency-groups", {})
    extras = sorted(names - groups.keys())
    requirements = [f".[{','.join(extras)}]" if extras else "."]
    for name in sorted(names & groups.keys()):
        requirements += groups[name]
    return requirements


def _record(wanted: dict[str, bytes], extras: set[str]) -> None:
    """Written last: the launcher takes .venv for complete when this folder is there."""
    fresh = VENV / "installed.new"
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(INSTALLED, ignore_errors=True)
    fresh.mkdir()
    for name, content in wanted.items():
        (fresh / name).write_bytes(content)
    (fresh / "extras").write_text(" ".join(sorted(extras)) + "\n")
    (fresh / "place").write_text(f"{ROOT}\n")
    UNFINISHED.unlink()
    fresh.rename(INSTALLED)


def _run(command: list[str | Path], lock: int) -> None:
    """A child in a process group of its own, so that it ends with all its children when this
    process is told to."""
    environment = {**os.environ, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    # The child holds the lock too: should this process be killed, nobody starts before the child
    # has ended.
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        pass_fds=(lock,),
        process_group=0,
    )
    try:
        status = child.wait()
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if status:
        raise subprocess.CalledProcessError(status, command)


@contextmanager
def _lock() -> Iterator[int]:
    """One set-up at a time; the lock ends with the process, however it ends."""
    with open(ROOT / ".venv.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another process that sets up .venv ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _remove() -> None:
    if VENV.exists():
        shutil.rmtree(VENV)


def _read(path: Path) -> str:
    return _read_bytes(path).decode()


def _read_bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _stop(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _say(words: str) -> None:
    print(f"open-token: {words}", file=sys.stderr, flush=True)


def _fail(what: str, help: str) -> int:
    print(f"error: {what}\nhelp: {help}", file=sys.stderr)
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
