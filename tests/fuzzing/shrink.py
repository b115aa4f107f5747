"""Makes a failing input small: cuts lines, then keys and items, then texts, as long as it fails in
the same way."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

Fails = Callable[[bytes], bool]


def shrink(data: bytes, fails: Fails, seconds: float = 20) -> bytes:
    """The smallest input found within the time that still fails."""
    deadline = time.monotonic() + seconds
    before = None
    while data != before and time.monotonic() < deadline:
        before = data
        data = _cut(data.splitlines(keepends=True), b"".join, fails, deadline)
        for number in range(len(data.splitlines()) or 1):
            data = _shrink_line(data, number, fails, deadline)
        data = _shrink_document(data, fails, deadline)
        if len(data) < 400:
            data = _cut([data[n : n + 1] for n in range(len(data))], b"".join, fails, deadline)
    return data


def _cut(
    parts: list[bytes], join: Callable[[list[bytes]], bytes], fails: Fails, deadline: float
) -> bytes:
    """Leave out as many parts as can be, large runs first."""
    size = max(1, len(parts) // 2)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(parts) and time.monotonic() < deadline:
            fewer = parts[:at] + parts[at + size :]
            if fails(join(fewer)):
                parts = fewer
            else:
                at += size
        size //= 2
    return join(parts)


def _shrink_line(data: bytes, number: int, fails: Fails, deadline: float) -> bytes:
    lines = data.splitlines(keepends=True)
    if number >= len(lines):
        return data
    start, line, rest = b"".join(lines[:number]), lines[number], b"".join(lines[number + 1 :])
    prefix = b"data: " if line.startswith(b"data: ") else b""
    bare = line.rstrip(b"\r\n")[len(prefix) :]
    end = line[len(prefix) + len(bare) :]
    return (
        start
        + prefix
        + _shrink_json(bare, lambda raw: fails(start + prefix + raw + end + rest), deadline)
        + end
        + rest
    )


def _shrink_document(data: bytes, fails: Fails, deadline: float) -> bytes:
    return _shrink_json(data, fails, deadline) if data.count(b"\n") else data


def _shrink_json(raw: bytes, fails: Fails, deadline: float) -> bytes:
    """Try each simpler value in turn; start over from what still fails."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    tried: set[bytes] = {raw}
    found = True
    while found and time.monotonic() < deadline:
        found = False
        for simpler in _simpler(value):
            try:
                made = json.dumps(simpler).encode()
            except RecursionError:
                continue
            if made not in tried and len(made) <= len(raw) + 8 and time.monotonic() < deadline:
                tried.add(made)
                if fails(made):
                    value, raw, found = simpler, made, True
                    break
    return raw


def _simpler(value: Any) -> Iterator[Any]:
    """The value with one part less, or one part simpler; large cuts first."""
    if isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            for simpler in _simpler(item):
                yield {**value, key: simpler}
    elif isinstance(value, list):
        for size in (len(value) // 2, 1):
            for at in range(0, len(value), size or 1):
                yield value[:at] + value[at + (size or 1) :]
        for number, item in enumerate(value):
            for simpler in _simpler(item):
                yield [*value[:number], simpler, *value[number + 1 :]]
    elif isinstance(value, str) and value:
        yield from ("", "a", value[: len(value) // 2], value[len(value) // 2 :])
    elif isinstance(value, int | float) and not isinstance(value, bool) and value:
        yield 0
