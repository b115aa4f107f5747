"""Kills a process that writes to a store, again and again, and looks at what it left behind.

    python tests/longrun/crash_store.py [ROUNDS] [SEED] [KIND]

Lost is an entry that was acknowledged and is not there; what was on its way may be there or not,
but whole. On PostgreSQL two processes write the same messages at once, as a client does that sends
again over another node, and every third kill is one of the database itself."""

import asyncio
import hashlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from helpers.server.local_services import postgres
from helpers.server.store_history import History
from helpers.server.stores import (
    ANNA,
    STORES,
    BlockingStore,
    at,
    create_session,
    open_store,
    session_row,
    turn_row,
)
from open_token.server.store.interface import Store
from open_token.server.store.rows import NewEntry, SessionWrite

Said = tuple[str, int, int, int, int]
"""A session, a lane, the number of a step, and where its entries stand."""

SESSIONS, WRITERS = 4, 12
LANES = WRITERS // SESSIONS
STEPS_PER_TURN = 2
"""So many steps of a lane write the same turn: rows are added, and rows are replaced."""
SEARCHED_TURNS = 20
BIG_EVERY = 7
ROUNDS_EACH = 50
"""After so many kills a new folder is begun: what is held is read whole each time."""


async def write_for_ever(store: Store) -> None:
    """Write steps to some sessions at once, and say each one that is done, until somebody ends
    it."""
    await asyncio.gather(
        *(_write(store, f"sess_{n % SESSIONS}", n // SESSIONS) for n in range(WRITERS))
    )


async def _write(store: Store, session_id: str, lane: int) -> None:
    """One writer, whose messages are numbered: its turn and its last message say how far it is."""
    turns = await store.turns(ANNA, session_id, whole_tree=True)
    done = next(
        (
            msgspec.json.decode(turn.body)["done"]
            for turn in sorted(turns, key=lambda turn: -turn.sequence)
            if turn.sequence % LANES == lane
        ),
        0,
    )
    number = max(done, 1)  # the last one once more: it may have been done without a word
    while True:
        appended = await store.append(await _step(store, session_id, lane, number))
        sys.stdout.write(f"{session_id} {lane} {number} {appended.first} {appended.last}\n")
        sys.stdout.flush()
        number += 1


def _blob(lane: int, number: int) -> bytes | None:
    """What a step stores beside its entries, if anything."""
    return b"%d/%d " % (lane, number) * 3000 if number % BIG_EVERY == 0 else None


def _turn_sequence(lane: int, number: int) -> int:
    return lane + LANES * (number // STEPS_PER_TURN)


def _turn_word(lane: int, number: int) -> str:
    """The word that only the turn of a lane holds after a step: nothing else makes it found."""
    return f"turn{lane}x{number}"


def _payloads(lane: int, number: int) -> list[Any]:
    """What the entries of a step hold: the checker derives it again and compares all of it."""
    blob = _blob(lane, number)
    hashes = [] if blob is None else [hashlib.sha256(blob).hexdigest()]
    data = {"lane": lane, "number": number, "words": "x" * (number % 700), "blobs": hashes}
    return [data | {"part": part} for part in range(1 + number % 3)]


async def _step(store: Store, session_id: str, lane: int, number: int) -> SessionWrite:
    blobs = []
    if (blob := _blob(lane, number)) is not None:
        blobs.append((await store.put_blob(blob, "text/plain")).sha256)
    return SessionWrite(
        owner=ANNA,
        session_id=session_id,
        entries=[NewEntry(kind="noted", at=at(0), data=data) for data in _payloads(lane, number)],
        turns=[
            turn_row(
                _turn_sequence(lane, number),
                body=msgspec.json.encode({"done": number}),
                text=_turn_word(lane, number),
            )
        ],
        session=session_row(f"lane{lane} number{number}"),
        blobs=blobs,
        client_message_id=f"{lane}/{number}",
    )


def one_round(
    folder: Path, wait: float, kind: str = "sqlite", *, kills_database: bool = False
) -> list[Said]:
    """Let processes write for a while, kill them or their database; gives what they said was
    done."""
    command = [sys.executable, __file__, "write", str(folder), kind]
    count = 1 if kind == "sqlite" else 2
    env = {"PYTHONPATH": ":".join(sys.path)}
    # Nothing is read ahead: `communicate` would not see it.
    children = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, bufsize=0
        )
        for _ in range(count)
    ]
    firsts = [child.stdout.readline() for child in children if child.stdout]
    time.sleep(wait)
    if kills_database:
        postgres().end(signal.SIGKILL)
        (postgres().folder / "data" / "postmaster.pid").unlink(missing_ok=True)
    for child in children:
        child.send_signal(signal.SIGKILL)
    lines = firsts
    for child in children:
        out, problems = child.communicate()
        lines += out.splitlines(keepends=True)
        if not kills_database and problems:
            raise RuntimeError(problems.decode(errors="replace")[-2000:])
    if kills_database:
        postgres().start()
    whole = [line.decode().split() for line in lines if line.endswith(b"\n")]
    return [
        (name, int(lane), int(number), int(start), int(end))
        for name, lane, number, start, end in whole
    ]


def faults(store: BlockingStore, said: list[Said]) -> list[str]:
    """What is wrong after a kill: entries lost, doubled or out of order, rows that say something
    else than the log."""
    found = [f"check: {problem}" for problem in store.check(is_deep=True)]
    history = History()
    for session_id, lane, number, first, last in said:
        history.acknowledged(
            session_id, [(lane, number, part) for part in range(1 + last - first)], first
        )
    logs = {}
    for number in range(SESSIONS):
        session_id = f"sess_{number}"
        log = store.read_log(ANNA, session_id, 0, 10**9)
        logs[session_id] = [
            (entry.seq, (entry.data["lane"], entry.data["number"], entry.data.get("part")))
            for entry in log
        ]
        if store.session(ANNA, session_id).stream_sequence != len(log):
            found.append(f"{session_id}: the session counts otherwise than the log")
        found += _against_log(
            store, session_id, log, [line for line in said if line[0] == session_id]
        )
    return [*found, *(f"history: {fault}" for fault in history.faults(logs))]


def _against_log(
    store: BlockingStore, session_id: str, log: list[Any], said: list[Said]
) -> list[str]:
    found = []
    steps: dict[int, list[int]] = {lane: [] for lane in range(LANES)}
    parts: dict[tuple[int, int], list[int]] = {}
    for entry in log:
        key = (entry.data["lane"], entry.data["number"])
        if key not in parts:
            steps[key[0]].append(key[1])
        parts.setdefault(key, []).append(entry.seq)
    for key, seqs in parts.items():
        if seqs != list(range(seqs[0], seqs[0] + 1 + key[1] % 3)):
            found.append(f"{session_id}: step {key} is doubled or not whole")
    for _, lane, number, first, last in said:
        seqs = parts.get((lane, number), [])
        if seqs != list(range(first, last + 1)):
            found.append(
                f"{session_id}: step {(lane, number)} was acknowledged at {first}-{last} and is at {seqs}"
            )
    for key, seqs in parts.items():
        if [log[seq - 1].data for seq in seqs] != _payloads(*key)[: len(seqs)]:
            found.append(f"{session_id}: step {key} holds something else than was written")
        blob = _blob(*key)
        if blob is not None:
            kept = store.read_blob(ANNA, session_id, hashlib.sha256(blob).hexdigest())
            if kept != blob:
                found.append(f"{session_id}: the blob of step {key} is not what was written")
    expected: dict[int, int] = {}
    for lane, numbers in steps.items():
        last_steps = {_turn_sequence(lane, number): number for number in numbers}
        expected |= last_steps
        for number in list(last_steps.values())[-SEARCHED_TURNS:]:
            page = store.sessions(ANNA, _turn_word(lane, number), limit=SESSIONS, offset=0)
            if session_id not in [session.id for session in page.items]:
                found.append(f"{session_id}: a search does not find the turn of {(lane, number)}")
    rows = {
        turn.sequence: msgspec.json.decode(turn.body)["done"]
        for turn in store.turns(ANNA, session_id, True)
    }
    if rows != expected:
        found.append(f"{session_id}: the turns say otherwise than the log")
    if any(numbers != list(range(1, len(numbers) + 1)) for numbers in steps.values()):
        found.append(f"{session_id}: a message is missing or out of order")
    newest = log[-1].data if log else None
    if (
        newest
        and store.session(ANNA, session_id).intent
        != f"lane{newest['lane']} number{newest['number']}"
    ):
        found.append(f"{session_id}: the session's row is not that of the last step")
    return found


def campaign(folder: Path, rounds: int, seed: int, kind: str = "sqlite") -> tuple[int, list[str]]:
    """Kill at random moments; gives how many steps were acknowledged, and what was wrong."""
    rng = random.Random(seed)
    store = open_store(folder, kind)
    for number in range(SESSIONS):
        create_session(store, f"sess_{number}")
    store.close()
    said: list[Said] = []
    for played in range(rounds):
        kills_database = kind == "postgres" and played % 3 == 2
        said += one_round(folder, rng.uniform(0, 0.25), kind, kills_database=kills_database)
        store = open_store(folder, kind)
        found = faults(store, said)
        store.close()
        if found:
            return len(said), [f"seed {seed}, round {played}: {problem}" for problem in found]
    return len(said), []


def main(words: list[str]) -> None:
    if words[:1] == ["write"]:
        asyncio.run(write_for_ever(STORES[words[2]](Path(words[1]))))
    rounds = int(words[0]) if words else 1000
    seed = (
        int(words[1]) if words[1:] and words[1] != "-" else random.SystemRandom().randrange(10**6)
    )
    kind = words[2] if words[2:] else "sqlite"
    print(f"{rounds} kills on {kind}, seed {seed}", flush=True)
    count, found = 0, list[str]()
    for start in range(0, rounds, ROUNDS_EACH):
        with tempfile.TemporaryDirectory() as folder:
            said, found = campaign(
                Path(folder) / "data", min(ROUNDS_EACH, rounds - start), seed + start, kind
            )
        count += said
        if found:
            break
    print(
        "\n".join(found)
        or f"{count} acknowledged steps: none lost, none doubled, no gap, rows as in the log"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main(sys.argv[1:])
