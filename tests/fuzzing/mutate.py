"""Changes an input at random: mostly as JSON, so that it gets past the parser; also line by line
and byte by byte."""

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fuzzing.folders import START, WHOLE, pack, unpack
from fuzzing.packed import SQLITE, ZIP, change_database, change_zip

CANARY = "kanárie, do not tell ✓"
"""Content that no message may repeat."""

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9" * 2
"""What every level of redaction masks."""

MARKS = "[REDACTED:email:0a1b2c3d]"
_HOLE = re.compile(rb'"<hole:([a-z]+)(\d+)>"')
_KEY = re.compile(rb'"([A-Za-z_]{1,30})"(?=\s*:)')
_FILLINGS: dict[bytes, Callable[[int], bytes]] = {
    b"list": lambda n: b"[" * n + b"]" * n,
    b"dict": lambda n: b'{"a":' * n + b"1" + b"}" * n,
    b"digits": lambda n: b"9" * n,
    b"power": lambda n: b"1e%d" % n,
    b"nan": lambda n: (b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"1E5", b"01", b"1.")[n % 8],
    b"surrogate": lambda n: (rb'"\ud800"', rb'"a\udfffb"', rb'"\ud83d"', rb'"\udc00\ud800"')[n % 4],
    b"twice": lambda n: b'{"id":1,"id":"b","type":"text","type":%d}' % n,
}  # fmt: skip
"""What Python's own JSON writer would refuse or change is put in afterwards, for a string that
stands for it."""

_HOLES = [
    f"<hole:{kind}{n}>"
    for kind, sizes in {
        "list": (60, 99, 101, 127, 130, 260, 1100, 5000),
        "dict": (60, 99, 101, 127, 130, 260, 1100, 5000),
        "digits": (16, 17, 19, 20, 40, 400, 5000),
        "power": (15, 16, 21, 22, 308, 309, 400),
        "nan": range(8),
        "surrogate": range(4),
        "twice": range(2),
    }.items()
    for n in sizes
]
_SIMPLE: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, 2**64, 10**30, 0.0, -0.0, 1.5,
    1e-7, 5e-324, 1e15, 1e16, 1e21, 1.7976931348623157e308, 1e17, 1772442000000, 1772442000.25, 1772442000000000000,
    "", " ", "\n", "\0", "\x1b[31m", "0", "1", "true", "null", "NaN", "{}", "[]", '{"a":1}', '[{"type":"text"}]',
    '{"a":', "\\", '"',
    "é", "e\u0301", "😀", "\u2028\u2029", "\ufeff", "\ufffd", "\uffff", "\U0010ffff", "\u202e", "İ", "ß",
    "../../etc/passwd", "a/b~c", "#", ".", "__proto__", "$ref", "type", "id",
    "evt_000001", "evt_0", "evt_9999999", "evt_٣", "evt_²", "call_000001", "span_000001", "act_001", "conv_1", "[DONE]",
    "2026-03-02T09:00:00Z", "2026-03-02T09:00:00.123456789+05:30", "2026-02-30T25:61:61Z", "0000-00-00T00:00:00Z",
    "9999-12-31T23:59:59.999-23:59", "0001-01-01T00:00:00+14:00", "2026-03-02", "1772442000", "yesterday",
    MARKS, "[REDACTED:", "[nesting too deep]", "x" * 1300, "é" * 1500, "😀" * 700, MARKS * 60, "a\n" * 800,
    "data:image/png;base64,iVBORw0KGgo=", "iVBORw0KGgoAAAANSUhEUg==", "/9j/4AAQ", "=" * 9,
    f"use {TOKEN} now", f"export KEY={TOKEN}\nls", {f"key {TOKEN}": 1}, {"a": [{"b": f"{TOKEN} "}]},
    '{"a":"' + TOKEN + '"}',
    CANARY, {}, [], [[]], [{}], [None], {"": ""}, {"": {}}, {"type": None}, {"type": "text"},
    {"type": "text", "text": CANARY},
    {"type": []}, {"id": {}}, {"content": None}, {CANARY: CANARY}, {"truncated": True}, {"missing_result": True},
    {"redacted": True}, {"summary": "runtime"}, {"😀": 1, "\ue000": 2}, {"\0": 1}, {MARKS: 1},
    ["a", "b"], [1, "a", None, {}], [["a", 1], ["b"]], list(range(300)), ["ab"] * 400, [{}] * 200, [[]] * 200,
    {str(n): n for n in range(150)}, {"text": "y" * 3000, "data": ["z" * 900] * 4},
]  # fmt: skip


