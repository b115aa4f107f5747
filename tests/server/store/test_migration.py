"""Data go to PostgreSQL and come back the same, or nothing happens."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from helpers.server.stores import (
    ANNA,
    BEN,
    BlockingStore,
    at,
    create_session,
    entries,
    new_postgres,
    open_store,
    session_row,
    turn_row,
)
from open_token.errors import OpenTokenError, StoreError
from open_token.server.store import migration
from open_token.server.store.rows import (
    Checkpoint,
    Firing,
    NewMemory,
    NewRun,
    NewTask,
    SessionWrite,
)


def filled(folder: Path) -> str:
    """A data folder with something in every table; gives a key that opens it."""
    store = open_store(folder)
    _, plaintext = store.add_key(ANNA, "laptop", "full", at(1))
    for number in range(3):
        owner = BEN if number == 2 else ANNA
        name = f"sess_{number}"
        create_session(store, name, owner, intent=f"Größer 数据 {number}", is_pinned=number == 1)
        blob = store.put_blob(b"big %d" % number * 5000, "text/plain")
        store.append(
            SessionWrite(
                owner=owner,
                session_id=name,
                entries=entries(2500, text="a\0b 数据", big=2**70),
                turns=[turn_row(0, text="naïve needle"), turn_row(1, 0)],
                session=session_row(f"Größer 数据 {number}", head="entry_1"),
                checkpoints=[Checkpoint(id="c1", created_at=at(1))],
                blobs=[blob.sha256],
                client_message_id="m1",
                run=NewRun(id=f"run_{number}", at=at(5)),
            )
        )
    store.add_share(ANNA, "sess_0", at(1), at(100))
    old = store.add_memory(ANNA, NewMemory(content="likes tea", type="feedback", created_at=at(1)))
    store.add_memory(
        ANNA, NewMemory(content="likes coffee", type="feedback", created_at=at(2)), [old.id]
    )
    gone = store.add_memory(ANNA, NewMemory(content="gone", type="feedback", created_at=at(3)))
    store.delete_memories(ANNA, [gone.id])
    store.claim_run("w", at(10), at(40))
    store.add_task(
        ANNA,
        NewTask(
            id="task_1", title="T", prompt="P", cron="0 9 * * *", timezone="UTC", created_at=at(1)
        ),
    )
    store.fire_task(
        Firing(
            task_id="task_1", owner=ANNA, run_id="trun_1", fire_at=at(1), at=at(1), error="skipped"
        )
    )
    store.set_setting("title", "Ours")
    store.close()
    return plaintext


def said(store: BlockingStore, plaintext: str) -> list[Any]:
    """What a store answers to many questions."""
    lists = [
        store.sessions(owner, q) for owner in (ANNA, BEN) for q in (None, "naive needle", "数据")
    ]
    names = ("sess_0", "sess_1")
    logs = [store.read_log(ANNA, name, 2400, 200) for name in names]
    trees = [
        (store.turns(ANNA, name), store.checkpoints(ANNA, name), store.runs(ANNA, name))
        for name in names
    ]
    people = [store.users(), store.check_key(plaintext, at(1)).user, store.setting("title")]
    memories = [store.memories(ANNA), store.find_relevant_memories(ANNA, "coffee")]
    tasks = [store.tasks(ANNA), store.list_task_runs(ANNA)]
    return [logs, lists, trees, people, memories, tasks, store.check(is_deep=True)]


@pytest.mark.full
def test_there_and_back_everything_is_the_same(tmp_path: Path) -> None:
    plaintext = filled(tmp_path / "data")
    first = open_store(tmp_path / "data")
    answers = said(first, plaintext)
    first.close()
    url = new_postgres()
    there = asyncio.run(migration.to_postgres(tmp_path / "data", url))
    assert (there.rows["log"], there.rows["sessions"], there.blobs) == (7500, 3, 3)
    node = tmp_path / "node"
    node.mkdir()
    (node / "pepper").write_bytes((tmp_path / "data" / "pepper").read_bytes())
    (node / "url").write_text(url)
    second = open_store(node, "postgres")
    assert said(second, plaintext) == answers
    second.close()
    back = asyncio.run(migration.to_folder(url, tmp_path / "back", node / "pepper"))
    assert (tmp_path / "back").stat().st_mode & 0o077 == 0
    assert (back.rows, back.blobs) == (there.rows, there.blobs)
    third = open_store(tmp_path / "back")
    assert said(third, plaintext) == answers
    assert (
        third.append(SessionWrite(owner=ANNA, session_id="sess_0", entries=entries(1))).last == 2501
    )
    assert (
        third.add_memory(ANNA, NewMemory(content="new", type="feedback", created_at=at(4))).id > 2
    )
    third.close()
    assert answers[0][0][0].data["text"] == "a\0b 数据"


@pytest.mark.full
def test_numbers_go_on_after_a_move(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    url = new_postgres()
    asyncio.run(migration.to_postgres(tmp_path / "data", url))
    (tmp_path / "data" / "url").write_text(url)
    store = open_store(tmp_path / "data", "postgres")
    assert (
        store.add_memory(ANNA, NewMemory(content="new", type="feedback", created_at=at(4))).id == 4
    )
    create_session(store, "sess_new")
    assert store.sessions(ANNA).total == 3
    assert store.claim_run("w", at(11), at(41)).id == "run_1"
    store.close()


@pytest.mark.full
def test_a_title_with_a_zero_character_keeps_nothing_from_moving(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    create_session(store, "sess_0", intent="a\0b")
    store.close()
    url = new_postgres()
    assert asyncio.run(migration.to_postgres(tmp_path / "data", url)).rows["sessions"] == 1
    (tmp_path / "data" / "url").write_text(url)
    store = open_store(tmp_path / "data", "postgres")
    assert store.session(ANNA, "sess_0").intent == "a\ufffdb"
    create_session(store, "sess_1", intent="c\0d")
    assert store.session(ANNA, "sess_1").intent == "c\ufffdd"
    store.close()


@pytest.mark.full
def test_a_database_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path / "data")
    url = new_postgres()
    asyncio.run(migration.to_postgres(tmp_path / "data", url))
    with pytest.raises(StoreError) as caught:
        asyncio.run(migration.to_postgres(tmp_path / "data", url))
    assert caught.value.code == "store.used"
    with pytest.raises(OpenTokenError, match="there already"):
        asyncio.run(migration.to_folder(url, tmp_path / "data", tmp_path / "data" / "pepper"))
    with pytest.raises(StoreError) as caught:
        asyncio.run(migration.to_folder(url, tmp_path / "new", tmp_path / "nothing"))
    assert (caught.value.code, (tmp_path / "new").exists()) == ("store.pepper", False)


@pytest.mark.full
def test_a_copy_that_differs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path / "data")
    insert, url = migration._insert_into_postgres, new_postgres()

    async def spoilt(db: Any, table: Any, source: Any, rows: list[tuple[Any, ...]]) -> None:
        await insert(db, table, source, rows[:-1] if table.name == "log" else rows)

    monkeypatch.setattr(migration, "_insert_into_postgres", spoilt)
    with pytest.raises(StoreError, match="the copy of log"):
        asyncio.run(migration.to_postgres(tmp_path / "data", url))
    monkeypatch.setattr(migration, "_insert_into_postgres", insert)
    assert asyncio.run(migration.to_postgres(tmp_path / "data", url)).rows["log"] == 7500


def test_a_running_server_is_not_moved(tmp_path: Path) -> None:
    store = open_store(tmp_path / "data")
    with pytest.raises(StoreError) as caught:
        asyncio.run(migration.to_postgres(tmp_path / "data", "postgresql://127.0.0.1:1/x"))
    store.close()
    assert caught.value.code == "store.locked"
