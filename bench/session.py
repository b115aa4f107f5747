"""Makes a Claude Code session of a wanted size: real ones from ../shared/corpus with fresh ids,
else one of our own.

With fresh words each repetition says something else, in words of the same text, so that no string
stands twice."""

import json
import random
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "claude_code"
REAL = (
    "agentcmd_askuserquestion",
    "agentcmd_image_interrupt",
    "agentcmd_missing_results",
    "cca_v0.2.105_first2.3MB",
)
_IDS = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:toolu|msg|req)_[0-9A-Za-z]{20,}"
)
_WORD = re.compile(r"(?<![\w\\])[A-Z]?[a-z]{3,}(?!\w)")
_SAID = ("message", "toolUseResult")
_KEPT = frozenset(
    (
        "type",
        "role",
        "id",
        "tool_use_id",
        "model",
        "name",
        "media_type",
        "stop_reason",
        "signature",
        "data",
    )
)
_WORDS = "the test fails because parser reads one line too many and the buffer is not reset before next call".split()


def real_lines() -> list[bytes]:
    """The lines of the real sessions, each record once; none when the corpus is not there."""
    lines: list[bytes] = []
    seen: set[str] = set()
    for name in REAL:
        path = CORPUS / f"{name}.jsonl"
        for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else []:
            key = json.loads(line).get("uuid") or line.decode()
            if key not in seen:
                seen.add(key)
                lines.append(line)
    return lines


def own_lines() -> list[bytes]:
    """A session of our own: prompts, thoughts, calls with bulky results, answers."""
    chance = random.Random(7)

    def text(words: int) -> str:
        return " ".join(chance.choice(_WORDS) for _ in range(words))

    def new_id() -> str:
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))

    lines, parent, session = [], None, new_id()
    for turn in range(200):
        call = f"toolu_{chance.getrandbits(120):030d}"[:36]
        output = "\n".join(f"{n:6}\t{text(9)}" for n in range(chance.randrange(5, 120)))
        message = {
            "id": f"msg_{turn:024d}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
        }
        usage = {"input_tokens": 5, "output_tokens": 120, "cache_read_input_tokens": 9000}
        calls = [
            {
                "type": "tool_use",
                "id": call,
                "name": "Read",
                "input": {"file_path": f"src/part{turn}.py"},
            }
        ]
        result = [{"type": "tool_result", "tool_use_id": call, "content": output}]
        for kind, body in (
            ("user", {"message": {"role": "user", "content": text(30)}}),
            (
                "assistant",
                {
                    "message": {
                        **message,
                        "content": [{"type": "text", "text": text(60)}],
                        "usage": usage,
                    }
                },
            ),
            ("assistant", {"message": {**message, "content": calls, "usage": usage}}),
            (
                "user",
                {
                    "message": {"role": "user", "content": result},
                    "toolUseResult": {"type": "text", "file": {"content": output * 2}},
                },
            ),
        ):
            record = {
                "parentUuid": parent,
                "isSidechain": False,
                "cwd": "/project",
                "sessionId": session,
                "version": "2.0.0",
                "type": kind,
                **body,
                "uuid": new_id(),
                "timestamp": f"2026-01-02T03:{turn // 60:02d}:{turn % 60:02d}.000Z",
            }
            parent = record["uuid"]
            lines.append(json.dumps(record, separators=(",", ":")).encode() + b"\n")
    return lines


def session(size: int) -> Iterator[bytes]:
    """Lines of about that many bytes in all; each repetition has ids of its own, and stays one
    session."""
    lines = real_lines() or own_lines()
    first = _session_id(lines)
    block = b"".join(lines)
    made = copy = 0
    while made < size:
        fresh = with_fresh_ids(block, first, copy) if copy else block
        copy += 1
        for line in fresh.splitlines(keepends=True):
            yield line
            made += len(line)
            if made >= size:
                return


def fresh_session(size: int) -> Iterator[bytes]:
    """As a session, but each repetition has words of its own in the place of every other word."""
    lines = real_lines() or own_lines()
    first, chance = _session_id(lines), random.Random(11)
    alike: dict[tuple[bool, int], list[str]] = {}
    for word in sorted(set(_WORD.findall(b"".join(lines).decode("utf-8", "replace")))):
        alike.setdefault(_shape(word), []).append(word)

    def other(found: re.Match[str]) -> str:
        return (
            chance.choice(alike.get(_shape(found[0]), [found[0]]))
            if chance.random() < 0.5
            else found[0]
        )

    made = copy = 0
    while made < size:
        copy += 1
        for line in lines:
            record = json.loads(with_fresh_ids(line, first, copy))
            record |= {key: _with_fresh_words(record[key], other) for key in _SAID if key in record}
            fresh = (
                json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode(
                    "utf-8", "replace"
                )
                + b"\n"
            )
            yield fresh
            made += len(fresh)
            if made >= size:
                return


def _shape(word: str) -> tuple[bool, int]:
    return word[0].isupper(), len(word)


def _with_fresh_words(value: Any, other: Callable[[re.Match[str]], str]) -> Any:
    if isinstance(value, str):
        return _WORD.sub(other, value)
    if isinstance(value, list):
        return [_with_fresh_words(item, other) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in _KEPT else _with_fresh_words(item, other)
            for key, item in value.items()
        }
    return value


def with_fresh_ids(block: bytes, keep: bytes, copy: int) -> bytes:
    return _IDS.sub(lambda found: _renamed(found[0], keep, copy), block)


def _session_id(lines: list[bytes]) -> bytes:
    found = re.search(rb'"sessionId":"([^"]+)"', b"".join(lines[:40]))
    return found[1] if found else b""


def _renamed(name: bytes, keep: bytes, copy: int) -> bytes:
    return name if name == keep else name[:-6] + f"{copy:06x}".encode()


def write(path: Path, size: int, *, fresh: bool = False) -> int:
    """Write a session of about that size; returns the longest line."""
    longest = 0
    with path.open("wb") as out:
        for line in fresh_session(size) if fresh else session(size):
            longest = max(longest, len(line))
            out.write(line)
    return longest
