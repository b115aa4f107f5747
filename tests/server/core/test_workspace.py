"""Workspaces: no path leaves them, no link is followed, nothing is half written."""

import contextlib
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.core.workspace import Workspace, Workspaces, publish_files_changed
from open_token.server.errors import ApiError

HOSTILE = [
    "..", "../x", "a/../../x", "a/..", "/etc/passwd", "//etc/passwd", "\\\\host\\share", "..\\x", "a\\..\\..\\x",
    "C:\\x", "C:x", "c:/x", "a\0b", "\0", "a\nb", "a/\x7f", "\ud800",
    "x" * 300, "/".join("a" * 70), "", ".", "./", "//",
]  # fmt: skip
NAMES = st.text(st.characters(codec="utf-8"), max_size=12)
PATHS = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=30),
    st.lists(
        st.one_of(NAMES, st.sampled_from(["..", ".", "link", "out", "\\", ""])), max_size=5
    ).map("/".join),
)


def space(folder: Path, most: int = 1 << 20) -> Workspace:
    return Workspace(folder / "inside", most)


def refused(status: int, do, *arguments) -> ApiError:
    with pytest.raises(ApiError) as caught:
        do(*arguments)
    assert caught.value.status == status, caught.value.detail
    return caught.value


def test_what_is_written_is_read_listed_and_found(tmp_path: Path) -> None:
    files = space(tmp_path)
    assert files.list() == [] == list(files.files())
    files.write("a/b/c.txt", b"one")
    files.write("./a//b/c.txt", b"two")
    files.write("run.sh", b"#!/bin/sh\n", executable=True)
    assert files.read("a/b/c.txt") == b"two"
    assert [(entry.path, entry.type, entry.is_dir, entry.size) for entry in files.list()] == [
        ("a", "directory", True, 0),
        ("run.sh", "file", False, 10),
    ]
    assert [entry.path for entry in files.files()] == ["a", "run.sh", "a/b", "a/b/c.txt"]
    assert files.resolve("a/b/c.txt") == tmp_path / "inside" / "a" / "b" / "c.txt"
    assert (tmp_path / "inside" / "run.sh").stat().st_mode & stat.S_IXUSR
    assert files.list("a/b")[0].created_at > 1_700_000_000


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_paths_are_refused_by_every_call(tmp_path: Path, path: str) -> None:
    files = space(tmp_path)
    files.write("there", b"")
    for do in (files.read, files.delete, lambda way: files.write(way, b"x")):
        refused(400, do, path)
    if path not in ("", ".", "./", "//"):
        for do in (files.list, files.resolve, lambda way: list(files.files(way))):
            refused(400, do, path)
        if "/" not in path:
            refused(400, files.rename, "there", path)
            refused(400, files.copy, "there", path)
    assert os.listdir(tmp_path) == ["inside"]


@given(path=PATHS, other=PATHS)
def test_no_path_leaves_the_workspace(
    tmp_path_factory: pytest.TempPathFactory, path: str, other: str
) -> None:
    outer = tmp_path_factory.mktemp("outer")
    (outer / "secret").write_bytes(b"secret")
    files = space(outer)
    files.write("a/file", b"inside")
    (outer / "inside" / "link").symlink_to("../secret")
    (outer / "inside" / "out").symlink_to(outer)
    seen = []
    for do in (
        lambda: files.read(path),
        lambda: files.write(path, b"new"),
        lambda: files.copy(path, other),
        lambda: files.rename(path, other),
        lambda: [entry.name for entry in files.list(path)],
        lambda: [entry.name for entry in files.files(path)],
        lambda: files.delete(path),
    ):
        try:
            seen.append(do())
        except ApiError as problem:
            seen.append(problem.status)
    assert b"secret" not in seen
    assert {status for status in seen if isinstance(status, int)} <= {400, 404, 409}
    assert (outer / "secret").read_bytes() == b"secret"
    assert sorted(os.listdir(outer)) == ["inside", "secret"]


