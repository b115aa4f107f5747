"""A terminal of its own for a test, and a person at it who types when they see what they wait
for."""

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import threading
import time
from types import TracebackType

import pytest

TIMEOUT = 10.0


class Terminal:
    """stdin and stderr (and stdout, if wanted) are a terminal; each of `keys` is typed when its
    text is seen."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        *keys: tuple[str, bytes],
        columns: int = 80,
        lines: int = 24,
        stdout: bool = False,
    ) -> None:
        self._patch = patch
        self._keys = keys
        self._names = ("stdin", "stderr", "stdout") if stdout else ("stdin", "stderr")
        self._size = struct.pack("HHHH", lines, columns, 0, 0)
        self._seen = bytearray()
        self.missed: list[str] = []

    @property
    def seen(self) -> str:
        """Everything that was written to it."""
        return self._seen.decode("utf-8", "replace")

    def __enter__(self) -> "Terminal":
        self._master, self._slave = pty.openpty()
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, self._size)
        self._before = termios.tcgetattr(self._slave)
        self._streams = [
            os.fdopen(os.dup(self._slave), "r" if name == "stdin" else "w") for name in self._names
        ]
        for name, stream in zip(self._names, self._streams, strict=True):
            self._patch.setattr(sys, name, stream)
        self._person = threading.Thread(target=self._sit, daemon=True)
        self._stop = threading.Event()
        self._person.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restored = termios.tcgetattr(self._slave)[:4] == self._before[:4]
        for name, stream in zip(self._names, self._streams, strict=True):
            self._patch.setattr(sys, name, getattr(sys, f"__{name}__"))
            stream.close()
        self._stop.set()
        self._person.join(TIMEOUT)
        os.close(self._slave)
        os.close(self._master)

    def _sit(self) -> None:
        start = 0
        for text, keys in self._keys:
            found = self._wait(text.encode(), start)
            if found < 0:
                self.missed.append(text)
                os.write(
                    self._master, b"\x1b"
                )  # a person who never sees it leaves, so that no test hangs
                break
            start = found
            os.write(self._master, keys)
        while not self._stop.is_set() or select.select([self._master], [], [], 0)[0]:
            self._look(0.02)

    def _wait(self, text: bytes, start: int) -> int:
        end = time.monotonic() + TIMEOUT
        while time.monotonic() < end:
            if (place := self._seen.find(text, start)) >= 0:
                return place + len(text)
            self._look(0.05)
        return -1

    def _look(self, seconds: float) -> None:
        if select.select([self._master], [], [], seconds)[0]:
            self._seen += os.read(self._master, 1 << 16)
