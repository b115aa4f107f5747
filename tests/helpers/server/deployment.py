"""What docs/deploy sets up, on this machine: its two nodes as processes, and nginx with its file,
ports put in."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from helpers.server.local_services import Instance, free_port, needed, new_folder

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "docs" / "deploy"
NODES = ("node1", "node2")


def compose() -> Any:
    """The compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


class Node:
    """One node of the compose file as a process of this machine."""

    def __init__(self, name: str, folder: Path, known: dict[str, str]) -> None:
        service = compose()["services"][name]
        self.port, self._log = free_port(), folder / f"{name}.log"
        words = [
            _put(word, {"0.0.0.0": "127.0.0.1"}) for word in ("open-token", *service["command"])
        ]
        self._command = [
            sys.executable,
            "-m",
            "open_token",
            *words[1:],
            "--port",
            str(self.port),
            "--json",
        ]
        self._command += ["--log", "json"]
        given = {key: known.get(key, value) for key, value in service["environment"].items()}
        self._env = {**os.environ, **given, "OPEN_TOKEN_DEMO_DELAY": "0.001"}
        self.launch()

    def launch(self) -> None:
        """Start the process; `ready` waits for it."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._env, cwd="/"
            )

    def ready(self) -> Any:
        """What it prints when it listens."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self._log.read_text()[-2000:]
        return json.loads(line)

    def restart(self) -> None:
        """As `docker compose restart` does it."""
        self.end(signal.SIGTERM)
        self.launch()
        self.ready()

    def end(self, how: int) -> None:
        """End the process and wait."""
        self.process.send_signal(how)
        self.process.communicate(timeout=60)

    def requests(self) -> int:
        """How many requests it has answered."""
        return self._log.read_text().count('"event":"request"')


@contextlib.contextmanager
def two_nodes(folder: Path, known: dict[str, str]) -> Iterator[tuple[list[Node], str]]:
    """Both nodes, started at once, and the owner's key, which one of them prints."""
    nodes = [Node(name, folder, known) for name in NODES]
    try:
        keys = [result["key"] for result in [node.ready() for node in nodes] if result["key"]]
        assert len(keys) == 1
        yield nodes, keys[0]
    finally:
        for node in nodes:
            node.end(signal.SIGKILL)


@contextlib.contextmanager
def nginx(nodes: list[Node]) -> Iterator[str]:
    """nginx with the file of docs/deploy before the nodes; gives its address."""
    command, folder, port = needed("nginx"), new_folder("nginx"), free_port()
    places = {
        f"{name}:8020": f"127.0.0.1:{node.port}" for name, node in zip(NODES, nodes, strict=True)
    }
    text = _put(
        (DEPLOY / "nginx.conf").read_text(encoding="utf-8"),
        {**places, "listen 80": f"listen 127.0.0.1:{port}"},
    )
    (folder / "site.conf").write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    kept = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; {kept} include {folder}/site.conf; }}\n"
    )
    words = [command, "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    instance = Instance(folder, port, words, lambda: _listens(port))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        instance.end()
        shutil.rmtree(folder)


def _put(text: str, values: dict[str, str]) -> str:
    """A text with places of this machine put in."""
    return re.sub("|".join(map(re.escape, values)), lambda found: values[found[0]], text)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True
