"""Kill a process that indexes, again and again: no wrong result, no lost update.

    PYTHONPATH=src:tests python tests/longrun/crash_index.py ROUNDS [SEED]

Each round changes some sessions, starts an update and kills it at a random moment; only a kill
that meets it at work counts. The database must be sound after each. In the end, and every twenty
rounds, an update that is let be must make the
index hold just what one holds that is built from nothing.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from library.index.sessions import SessionFile
from open_token.library.index.database import FILE_NAME

SESSIONS = 30
CHECK_EVERY = 20
QUERIES = {
    "sessions": "SELECT path, title, events, prompts, calls, failures, added, removed, characters "
    "FROM session ORDER BY path",
    "events": "SELECT session.path, event.seq, event.role, event.tool, event.start, event.length "
    "FROM event JOIN block ON block.id = event.block JOIN session ON session.id = block.session "
    "ORDER BY 1, 2, 3",
    "texts": "SELECT session.path, block.number, block.text FROM block "
    "JOIN session ON session.id = block.session ORDER BY 1, 2",
    "words": "SELECT session.path, event.seq FROM word JOIN event ON event.id = word.rowid "
    "JOIN block ON block.id = event.block JOIN session ON session.id = block.session "
    "WHERE word MATCH 'tide' ORDER BY 1, 2",
    "usage": "SELECT session.path, usage.seq, usage.output FROM usage "
    "JOIN session ON session.id = usage.session ORDER BY 1, 2",
}


def build_env(home: Path, folder: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(home), "OPEN_TOKEN_HOME": str(folder)}


def start_update(home: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "open_token", "--quiet", "index"]
    return subprocess.Popen(command, env=build_env(home, folder), stdout=subprocess.DEVNULL)


def read_index(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    database = sqlite3.connect(folder / "cache" / FILE_NAME)
    try:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {name: database.execute(query).fetchall() for name, query in QUERIES.items()}
    finally:
        database.close()


def change_sessions(sessions: list[SessionFile], chance: random.Random) -> None:
    for session in chance.sample(sessions, 6):
        number = chance.randrange(10**6)
        session.ask(f"Question {number} about the tide")
        for step in range(chance.randrange(1, 12)):
            arguments = {"command": f"make {number}"}
            session.call("Bash", arguments, f"tide {step} " * 50, fails=step % 7 == 0)
        session.answer(f"Answer {number}", tokens=number)


def measure_update(home: Path, folder: Path) -> float:
    """Let an update be; return how many seconds it took."""
    started = time.monotonic()
    assert start_update(home, folder).wait() == 0
    return time.monotonic() - started


def check(home: Path, folder: Path) -> float:
    """Let an update be, and compare with an index that is built from nothing."""
    duration = measure_update(home, folder)
    fresh = folder.with_name("fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    assert start_update(home, fresh).wait() == 0
    found, expected = read_index(folder), read_index(fresh)
    for name in QUERIES:
        assert found[name] == expected[name], f"the index is wrong about {name}"
    return duration


def run(rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    kills = 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name, "home")
        folder = Path(name, "state")
        ids = [f"{number:08d}-aaaa-4aaa-8aaa-111111111111" for number in range(SESSIONS)]
        sessions = [SessionFile(home, session_id) for session_id in ids]
        for session in sessions:
            session.ask("A first question about the tide")
        measure_update(home, folder)
        change_sessions(sessions, chance)
        duration = measure_update(home, folder)
        late = 0
        while kills < rounds:
            change_sessions(sessions, chance)
            process = start_update(home, folder)
            time.sleep(chance.random() * duration)
            process.send_signal(signal.SIGKILL)
            was_killed = process.wait() == -signal.SIGKILL
            kills += was_killed
            late += not was_killed
            read_index(folder)
            if was_killed and (kills % CHECK_EVERY == 0 or kills == rounds):
                duration = check(home, folder)
                print(f"{kills} killed at work, {late} too late: the index is right", flush=True)


if __name__ == "__main__":
    given_seed = sys.argv[2] if len(sys.argv) > 2 else "-"
    used_seed = random.SystemRandom().randrange(10**6) if given_seed == "-" else int(given_seed)
    print(f"seed {used_seed}", flush=True)
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 200, used_seed)
