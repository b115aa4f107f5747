"""Files appear whole or not at all; the spool gives back what it took."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import platformdirs
import pytest

from helpers.full_disk import fill_disk, free_disk, mount_small_disk
from open_token.errors import InputError, OutputError
from open_token.model.document import Event
from open_token.storage import files
from open_token.storage.files import (
    Folders,
    append_bytes,
    atomic_file,
    load_local_key,
    load_or_create_secret,
    make_folder,
    open_growing,
    pending_file,
    read_ends,
    read_optional,
    remove_file,
    remove_leftovers,
    try_lock,
    write_atomic,
)
from open_token.storage.spool import Spool


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.json", b"{}", 0o600)
    assert (tmp_path / "a.json").read_bytes() == b"{}"
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600
    assert names(tmp_path) == ["a.json"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a.json", b"old")

    def write_half() -> None:
        with atomic_file(tmp_path / "a.json") as out:
            out.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert names(tmp_path) == ["a.json"]


def test_an_existing_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, b"1")
    path.chmod(0o640)
    write_atomic(path, b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", b"2")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"2"


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as caught:
        write_atomic(tmp_path / "nowhere" / "a.json", b"")
    assert "No such file" in caught.value.what
    assert caught.value.help


def test_folders_follow_the_environment(tmp_path: Path) -> None:
    assert Folders.of({"OPEN_TOKEN_HOME": str(tmp_path)}).cache == tmp_path / "cache"
    assert Folders.of({}).settings.name == "open-token"


@pytest.mark.parametrize(
    "moved", [{}, {"XDG_CONFIG_HOME": "/x/config"}, {"XDG_DATA_HOME": "/x/data"}]
)
def test_folders_are_those_of_the_platform(
    moved: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPEN_TOKEN_HOME", raising=False)
    for name, value in moved.items():
        monkeypatch.setenv(name, value)
    ways = (platformdirs.user_config_dir, platformdirs.user_cache_dir, platformdirs.user_data_dir)
    assert Folders.of(os.environ) == Folders(
        *(Path(way("open-token", appauthor=False)) for way in ways)
    )


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    folders = Folders.of({"OPEN_TOKEN_HOME": str(tmp_path)})
    key = load_local_key(folders)
    assert key is not None
    assert len(key) == 32
    assert load_local_key(folders) == key
    assert stat.S_IMODE((folders.settings / "key").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="the super-user may write anywhere")
def test_no_key_without_a_writable_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert load_local_key(Folders.of({"OPEN_TOKEN_HOME": str(tmp_path / "x")})) is None


def test_processes_that_come_at_once_get_the_same_key(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from open_token.storage.files import load_or_create_secret;"
        "sys.stdin.readline();"
        "print(load_or_create_secret(pathlib.Path(sys.argv[1])).hex())"
    )
    for begun_with in (None, b""):
        path = tmp_path / f"key {begun_with!r}"
        if begun_with is not None:
            path.write_bytes(begun_with)
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        keys = {worker.communicate()[0] for worker in workers}
        assert keys == {path.read_bytes().hex() + "\n"}
        assert path.stat().st_size == 32
    assert [name for name in names(tmp_path) if name.endswith(".part")] == []


def test_a_key_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks while the key is written sees none, never an empty one."""
    seen: list[bool] = []
    sync = os.fsync

    def look(descriptor: int) -> None:
        seen.append((tmp_path / "key").exists())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    load_or_create_secret(tmp_path / "key")
    assert seen[0] is False


def test_file_systems_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    key = load_or_create_secret(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == key
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [1, 31, 33, 64])
def test_a_key_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    folders = Folders.of({"OPEN_TOKEN_HOME": str(tmp_path)})
    folders.settings.mkdir()
    (folders.settings / "key").write_bytes(b"x" * size)
    with pytest.raises(InputError) as caught:
        load_local_key(folders)
    assert caught.value.code == "secret.size"
    assert (folders.settings / "key").stat().st_size == size


def test_a_full_disk_leaves_no_empty_key(tmp_path: Path) -> None:
    with mount_small_disk(tmp_path / "disk", "256k") as disk:
        folders = Folders.of({"OPEN_TOKEN_HOME": str(disk)})
        folders.settings.mkdir()
        fill_disk(disk)
        assert load_local_key(folders) is None
        assert names(folders.settings) == []
        free_disk(disk)
        key = load_local_key(folders)
        assert key is not None
        assert load_local_key(folders) == key


WRITER = """
import sys, pathlib
from open_token.storage.files import atomic_file, atomic_folder
target = pathlib.Path(sys.argv[1])
with atomic_file(target / "a.json") as out, atomic_folder(target / "folder") as folder:
    out.write(b"half")
    out.flush()
    (folder / "b.json").write_bytes(b"half")
    print("written", flush=True)
    sys.stdin.read()
"""


def age_parts(folder: Path) -> None:
    for path in folder.glob("*.part"):
        os.utime(path, (0, time.time() - 60))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".other.part").write_bytes(b"of another program")
    worker = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdout is not None
    worker.stdout.readline()
    parts = set(names(tmp_path)) - {".other.part"}
    assert len(parts) == 2
    age_parts(tmp_path)
    monkeypatch.setattr(files, "_CLEANED_FOLDERS", set())
    write_atomic(tmp_path / "c.json", b"1")
    assert parts < set(names(tmp_path)), "a process that lives still writes them"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    monkeypatch.setattr(files, "_CLEANED_FOLDERS", set())
    write_atomic(tmp_path / "c.json", b"2")
    assert names(tmp_path) == [".other.part", "c.json"]