def test_links_are_reported_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    files = space(tmp_path)
    files.write("d/f", b"x")
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "inside" / "folder").symlink_to(tmp_path)
    (tmp_path / "inside" / "loop").symlink_to("loop")
    assert {entry.name: entry.type for entry in files.list()} == {
        "d": "directory", "folder": "link", "link": "link", "loop": "link",
    }  # fmt: skip
    for path in ("link", "loop", "folder/secret", "folder"):
        assert refused(400, files.read, path).detail == "links are not followed"
        refused(400, files.resolve, path)
        refused(400, files.write, path, b"x")
    refused(400, files.list, "folder")
    files.copy("d", "copy")
    files.delete("folder")
    files.delete("link")
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(tmp_path: Path) -> None:
    """One thread swaps a folder for a link to the outside all the time; no write lands there."""
    files = space(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    place, aside = tmp_path / "inside" / "d", tmp_path / "inside" / "aside"
    files.write("d/f", b"x")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for step in (
                lambda: place.rename(aside),
                lambda: place.symlink_to(outside),
                place.unlink,
                lambda: aside.rename(place),
            ):
                with contextlib.suppress(OSError):  # the write made a folder of that name
                    step()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(300):
            with contextlib.suppress(ApiError):
                files.write(f"d/{number}", b"new")
    finally:
        stop.set()
        thread.join()
    assert os.listdir(outside) == []


def test_what_is_no_plain_file_is_not_opened(tmp_path: Path) -> None:
    files = space(tmp_path)
    files.make()
    os.mkfifo(tmp_path / "inside" / "pipe")
    assert files.list()[0].type == "other"
    refused(400, files.read, "pipe")
    refused(400, files.write, "pipe", b"x")
    files.write("d/f", b"")
    assert refused(400, files.read, "d").code == "is_folder"
    refused(400, files.write, "d", b"x")
    refused(400, files.read, "d/f/g")
    refused(404, files.read, "nothing")
    refused(404, files.list, "nothing")
    refused(404, files.delete, "nothing/at/all")


def test_a_workspace_holds_so_much_and_no_more(tmp_path: Path) -> None:
    files = space(tmp_path, 1000)
    files.write("a", b"x" * 600)
    refused(413, files.write, "b", b"x" * 600)
    assert [entry.name for entry in files.list()] == ["a"]
    files.write("a", b"y" * 1000)
    assert refused(413, files.copy, "a", "b").code == "workspace_full"
    assert [entry.name for entry in files.list()] == ["a"]
    files.delete("a")
    files.write("b", b"z" * 1000)
    (tmp_path / "inside" / "b").unlink()
    files.recount()
    files.write("c", b"z" * 1000)
    with open(tmp_path / "inside" / "holes", "wb") as file:
        file.truncate(10_000)
    refused(413, files.read, "holes")


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    class Broken:
        def read(self, _: int) -> bytes:
            raise OSError(5, "broken")

    files = space(tmp_path)
    files.write("a", b"before")
    refused(503, files.write, "a", Broken())
    assert files.read("a") == b"before"
    assert os.listdir(tmp_path / "inside") == ["a"]


def test_files_and_folders_are_renamed_and_copied_beside_themselves(tmp_path: Path) -> None:
    files = space(tmp_path)
    files.write("d/a.txt", b"a")
    files.write("d/e/run", b"b", executable=True)
    assert files.rename("d/a.txt", "b.txt") == "d/b.txt"
    assert files.copy("d", "f") == "f"
    assert files.copy("f/e/run", "walk") == "f/e/walk"
    assert [entry.path for entry in files.files("f")] == ["f/b.txt", "f/e", "f/e/run", "f/e/walk"]
    assert (tmp_path / "inside" / "f" / "e" / "walk").stat().st_mode & stat.S_IXUSR
    assert refused(409, files.rename, "d", "f").code == "exists"
    refused(409, files.copy, "d/b.txt", "b.txt")
    refused(404, files.rename, "gone", "x")
    refused(404, files.copy, "gone", "x")
    refused(400, files.rename, "d", "f/g")
    assert [entry.name for entry in files.list()] == ["d", "f"]


def test_folders_are_taken_away_however_deep(tmp_path: Path) -> None:
    files = space(tmp_path)
    files.write("keep", b"x")
    here = files.make()
    before = os.getcwd()
    try:
        os.chdir(here)
        for _ in range(1500):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(before)
    assert len(list(files.files())) < 100
    files.delete("d")
    assert [entry.name for entry in files.list()] == ["keep"]
    files.remove_all()
    files.remove_all()
    assert not here.exists()


def test_each_session_has_a_folder_of_its_own_whatever_its_id(tmp_path: Path) -> None:
    spaces = Workspaces(tmp_path, 10)
    assert spaces.get("sess_1").folder == tmp_path / "sess_1"
    assert spaces.get("sess_1") is spaces.get("sess_1")
    strange = {
        spaces.get(name).folder for name in ("..", "", "a/b", "/", "\ud800", "x" * 1000, "a\0")
    }
    assert len(strange) == 7
    assert {folder.parent for folder in strange} == {tmp_path}
    for number in range(1001):
        spaces.get(f"s{number}")
    assert spaces.get("sess_1").most_bytes == 10


@pytest.mark.spec("files-changed-event")
def test_those_who_watch_are_reported(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        await publish_files_changed(
            shop.services, shop.owner, shop.session_id, "written", *map(str, range(150))
        )
        (result,) = await shop.signals("workspace:files_changed")
        assert (result["action"], len(result["paths"]), result["more"]) == ("written", 100, 50)
        assert result["session_id"] == shop.session_id

    run_with_tools(tmp_path, do)


def test_a_session_works_in_a_folder_of_the_user_which_outlives_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "theirs.txt").write_text("x" * 100)
    workspaces = Workspaces(tmp_path / "workspaces", most_bytes=50)
    workspaces.bind("sess_1", project)
    # Another process knows it, too.
    for found in (workspaces.get("sess_1"), Workspaces(tmp_path / "workspaces").get("sess_1")):
        assert (found.folder, found.is_own) == (project, False)
    # The limit is for what the session owns, and for a single file.
    workspaces.get("sess_1").write("ours.txt", b"y" * 50)
    with pytest.raises(ApiError):
        workspaces.get("sess_1").write("large.txt", b"y" * 51)
    workspaces.remove("sess_1")
    assert sorted(path.name for path in project.iterdir()) == ["ours.txt", "theirs.txt"]
    assert workspaces.get("sess_1").is_own
    assert list((tmp_path / "workspaces").iterdir()) == []