class Mutator:
    """Knows every key and value of the seeds, and puts them where they do not belong."""

    def __init__(self, seeds: Iterable[bytes]) -> None:
        self._seeds = list(seeds)
        self._values: dict[str, list[Any]] = defaultdict(list)
        self._lines: list[bytes] = []
        for data in self._seeds:
            self._lines += data.splitlines(keepends=True)
            for unit in _units(data):
                for holder, key in _places(unit.value):
                    if isinstance(holder, dict) and len(self._values[key]) < 200:
                        self._values[key].append(holder[key])
        self._keys = sorted(self._values)

    def change(self, data: bytes, rng: random.Random) -> bytes:
        """The input with a few changes, more often few than many."""
        if files := unpack(data):
            return self._change_folder(files, rng)
        if data.startswith((SQLITE, ZIP)) and rng.random() < 0.95:
            inside = change_database if data.startswith(SQLITE) else change_zip
            return inside(data, rng, lambda part: self.change(part, rng))
        for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            kind = rng.random()
            if kind < 0.72:
                data = self._as_json(data, rng)
            elif kind < 0.9:
                data = self._by_line(data, rng)
            else:
                data = by_byte(data, rng)
        return data

    def _change_folder(self, files: dict[str, bytes], rng: random.Random) -> bytes:
        name = rng.choice([name for name in files if name != WHOLE])
        files[name] = self.change(files[name].replace(START, b""), rng)
        return pack(files)

    def _as_json(self, data: bytes, rng: random.Random) -> bytes:
        units = list(_units(data))
        parsed = [unit for unit in units if unit.is_json]
        if not parsed:
            return by_byte(data, rng)
        unit = rng.choice(parsed)
        places = list(_places(unit.value))
        if places:
            holder, key = rng.choice(places)
            self._alter(holder, key, rng)
        else:
            unit.value = self._odd_value("", rng)
        unit.changed = True
        data = b"".join(part.written(rng) for part in units)
        return _key_twice(data, rng) if rng.random() < 0.04 else data

    def _alter(self, holder: Any, key: Any, rng: random.Random) -> None:
        choice = rng.random()
        name = key if isinstance(key, str) else ""
        if choice < 0.62:
            holder[key] = self._odd_value(name, rng)
        elif choice < 0.74:
            del holder[key]
        elif isinstance(holder, list):
            _alter_list(holder, key, self._odd_value("", rng), rng)
        elif choice < 0.86:
            other = rng.choice(self._keys or ["type"])
            holder[other] = self._odd_value(other, rng)
        elif choice < 0.95:
            holder[rng.choice(self._keys or ["type"])] = holder.pop(key)
        else:
            _shuffle_keys(holder, rng)

    def _odd_value(self, name: str, rng: random.Random) -> Any:
        choice = rng.random()
        if choice < 0.3 and self._values.get(name):
            return rng.choice(self._values[name])
        if choice < 0.45 and self._keys:
            return rng.choice(self._values[rng.choice(self._keys)])
        return rng.choice(_HOLES) if choice > 0.9 else rng.choice(_SIMPLE)

    def _by_line(self, data: bytes, rng: random.Random) -> bytes:
        lines = data.splitlines(keepends=True) or [b""]
        at = rng.randrange(len(lines))
        way = rng.randrange(10)
        if way == 0:
            del lines[at]
        elif way == 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        elif way == 2:
            rng.shuffle(lines)
        elif way == 3:
            lines[at:] = [lines[at][: rng.randrange(len(lines[at]) + 1)]]
        elif way == 4:
            lines[at : at + 2] = lines[at : at + 2][::-1]
        elif way == 5:
            lines.insert(
                at,
                rng.choice(
                    (b"\n", b"\r\n", b"{}\n", b"[]\n", b"null\n", b"1\n", b"data: {}\n\n", b"x\n")
                ),
            )
        elif way == 6:
            return data.replace(
                b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"", b" ", "\u2028".encode()))
            )
        elif way == 7:
            return _wrap(data, rng)
        elif self._lines:
            lines.insert(at, rng.choice(self._lines))
        return b"".join(lines)


