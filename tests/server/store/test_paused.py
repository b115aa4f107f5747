"""A node that was paused and wakes finds itself fenced off: what it was about to write is not
written."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.server import paused_worker
from helpers.server.store_history import History
from helpers.server.stores import ANNA, at, create_session, open_store
from open_token.server.store.rows import Fence, NewEntry, NewRun, SessionWrite

ROUNDS = 6


@pytest.mark.full
def test_a_node_that_slept_too_long_writes_nothing_more(tmp_path: Path) -> None:
    for played in range(ROUNDS):
        _one_round(tmp_path / str(played), 0.02 * played)


def _one_round(folder: Path, wait: float) -> None:
    store = open_store(folder, "postgres")
    create_session(store)
    store.append(SessionWrite(owner=ANNA, session_id="sess_1", run=NewRun(id="run_1", at=at(1))))
    first = store.claim_run("slow", at(10), at(40))
    command = [sys.executable, paused_worker.__file__, str(folder), str(first.fencing_token)]
    env = {"PYTHONPATH": ":".join(sys.path)}
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=env, bufsize=0
    )  # nothing is read ahead
    assert child.stdout
    lines = [child.stdout.readline()]
    time.sleep(wait)
    child.send_signal(signal.SIGSTOP)
    second = store.claim_run("quick", at(100), at(130))
    while (
        second is None
    ):  # the paused one may hold the row in the middle of a step, which the database ends with it
        second = store.claim_run("quick", at(100), at(130))
        time.sleep(0.05)
    history = History()
    for number in range(20):
        entry = NewEntry(kind="noted", at=at(0), data={"token": 2, "number": number})
        fence = Fence(run_id="run_1", token=second.fencing_token)
        result = store.append(
            SessionWrite(owner=ANNA, session_id="sess_1", entries=[entry], fence=fence)
        )
        history.acknowledged("sess_1", [(2, number)], result.first)
    child.send_signal(signal.SIGCONT)
    lines += child.communicate(timeout=60)[0].splitlines()
    words = [line.decode().split() for line in lines]
    assert words[-1][0] == "fenced"
    for _, number, at_sequence in words[:-1]:
        history.acknowledged("sess_1", [(1, int(number))], int(at_sequence))
    log = [
        (entry.seq, (entry.data["token"], entry.data["number"]))
        for entry in store.read_log(ANNA, "sess_1", 0, 10**6)
    ]
    assert history.faults({"sess_1": log}) == []
    tokens = [event[0] for _, event in log]
    assert tokens == sorted(tokens)
    store.close()
