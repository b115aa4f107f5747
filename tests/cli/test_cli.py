"""The front door of the command line."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import fake_format
from open_token import __version__
from open_token.cli import main


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"open-token {__version__} (Open-Token format 0.1)\n"


@pytest.mark.parametrize("words", [["--version", "--json"], ["--json", "-V"]])
def test_version_for_scripts(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == {"schema": "open-token/version/1", "version": __version__, "format": "0.1"}


def test_version_loads_nothing_heavy() -> None:
    code = "import sys\nfrom open_token.cli import main\nmain(['--version'])\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    assert not {"argparse", "msgspec", "orjson", "open_token.cli.dispatch"} & set(loaded)


def test_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "open_token", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith("open-token ")


WAITING = """
import sys, time, pytest
sys.path.insert(0, {tests!r})
from helpers import fake_format
from open_token.cli import main
fake_format.install_fake_format(pytest.MonkeyPatch())
def read(source, draft):
    print("reading", flush=True)
    time.sleep(60)
fake_format.read = read
sys.argv = ["open-token", "export", "session.jsonl", "-o", "out.json"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_command_that_is_stopped_leaves_nothing_behind(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    fake_format.write_fake_session(tmp_path / "session.jsonl")
    script = WAITING.format(tests=str(Path(__file__).parents[1]))
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        assert started.stdout
        assert started.stdout.readline() == b"reading\n"
        assert len(list(tmp_path.iterdir())) == 2
        started.send_signal(number)
        _, err = started.communicate(timeout=60)
    assert started.returncode == code
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]


def test_closed_streams_harm_no_file(tmp_path: Path) -> None:
    session = Path(__file__).parents[2] / "examples" / "claude_code.jsonl"
    command = [sys.executable, "-m", "open_token", "export", str(session), "exported_at=omit", "-o"]
    subprocess.run([*command, "usual.json"], cwd=tmp_path, check=True, capture_output=True)
    closed = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh"]
    assert (
        subprocess.run([*closed, *command, "closed.json"], cwd=tmp_path, check=False).returncode
        == 0
    )
    assert (tmp_path / "closed.json").read_bytes() == (tmp_path / "usual.json").read_bytes()
    formats = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command[:3], "formats"], check=False, capture_output=True
    )
    assert (formats.returncode, formats.stderr) == (0, b"")
