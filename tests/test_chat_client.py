"""The client of the tutorial works with a real server, exactly as the page shows it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial" / "chat-client.md"
SCRIPT = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, str]]:
    """A server on a free port: its address, and the owner's key."""
    command = [
        sys.executable,
        "-m",
        "open_token",
        "serve",
        "--data",
        str(folder),
        "--port",
        "0",
        "--json",
    ]
    env = os.environ | {"OPEN_TOKEN_DEMO_DELAY": "0"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdout
        try:
            result = msgspec.json.decode(process.stdout.readline())
            yield result["address"], result["key"]
        finally:
            process.terminate()
            process.wait(30)


def test_client_is_short() -> None:
    (script,) = SCRIPT.findall(PAGE.read_text(encoding="utf-8"))
    assert len([line for line in script.splitlines() if line.strip()]) <= 40
    compile(script, "chat.py", "exec")


def test_client_sends_and_receives_messages(tmp_path: Path) -> None:
    (script,) = SCRIPT.findall(PAGE.read_text(encoding="utf-8"))
    (tmp_path / "chat.py").write_text(script, encoding="utf-8")
    with server(tmp_path / "data") as (address, key):
        command = [sys.executable, str(tmp_path / "chat.py"), address, key]
        session = subprocess.run(
            command,
            input="hello\nlist files\nask\n1\nfail\nsubagent\n",
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert session.stdout.count("(completed)") == 5, session.stdout + session.stderr
    assert "  1  Right" in session.stdout
    assert "(failed) the demo fails because it was asked to" in session.stdout
    assert re.search(r"\n\[\w+\]", session.stdout)
    assert len(session.stdout) > 100
