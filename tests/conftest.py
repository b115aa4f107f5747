"""Shared by all tests: a clean environment, golden files, the shared corpus, extra tools."""

import difflib
import functools
import gc
import itertools
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from open_token.redaction import ruleset

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
DIFF_LINES = 60
KEY = bytes(range(32))

# Under nohup or in the background of a shell these are ignored, and the programs that tests start
# would ignore them as well.
for number, handler in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)

# A developer runs the suite inside an agent as a rule; no test may see that agent's session or
# settings.
FOREIGN = (
    "AI_AGENT",
    "AMP_",
    "CLAUDE",
    "CLINE",
    "CODEX",
    "COPILOT",
    "CURSOR",
    "GEMINI",
    "GOOSE",
    "GROK",
    "KIMI",
    "OPENCODE",
    "OPEN_TOKEN_",
    "PI_",
    "QWEN",
    "SOURCE_DATE_EPOCH",
    "XDG_",
)

hypothesis.settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=40
)
hypothesis.settings.register_profile("searching", deadline=None, max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--accept", action="store_true", help="rewrite golden files and console blocks"
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile(
        "searching" if config.option.markexpr == "full" else "repeatable"
    )


def pytest_collection(session: pytest.Session) -> None:
    """Thousands of tests and all packages of the server are loaded and stay: to look for garbage
    among them would take time and find none."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def clean_environment() -> Iterator[None]:
    """No session of anybody, UTC, no colours; the same for the processes that a test starts."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(FOREIGN):
                patch.delenv(name)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("TERM", "xterm")
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Empty home directories; one that a test left empty is given to the next test."""

    def make_homes() -> Iterator[Path]:
        folder = tmp_path_factory.mktemp("homes")
        for number in itertools.count():
            home = folder / str(number)
            home.mkdir()
            while home.is_dir() and not any(home.iterdir()):
                yield home

    return make_homes()


@pytest.fixture(autouse=True)
def clean_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty home and empty settings for each test."""
    home = next(homes)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(home / "open-token"))
    yield
    monkeypatch.undo()
    if time.tzname != ("UTC", "UTC"):
        time.tzset()


@pytest.fixture(autouse=True, scope="session")
def rules_parsed_once() -> Iterator[None]:
    """A test has a home of its own, where no export has left the rules parsed: each would take 70
    ms to do it again."""
    parse = functools.cache(lambda texts: parse_rules(dict(texts)))
    parse_rules = ruleset.parse_rules
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ruleset, "parse_rules", lambda texts: parse(tuple(texts.items())))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Connections leave this machine in no test."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and not str(address[0]).startswith(
            ("127.", "::1", "localhost")
        ):
            pytest.fail(f"a test tried to reach {address[0]}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture
def known_key() -> bytes:
    """The key behind redaction marks, put where this test's settings are, so that marks are the
    same every time."""
    settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
    settings.mkdir(parents=True)
    (settings / "key").write_bytes(KEY)
    return KEY


@pytest.fixture
def accepting(request: pytest.FixtureRequest) -> bool:
    """Whether --accept was given."""
    return bool(request.config.getoption("--accept"))


@pytest.fixture
def golden(accepting: bool) -> Callable[[Path, str | bytes], None]:
    """Compares what came out with a file, byte for byte; with --accept writes it there instead."""

    def check(path: Path, actual: str | bytes) -> None:
        data = actual.encode() if isinstance(actual, str) else actual
        if accepting:
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)
            return
        if not path.exists():
            pytest.fail(
                f"{_short(path)} is not there; write it with `make accept`, then read it",
                pytrace=False,
            )
        if (expected := path.read_bytes()) != data:
            pytest.fail(_difference(path, expected, data), pytrace=False)

    return check


def _difference(path: Path, expected: bytes, actual: bytes) -> str:
    before, after = (
        data.decode(errors="backslashreplace").splitlines(keepends=True)
        for data in (expected, actual)
    )
    lines = list(difflib.unified_diff(before, after, f"{_short(path)} (expected)", "what came out"))
    ended = (
        line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n"
        for line in lines[:DIFF_LINES]
    )
    rest = f"... and {len(lines) - DIFF_LINES} more lines\n" if len(lines) > DIFF_LINES else ""
    return f"{_short(path)} differs:\n{''.join(ended)}{rest}If this is right, rewrite it with `make accept`."


def _short(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def pytest_itemcollected(item: pytest.Item) -> None:
    """Tests of the shared corpus are part of `make test-full`: a clone does not have it."""
    if "corpus" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.full)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The shared corpus of real conversations; a test without it is skipped."""
    if not CORPUS.is_dir():
        pytest.skip("the shared corpus is not beside this checkout")
    return CORPUS


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The path of a command that `make test-full` installs; a test without it is skipped."""

    def find(name: str) -> str:
        folders = [
            str(ROOT / name / "bin") for name in (".venv", ".venv.full", ".venv.schemathesis")
        ]
        places = os.pathsep.join([*folders, os.environ["PATH"]])
        path = shutil.which(name, path=places)
        if path is None:
            pytest.skip(f"{name} is not installed; `make test-full` does it")
        return path

    return find
