"""A copy made while others write is sound, and becomes a data folder again."""

import asyncio
import shutil
from pathlib import Path

import pytest

from helpers.server.stores import ANNA, BlockingStore, create_session, entries, open_store, turn_row
from open_token.errors import OutputError, StoreError
from open_token.server.store import backup
from open_token.server.store.rows import SessionWrite


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a session, a blob and a key."""
    store = open_store(tmp_path / "data")
    create_session(store)
    blob = store.put_blob(b"long result", "text/plain")
    step = SessionWrite(
        owner=ANNA, session_id="sess_1", entries=entries(3), turns=[turn_row(0, text="words")]
    )
    store.append(step)
    store.append(
        SessionWrite(owner=ANNA, session_id="sess_1", entries=entries(1), blobs=[blob.sha256])
    )
    store.put_blob(b"nobody has it", "text/plain")
    store.close()
    return tmp_path / "data"


def test_a_backup_under_load_is_one_moment(store: BlockingStore, tmp_path: Path) -> None:
    create_session(store)
    _, plaintext = store.add_key(ANNA, "laptop", "full", "2026-01-31T00:00:00.000Z")
    begun = asyncio.Event()

    async def write_and_copy() -> None:
        writing = asyncio.create_task(write())
        await begun.wait()
        await store.store.backup(tmp_path / "copy")
        writing.cancel()

    async def write() -> None:
        while True:
            await store.store.append(
                SessionWrite(owner=ANNA, session_id="sess_1", entries=entries(2))
            )
            begun.set()

    store.loop.run_until_complete(write_and_copy())
    backup.restore(tmp_path / "copy", tmp_path / "again")
    again = open_store(tmp_path / "again")
    held = len(again.read_log(ANNA, "sess_1", 0, 10**6))
    assert held % 2 == 0
    assert 0 < held <= store.session(ANNA, "sess_1").stream_sequence
    assert again.check_key(plaintext, "2026-01-31T00:00:01.000Z") is not None
    again.append(SessionWrite(owner=ANNA, session_id="sess_1", entries=entries(1), expected=held))
    again.close()


def test_backup_has_the_blobs_of_sessions_and_private_files(data: Path, tmp_path: Path) -> None:
    backup.backup(data, tmp_path / "copy")
    names = sorted(path.name for path in (tmp_path / "copy").rglob("*") if path.is_file())
    assert len(names) == 3
    assert names[1:] == ["pepper", "server.db"]
    backup.restore(tmp_path / "copy", tmp_path / "again")
    for name in ("copy", "copy/pepper", "copy/server.db", "again"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0, name


def test_a_target_that_is_there_is_left_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_text("kept")
    with pytest.raises(OutputError):
        backup.backup(data, tmp_path / "copy")
    assert (tmp_path / "copy" / "mine").read_text() == "kept"
    with pytest.raises(OutputError):
        backup.restore(data, data)


def test_what_is_no_data_folder_is_said(tmp_path: Path) -> None:
    for work in (lambda: backup.backup(tmp_path, tmp_path / "x"), lambda: backup.check(tmp_path)):
        with pytest.raises(StoreError) as caught:
            work()
        assert caught.value.code == "store.none"


def test_a_damaged_backup_is_not_restored(data: Path, tmp_path: Path) -> None:
    backup.backup(data, tmp_path / "copy")
    (blob,) = (path for path in (tmp_path / "copy" / "blobs").rglob("*") if path.is_file())
    blob.write_bytes(b"short result")
    with pytest.raises(StoreError) as caught:
        backup.restore(tmp_path / "copy", tmp_path / "again")
    assert caught.value.code == "store.damaged"
    assert not (tmp_path / "again").exists()


def test_the_check_names_what_is_wrong(data: Path) -> None:
    assert backup.check(data, is_deep=True) == []
    blobs = data / "blobs"
    shutil.move(blobs, data / "elsewhere")
    assert [problem for problem in backup.check(data) if "blob" in problem]
    shutil.move(data / "elsewhere", blobs)
    image = bytearray((data / "server.db").read_bytes())
    image[4096 * 5 : 4096 * 30] = b"\xa5" * 4096 * 25
    (data / "server.db").write_bytes(image)
    assert backup.check(data)
