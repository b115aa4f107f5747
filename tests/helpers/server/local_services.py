"""PostgreSQL and Redis for tests: throw-away instances on loopback, started when first asked for,
ended at the end.

They need only the programs, which `make test-full` installs; without them a test is skipped with a
word. PostgreSQL does not run as root, so that root runs it as the user `postgres` or, if there is
none, `nobody`."""

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_PLACES = [
    "/usr/sbin",
    "/usr/lib/postgresql/*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
]
_COUNT = itertools.count(1)
_SECONDS = 60.0


def program(name: str) -> str | None:
    """Where a program is; Debian keeps those of the PostgreSQL server out of the path."""
    beside = [
        str(place)
        for pattern in _PLACES
        for place in sorted(Path("/").glob(pattern[1:]), reverse=True)
    ]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *beside]))


def needed(name: str) -> str:
    """The same, or the test is skipped."""
    found = program(name)
    if found is None:
        pytest.skip(f"{name} is not installed; `make test-full` does it")
    return found


class Instance:
    """A server process with a folder of its own, which can be killed and started again at the same
    address."""

    def __init__(
        self, folder: Path, port: int, command: list[str], is_up: Callable[[], bool]
    ) -> None:
        self.folder, self.port = folder, port
        self._command, self._is_up = command, is_up
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers; what a killed one left behind may take a while to
        end."""
        deadline = time.monotonic() + _SECONDS
        self._launch()
        while not self._is_up():
            if time.monotonic() > deadline:
                raise RuntimeError((self.folder / "log").read_text(errors="replace")[-2000:])
            time.sleep(0.02)
            if self.process.poll() is not None:
                time.sleep(0.1)
                self._launch()

    def revive(self) -> None:
        """Launch it again if it has ended by itself, as whatever watches over services does; it
        need not come up."""
        if self.process.poll() is not None:
            self._launch()

    def _launch(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, **_as_other_user()
            )  # type: ignore[call-overload]

    def end(self, how: int = signal.SIGTERM) -> None:
        """End it, gently or not."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@functools.cache
def postgres(is_durable: bool = False) -> Instance:
    """A PostgreSQL with nothing in it; a durable one waits for the disk, which only measuring and a
    power cut need."""
    folder = new_folder("pg")
    return own_postgres(
        folder, folder / "data", {} if is_durable else {"fsync": "off", "full_page_writes": "off"}
    )


def own_postgres(folder: Path, data: Path, settings: Mapping[str, str]) -> Instance:
    """A PostgreSQL of one's own: its log and socket in one folder, its data in another, perhaps on
    a small disk."""
    initdb, server, ready = needed("initdb"), needed("postgres"), needed("pg_isready")
    port = free_port()
    made = [initdb, "-D", str(data), "-U", "test", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
    made += ["--wal-segsize", "1"] if "min_wal_size" in settings else []
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **_as_other_user())  # type: ignore[call-overload]
    set_to = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(folder),
        "max_connections": "200",
    }
    command = [server, "-D", str(data), "-p", str(port)]
    command += [
        word for name, value in {**set_to, **settings}.items() for word in ("-c", f"{name}={value}")
    ]
    asked = [ready, "-q", "-h", "127.0.0.1", "-p", str(port), "-U", "test", "-d", "postgres"]
    # SIGINT ends PostgreSQL without waiting for those who are connected.
    return _kept(
        Instance(folder, port, command, lambda: subprocess.run(asked, check=False).returncode == 0),
        signal.SIGINT,
    )


@functools.cache
def redis() -> Instance:
    """A Redis that writes nothing to the disk."""
    server = needed("redis-server")
    folder, port = new_folder("redis"), free_port()
    command = [
        server,
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        str(folder),
    ]
    return _kept(Instance(folder, port, command, lambda: _answers(port)), signal.SIGTERM)


def postgres_url(is_durable: bool = False) -> str:
    """The address of an empty part of the database that nobody else uses."""
    return url_of(postgres(is_durable=True) if is_durable else postgres())


def url_of(instance: Instance) -> str:
    """The same of a database of one's own."""
    return f"postgresql://test@127.0.0.1:{instance.port}/postgres?search_path=t{os.getpid()}_{next(_COUNT)}"


def redis_url() -> str:
    """The address of the Redis."""
    return f"redis://127.0.0.1:{redis().port}/0"


def free_port() -> int:
    """A port that is free just now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _kept(instance: Instance, how: int) -> Instance:
    def ended() -> None:
        instance.end(how)
        shutil.rmtree(instance.folder, ignore_errors=True)

    atexit.register(ended)
    return instance


def new_folder(kind: str) -> Path:
    """An empty folder that the user who runs the servers may write into."""
    folder = Path(
        tempfile.mkdtemp(prefix=f"ot-{kind}-", dir="/tmp")
    )  # a socket's path must be short
    as_owner_of_postgres(folder)
    return folder


def as_owner_of_postgres(folder: Path) -> None:
    """Give a folder to the user as whom the servers run."""
    for user in _as_other_user().values():
        shutil.chown(folder, user)


def _as_other_user() -> dict[str, str]:
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody"}


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as asked:
            asked.sendall(b"PING\r\n")
            return asked.recv(16).startswith(b"+PONG")
    except OSError:
        return False