def test_a_folder_that_cannot_be_synced_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = errno.EIO
    sync = os.fsync

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(problem, os.strerror(problem))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError) as caught:
        write_atomic(tmp_path / "a.json", b"1")
    assert caught.value.code == "output.unconfirmed"
    assert (tmp_path / "a.json").read_bytes() == b"1"
    problem = errno.EINVAL  # a file system that has no such thing
    write_atomic(tmp_path / "a.json", b"2")
    assert names(tmp_path) == ["a.json"]


def test_a_folder_under_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert not make_folder(tmp_path / "file" / "x")
    assert read_optional(tmp_path / "file" / "x") is None


def test_a_private_file_that_others_can_write_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_atomic(path, b"ours")
    assert read_optional(path, private=True) == b"ours"
    path.chmod(0o620)
    assert read_optional(path, private=True) is None
    assert read_optional(path) == b"ours"
    assert read_optional(tmp_path, private=True) is None


def events(count: int) -> list[Event]:
    return [
        {"id": f"evt_{n:06d}", "seq": 0, "content": {"mime": "text/plain", "text": "é" * n}}
        for n in range(1, count + 1)
    ]


@pytest.mark.parametrize("limit", [0, 100, 5_000, 10**9])
def test_the_spool_gives_back_what_it_took_every_time(limit: int) -> None:
    spool = Spool(limit)
    for event in events(1500):
        spool.append(event, 10)
    assert len(spool) == 1500
    assert list(spool) == events(1500)
    spool.append({"id": "evt_001501"}, 10)
    assert [event["id"] for event in spool][-2:] == ["evt_001500", "evt_001501"]
    assert list(zip(spool, spool, strict=True))[1400][0]["id"] == "evt_001401"


def test_the_spool_knows_what_may_still_change() -> None:
    spool = Spool(25)
    for event in events(600):
        spool.append(event, 10)
    assert spool.get_mutable_event(0) == events(1)[0]
    assert spool.get_mutable_event(100) is None
    assert spool.get_mutable_event(599) == events(600)[599]
    assert spool.get_mutable_event(600) is None


class TestUnnamed:
    """A file that gets its name when it is complete."""

    def test_it_gets_a_name(self, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(b"old")
        with pending_file(tmp_path, ".x-") as (made, out):
            out.write(b"new")
            assert made.path.name.startswith(".x-")
        made.commit(tmp_path / "a.json")
        assert (tmp_path / "a.json").read_bytes() == b"new"
        assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o600
        assert names(tmp_path) == ["a.json"]

    def test_it_is_gone_without_one(self, tmp_path: Path) -> None:
        with pending_file(tmp_path) as (made, out):
            out.write(b"whole")
        assert made.path.read_bytes() == b"whole"
        made.remove()
        assert names(tmp_path) == []

    def test_it_is_gone_after_a_failure(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), pending_file(tmp_path):
            raise ZeroDivisionError
        with pytest.raises(OutputError, match="No space left"), pending_file(tmp_path):
            raise OSError(28, "No space left on device")
        assert names(tmp_path) == []

    def test_no_folder_for_it(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError, match="No such file"), pending_file(tmp_path / "nowhere"):
            pass

    def test_what_a_killed_process_left_is_swept_away(self, tmp_path: Path) -> None:
        (tmp_path / "below" / "deep").mkdir(parents=True)
        for name in (
            ".x-1.part",
            ".y-1.part",
            "x-1.part",
            ".x-1",
            "below/.x-2.part",
            "below/deep/.x-3.part",
        ):
            (tmp_path / name).write_bytes(b"")
        remove_leftovers(tmp_path, ".x-", ".z")
        left = sorted(
            str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
        )
        assert left == [".x-1", ".y-1.part", "below/deep/.x-3.part", "x-1.part"]
        remove_file(tmp_path / "nowhere")
        remove_file(tmp_path / "below")


class TestLock:
    """One at a time."""

    def test_it_is_held_and_let_go(self, tmp_path: Path) -> None:
        with try_lock(tmp_path / "lock") as first, try_lock(tmp_path / "lock") as second:
            assert (first, second) == (True, False)
        with try_lock(tmp_path / "lock") as third:
            assert third

    def test_no_place_for_it(self, tmp_path: Path) -> None:
        with pytest.raises(OutputError), try_lock(tmp_path / "nowhere" / "lock"):
            pass


def test_lines_are_put_behind(tmp_path: Path) -> None:
    append_bytes(tmp_path / "log", b"a\n")
    append_bytes(tmp_path / "log", b"b\n")
    assert (tmp_path / "log").read_bytes() == b"a\nb\n"
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    with pytest.raises(OutputError):
        append_bytes(tmp_path, b"")


@pytest.mark.parametrize(
    ("first", "last", "ends"),
    [
        (3, 0, (b"012", b"")),
        (3, 2, (b"012", b"89")),
        (8, 5, (b"01234567", b"89")),
        (0, 4, (b"", b"6789")),
    ],
)
def test_both_ends_of_a_file(
    tmp_path: Path, first: int, last: int, ends: tuple[bytes, bytes]
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert read_ends(tmp_path / "file", first, last) == ends
    assert read_ends(tmp_path / "nowhere", first, last) == (b"", b"")


def test_one_process_at_a_time_lets_a_file_grow(tmp_path: Path) -> None:
    path = tmp_path / "stream"
    with open_growing(path) as out:
        out.write(b"one\n")
        out.flush()
        with pytest.raises(OutputError, match="another process"), open_growing(path):
            pass
    with open_growing(path) as out:
        assert out.read() == b"one\n"


def test_a_file_that_grows_keeps_what_it_has_when_the_disk_is_full(tmp_path: Path) -> None:
    def write() -> None:
        with open_growing(tmp_path / "stream") as out:
            out.write(b"one\n")
            out.flush()
            raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="what is in the file stays"):
        write()
    assert (tmp_path / "stream").read_bytes() == b"one\n"
