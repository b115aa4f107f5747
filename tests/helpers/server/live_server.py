"""A server in a process of its own, for clients that are programs themselves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def run_server(
    folder: Path, port: int = 0, delay: str = "0"
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A server, and what it printed when it started."""
    command = [sys.executable, "-m", "open_token", "serve", "--data", str(folder), "--json"]
    command += ["--port", str(port)]
    env = os.environ | {"OPEN_TOKEN_DEMO_DELAY": delay}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdout
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(30)
