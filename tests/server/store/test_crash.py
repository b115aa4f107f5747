"""A process that is killed while it writes loses nothing that it said was done."""

import random
from pathlib import Path

import pytest

from helpers.server.stores import (
    ANNA,
    BlockingStore,
    at,
    create_session,
    entries,
    session_row,
    turn_row,
)
from longrun import crash_store
from open_token.server.store.rows import NewEntry, SessionWrite


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.full)])
def test_kills_lose_nothing(tmp_path: Path, kills: int) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    count, found = crash_store.campaign(tmp_path / "data", kills, seed)
    assert found == []
    assert count > kills


@pytest.mark.full
def test_twenty_kills_of_nodes_and_database_lose_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    count, found = crash_store.campaign(tmp_path / "data", 20, seed, "postgres")
    assert found == []
    assert count > 20


def test_the_checker_sees_what_is_planted(store: BlockingStore) -> None:
    for number in range(crash_store.SESSIONS):
        create_session(store, f"sess_{number}")
    assert crash_store.faults(store, []) == []
    lost = crash_store.faults(store, [("sess_0", 0, 1, 1, 2)])
    assert lost == [
        "sess_0: step (0, 1) was acknowledged at 1-2 and is at []",
        "history: sess_0: what was acknowledged at 1 is not there",
    ]
    noted = entries(2, lane=0)
    step = SessionWrite(owner=ANNA, session_id="sess_1", entries=[noted[1]])
    store.append(step)
    store.append(step)
    found = crash_store.faults(store, [])
    assert (
        "sess_1: step (0, 1) is doubled or not whole" not in found
    )  # two parts are right for the first
    assert "sess_1: the turns say otherwise than the log" in found
    assert "sess_1: the session's row is not that of the last step" in found
    store.append(step)
    assert "sess_1: step (0, 1) is doubled or not whole" in crash_store.faults(store, [])
    row = session_row("lane0 number1")
    turn = turn_row(
        crash_store._turn_sequence(0, 1), body=b'{"done":1}', text=crash_store._turn_word(0, 1)
    )
    parts = [NewEntry(kind="noted", at=at(1), data=data) for data in crash_store._payloads(0, 1)]
    store.append(
        SessionWrite(owner=ANNA, session_id="sess_2", entries=parts, turns=[turn], session=row)
    )
    assert [problem for problem in crash_store.faults(store, []) if "sess_2" in problem] == []


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        ("payload", "step (0, 1) holds something else than was written"),
        ("turn", "the turns say otherwise than the log"),
        ("search", "a search does not find the turn of (0, 1)"),
        ("session", "the session's row is not that of the last step"),
        ("blob", "the blob of step (0, 7) is not what was written"),
    ],
)
def test_the_checker_finds_a_fault_in_one_row(
    store: BlockingStore, planted: str, fault: str
) -> None:
    for number in range(crash_store.SESSIONS):
        create_session(store, f"sess_{number}")
    number = crash_store.BIG_EVERY if planted == "blob" else 1
    payloads = crash_store._payloads(0, number)
    if planted == "payload":
        payloads[0] = payloads[0] | {"words": "y" * 99}
    turn = turn_row(
        crash_store._turn_sequence(0, number),
        body=b'{"done":%d}' % number,
        text="nothing" if planted == "search" else crash_store._turn_word(0, number),
    )
    store.append(
        SessionWrite(
            owner=ANNA,
            session_id="sess_0",
            entries=[NewEntry(kind="noted", at=at(1), data=data) for data in payloads],
            turns=[] if planted == "turn" else [turn],
            session=session_row("lane0 number9" if planted == "session" else "lane0 number1"),
        )
    )
    assert f"sess_0: {fault}" in crash_store.faults(store, [])
