"""Makes a home with many Claude Code sessions, for benchmarks of whole collections.

Every session has an id of its own and other words than the others, so that none is a duplicate.
"""

import json
import os
import random
import re
import uuid
from pathlib import Path

import session

_FIRST_TIME = 1_760_000_000
_WORD = re.compile(rb"(?<![\w\\])[a-z]{4,}(?!\w)")


def write_home(home: Path, count: int, kilobytes: int = 120) -> int:
    """Write the sessions below a home folder; return how many bytes they have together."""
    lines = session.real_lines() or session.own_lines()
    words = sorted(set(_WORD.findall(b"".join(lines))))
    total = 0
    for number in range(count):
        project = home / ".claude" / "projects" / f"-home-you-project{number % 40}"
        project.mkdir(parents=True, exist_ok=True)
        chance = random.Random(number)
        name = str(uuid.UUID(int=chance.getrandbits(128), version=4))
        data = b"".join(_pick_lines(lines, kilobytes * 1000, name, number, words, chance))
        path = project / f"{name}.jsonl"
        path.write_bytes(data)
        os.utime(path, (_FIRST_TIME + number, _FIRST_TIME + number))
        total += len(data)
    return total


def _pick_lines(
    lines: list[bytes],
    size: int,
    name: str,
    number: int,
    words: list[bytes],
    chance: random.Random,
) -> list[bytes]:
    """Return consecutive lines with fresh ids, and with other words in a tenth of the places."""

    def replace(found: re.Match[bytes]) -> bytes:
        return chance.choice(words) if chance.random() < 0.1 else found[0]

    picked = []
    written = 0
    place = chance.randrange(len(lines))
    while written < size:
        line = session.with_fresh_ids(lines[place % len(lines)], b"", number)
        place += 1
        record = json.loads(line)
        if "sessionId" in record:
            record["sessionId"] = name
        for key in ("message", "toolUseResult"):
            if key in record:
                fresh = _WORD.sub(replace, json.dumps(record[key]).encode())
                try:
                    record[key] = json.loads(fresh)
                except ValueError:
                    continue
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        picked.append(line)
        written += len(line)
    return picked
