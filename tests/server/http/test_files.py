"""The routes of files: what clients send, what is hostile in it, and who is notified."""

import contextlib
import io
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.server.tool_server import ToolServer, run_with_tools
from open_token.server.config import Limits
from open_token.server.core.workspace import Workspace
from open_token.server.errors import ApiError
from open_token.server.http.files import stream_zip


@pytest.mark.spec("directory-listing", "workspace-files", "file-rename-copy")
def test_a_file_is_put_listed_read_renamed_copied_and_deleted(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        assert (await shop.ask("PUT", "files/a%2Fb.txt", {"content": "ä\n"})).json() == {
            "success": True
        }
        got = await shop.ask("GET", "files/a/b.txt")
        assert got.body == "ä\n".encode()
        (entry,) = (await shop.ask("GET", "ls/a")).json()
        assert {**entry, "created_at": ""} == {
            "name": "b.txt", "path": "a/b.txt", "type": "file", "is_dir": False, "size": 3, "tags": [],
            "created_at": "",
        }  # fmt: skip
        assert (await shop.ask("POST", "files/a%2Fb.txt/rename", {"new_name": "c.txt"})).json() == {
            "path": "a/c.txt"
        }
        assert (await shop.ask("POST", "files/a/c.txt/copy", {"new_name": "rename"})).json() == {
            "path": "a/rename"
        }
        assert (await shop.ask("POST", "files/a/rename/rename", {"new_name": "copy"})).json() == {
            "path": "a/copy"
        }
        assert (await shop.ask("DELETE", "files/a")).json() == {"deleted": True}
        assert (await shop.ask("GET", "ls/")).json() == []
        result = await shop.signals("workspace:files_changed")
        assert [(one["action"], one["paths"]) for one in result] == [
            ("written", ["a/b.txt"]),
            ("renamed", ["a/b.txt", "a/c.txt"]),
            ("copied", ["a/rename"]),
            ("renamed", ["a/rename", "a/copy"]),
            ("deleted", ["a"]),
        ]

    run_with_tools(tmp_path, do)


def test_bytes_come_as_base64_and_go_as_they_are(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        await shop.ask("PUT", "files/x.bin", {"content": "AP8=", "encoding": "base64"})
        assert (await shop.ask("GET", "files/x.bin")).body == b"\x00\xff"
        for body in (
            {"content": "a-b", "encoding": "base64"},
            {"content": "ä", "encoding": "base64"},
            {"content": 1},
        ):
            assert (await shop.ask("PUT", "files/y.bin", body)).status == 422
        for raw in (b"", b"{", b"[]", b'{"content": "\\ud800"}', b"\xff"):
            assert (await shop.ask("PUT", "files/y.bin", raw)).status in (400, 422)
        assert [entry["name"] for entry in (await shop.ask("GET", "ls")).json()] == ["x.bin"]

    run_with_tools(tmp_path, do)


@pytest.mark.spec("directory-listing")
@pytest.mark.parametrize("root", ["ls", "ls/", "ls/.", "ls/%2E", "ls/.%2F"])
def test_the_root_has_many_names(tmp_path: Path, root: str) -> None:
    async def do(shop: ToolServer) -> Any:
        shop.workspace.write("d/f", b"")
        return (await shop.ask("GET", root)).json()

    assert [entry["path"] for entry in run_with_tools(tmp_path, do)] == ["d"]


def test_downloads_are_safe_to_open(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("pä\"ge'.html", b"<script>alert(1)</script>")
        got = await shop.ask("GET", "files/p%C3%A4%22ge'.html")
        assert got.headers["content-disposition"] == (
            "attachment; filename=\"p__ge'.html\"; filename*=UTF-8''p%C3%A4%22ge%27.html"
        )
        assert got.headers["x-content-type-options"] == "nosniff"
        assert got.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert got.headers["content-type"] == "text/html; charset=utf-8"
        assert got.headers["content-length"] == "25"
        shop.workspace.write("unknown", b"\x00")
        assert (await shop.ask("GET", "files/unknown")).headers[
            "content-type"
        ] == "application/octet-stream"

    run_with_tools(tmp_path, do)


@pytest.mark.spec("workspace-files")
@pytest.mark.parametrize(
    "path",
    [
        "..", "..%2F..%2Fserver.db", "%2Fetc%2Fpasswd", "a%2F..%2F..%2Fx", "%00", "a%00b", "..%5Cx", "C:%5Cx", "", ".",
        "link%2Fpasswd", "x" * 5000, "a%0Ab", "%2e%2e%2fx", "%5C%5Chost%5Cshare",
    ],
)  # fmt: skip
def test_hostile_paths_are_refused_by_every_route(tmp_path: Path, path: str) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("f", b"")
        (shop.workspace.folder / "link").symlink_to("/etc")
        for method, route, body in (
            ("GET", f"files/{path}", None),
            ("PUT", f"files/{path}", {"content": "x"}),
            ("DELETE", f"files/{path}", None),
            ("POST", f"files/{path}/rename", {"new_name": "y"}),
            ("POST", f"files/{path}/copy", {"new_name": "y"}),
            ("POST", "files/f/rename", {"new_name": unquote(path)}),
        ):
            got = await shop.ask(method, route, body)
            assert got.status in (400, 404, 422), (method, route)
            assert got.json()["detail"]
        assert sorted(item.name for item in (tmp_path / "data" / "workspaces").iterdir()) == [
            "sess_1"
        ]
        assert sorted(item.name for item in shop.workspace.folder.iterdir()) == ["f", "link"]

    run_with_tools(tmp_path, do)


def test_what_is_anothers_is_not_there_and_readers_change_nothing(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("d/f", b"mine")
        body = {"content": "x"}
        changing: list[tuple[str, str, Any]] = [
            ("PUT", "files/n", body),
            ("DELETE", "files/d", None),
            ("POST", "files/d/rename", {"new_name": "e"}),
            ("POST", "files/d/copy", {"new_name": "e"}),
        ]
        reading = [("GET", "files/d/f", None), ("GET", "ls/", None), ("GET", "download-dir/", None)]
        for method, route, sent in changing + reading:
            assert (await shop.ask(method, route, sent, who="other")).status == 404
            assert (await shop.ask(method, route, sent, who="nobody")).status == 401
        for method, route, sent in changing:
            assert (await shop.ask(method, route, sent, who="reader")).status == 403
        assert (await shop.ask("GET", "files/d/f", who="reader")).body == b"mine"
        assert [entry["name"] for entry in (await shop.ask("GET", "ls/")).json()] == ["d"]

    run_with_tools(tmp_path, do)


@pytest.mark.spec("file-upload")
def test_uploads_say_what_arrived_and_what_did_not(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        url = f"/api/sessions/{shop.session_id}/upload"
        two = [("files", ("a.txt", b"a")), ("files", ("C:\\dir\\b.txt", b"b"))]
        got = await shop.client.post(f"{url}/in", files=two)
        assert got.json() == {"uploaded": ["in/a.txt", "in/b.txt"], "failed": []}
        got = await shop.client.post(
            f"{url}/.", files=two, data={"paths": '["x/y.txt", "../../evil"]'}
        )
        assert got.json() == {"uploaded": ["x/y.txt"], "failed": ["../../evil"]}
        got = await shop.client.post(
            url, files=[("files", ("big", b"x" * 2000)), ("files", ("small", b"x"))]
        )
        assert got.json() == {"uploaded": ["small"], "failed": ["big"]}
        got = await shop.client.post(f"{url}/in", files=two, data={"paths": '["/x/y.txt", ""]'})
        assert got.json() == {"uploaded": [], "failed": ["/x/y.txt", ""]}
        for paths in ("[1, 2]", "{}", '["one"]', "nonsense", "[" * 10_000):
            assert (
                await shop.client.post(url, files=two, data={"paths": paths})
            ).status_code == 422
        assert (await shop.client.post(f"{url}/..%2Fx", files=two)).status_code == 400
        assert (await shop.client.post(url, data={"paths": "[]"})).status_code == 422
        assert [entry.path for entry in shop.workspace.files()] == [
            "in", "small", "x", "in/a.txt", "in/b.txt", "x/y.txt"
        ]  # fmt: skip
        kinds = [
            "multipart/form-data",
            "multipart/form-data; boundary=x",
            "text/plain",
            "application/json",
        ]
        for kind in kinds:
            for body in (
                b"",
                b"--x\r\n",
                b"--x\r\nContent-Disposition: form-data; name=files\r\n\r\nx",
                b"\x00" * 99,
            ):
                assert (await shop.ask("POST", "upload/", body, content_type=kind)).status in (
                    400,
                    422,
                )

    run_with_tools(tmp_path, do, limits=Limits(workspace_bytes=1000))


@pytest.mark.spec("directory-download")
def test_a_folder_comes_as_an_archive(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("d/a.txt", b"a" * 1_000_000)
        shop.workspace.write("d/e/ä.txt", b"b")
        inside = shop.workspace.folder
        (inside / "d" / "link").symlink_to("/etc/passwd")
        (inside / "d" / "..\\evil").write_bytes(b"x")
        (inside / "d" / "e" / "none").mkdir()
        got = await shop.ask("GET", "download-dir/d")
        assert got.headers["content-type"] == "application/zip"
        assert got.headers["content-disposition"].startswith('attachment; filename="d.zip"')
        with zipfile.ZipFile(io.BytesIO(got.body)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["a.txt", "e/", "e/none/", "e/ä.txt"]
            assert archive.read("a.txt") == b"a" * 1_000_000
        whole = await shop.ask("GET", "download-dir/.")
        assert "workspace.zip" in whole.headers["content-disposition"]
        assert "d/a.txt" in zipfile.ZipFile(io.BytesIO(whole.body)).namelist()
        assert (await shop.ask("GET", "download-dir/none")).status == 404
        assert (await shop.ask("GET", "download-dir/d%2Flink")).status == 400

    run_with_tools(tmp_path, do)


def test_the_archive_of_nothing_is_an_archive(tmp_path: Path) -> None:
    async def do(shop: ToolServer) -> bytes:
        return (await shop.ask("GET", "download-dir")).body

    assert zipfile.ZipFile(io.BytesIO(run_with_tools(tmp_path, do))).namelist() == []


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.binary(max_size=50), max_size=8
    )
)
@settings(max_examples=30)
def test_an_archive_holds_what_was_written_and_nothing_that_steps_out(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    workspace = Workspace(tmp_path_factory.mktemp("w") / "inside")
    kept = {}
    for path, data in files.items():
        with contextlib.suppress(ApiError):
            workspace.write(path, data)
            kept["/".join(part for part in path.split("/") if part != ".")] = data
    with zipfile.ZipFile(io.BytesIO(b"".join(stream_zip(workspace, "")))) as archive:
        assert archive.testzip() is None
        names = [name for name in archive.namelist() if not name.endswith("/")]
        assert {name: archive.read(name) for name in names} == kept
        assert not [
            name for name in archive.namelist() if name.startswith("/") or ".." in name.split("/")
        ]


ROUTES = st.sampled_from(
    [
        ("GET", "ls/{}"), ("GET", "files/{}"), ("PUT", "files/{}"), ("DELETE", "files/{}"), ("POST", "files/{}/rename"),
        ("POST", "files/{}/copy"), ("POST", "upload/{}"), ("GET", "download-dir/{}"), ("POST", "skills:upload{}"),
        ("GET", "background-tasks/{}"), ("POST", "background-tasks/{}/stop"),
    ]
)  # fmt: skip
ODD = st.one_of(
    st.text(max_size=12), st.sampled_from(["a", "a/b", "..", "%2e%2e", "link", "link/x", "", "a/"])
)
BODIES = st.one_of(
    st.binary(max_size=30),
    st.builds(
        lambda name: msgspec.json.encode({"new_name": name, "content": name}),
        st.text(st.characters(codec="utf-8")),
    ),
)
KINDS = st.sampled_from(["application/json", "multipart/form-data; boundary=x", "", "text/plain"])


@given(st.lists(st.tuples(ROUTES, ODD, BODIES, KINDS), min_size=10, max_size=40))
@settings(max_examples=10)
def test_the_server_answers_any_request(
    tmp_path_factory: pytest.TempPathFactory, sent: Any
) -> None:
    async def do(shop: ToolServer) -> None:
        shop.workspace.write("a/b", b"x")
        (shop.workspace.folder / "link").symlink_to("/etc")
        for (method, route), odd, body, kind in sent:
            path = route.format(quote(odd.encode("utf-8", "replace"), safe="/%"))
            got = await shop.ask(method, path, body, content_type=kind)
            assert got.status < 500, (method, path)

    folder = tmp_path_factory.mktemp("shop")
    run_with_tools(folder, do)
    assert sorted(path.name for path in folder.iterdir()) == ["data"]