class _Unit:
    """A JSON value of the input with the bytes around it, or bytes that are none."""

    def __init__(self, raw: bytes, before: bytes = b"", after: bytes = b"") -> None:
        self._raw, self._before, self._after = raw, before, after
        self.changed = False
        try:
            self.value: Any = json.loads(raw)
            self.is_json = True
        except (ValueError, RecursionError):
            self.value = None
            self.is_json = False

    def written(self, rng: random.Random) -> bytes:
        raw = self._raw
        if self.changed:
            try:
                text = json.dumps(
                    self.value,
                    ensure_ascii=rng.random() < 0.5,
                    separators=rng.choice(((",", ":"), None)),
                )
            except RecursionError:
                text = "[]"
            raw = _HOLE.sub(
                lambda hole: _FILLINGS[hole[1]](int(hole[2])), text.encode("utf-8", "surrogatepass")
            )
        return self._before + raw + self._after


def _units(data: bytes) -> Iterator[_Unit]:
    if files := unpack(data):
        for content in files.values():
            yield from _units(content)
        return
    whole = _Unit(data)
    if whole.is_json:
        yield whole
        return
    if data.startswith(b"{\n") and (several := list(_glued(data))):
        yield from several
        return
    for line in data.splitlines(keepends=True):
        bare = line.rstrip(b"\r\n")
        before = b"data: " if bare.startswith(b"data: ") else b""
        yield _Unit(bare[len(before) :], before, line[len(bare) :])


def _glued(data: bytes) -> Iterator[_Unit]:
    """Pretty-printed values one after another, as far as they parse."""
    text, place = data.decode("utf-8", "replace"), 0
    while place < len(text):
        try:
            _, end = json.JSONDecoder().raw_decode(text, place)
        except (ValueError, RecursionError):
            yield _Unit(text[place:].encode())
            return
        yield _Unit(text[place:end].encode(), after=b"\n")
        place = end
        while place < len(text) and text[place] in " \t\r\n":
            place += 1


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value: the container and the key or number in it."""
    stack = [value]
    while stack:
        holder = stack.pop()
        if isinstance(holder, dict | list):
            for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
                yield holder, key
                stack.append(holder[key])


def _alter_list(holder: list[Any], at: int, value: Any, rng: random.Random) -> None:
    way = rng.randrange(4)
    if way == 0:
        holder.insert(at, value)
    elif way == 1:
        holder.append(holder[at])
    elif way == 2:
        rng.shuffle(holder)
    else:
        holder[:] = holder * min(40, 2000 // len(holder) + 1)


def _shuffle_keys(holder: dict[str, Any], rng: random.Random) -> None:
    items = list(holder.items())
    rng.shuffle(items)
    holder.clear()
    holder.update(items)


def _key_twice(data: bytes, rng: random.Random) -> bytes:
    """One key renamed to another one of the input, which often stands beside it already."""
    found = list(_KEY.finditer(data))
    if not found:
        return data
    at, other = rng.choice(found), rng.choice(found)
    return data[: at.start(1)] + other[1] + data[at.end(1) :]


def _wrap(data: bytes, rng: random.Random) -> bytes:
    way = rng.randrange(8)
    if way < 3:
        packed = gzip.compress(data, 1, mtime=0)
        return (
            packed
            if way == 0
            else packed[: rng.randrange(len(packed))]
            if way == 1
            else by_byte(packed, rng)
        )
    if way == 3:
        return data.decode("utf-8", "replace").encode("utf-16")
    if way == 4:
        return b"[" + b",".join(data.split(b"\n")).strip(b",") + b"]"
    if way == 5:
        return b"".join(b"data: " + line + b"\n\n" for line in data.split(b"\n"))
    return rng.choice((b"\xef\xbb\xbf", b" ", b"\n\n", b"# ", b"\0")) + data


def by_byte(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut out, repeated or put in, without a thought of what they mean."""
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 2, 4, 16, 64, 1024)))
    way = rng.randrange(5)
    if way == 0:
        return data[:at] + data[end:]
    if way == 1:
        return data[:at] + data[at:end] * rng.choice((2, 3, 50)) + data[end:]
    if way == 2:
        return data[:at] + rng.randbytes(min(8, end - at)) + data[end:]
    if way == 3:
        other = rng.choice(
            (
                b"\0",
                b"\xff",
                b"\xc3",
                b"\xed\xa0\x80",
                b'"',
                b"\\",
                b"{",
                b"}",
                b"]",
                b",",
                b"\n",
                b"\r",
                b"\\ud800",
                b"\\u0000",
            )
        )
        return data[:at] + other + data[at:]
    return data[:at]
