"""Lines of a file with the prompts that wrote them, and what may not be read there."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

from helpers.web_client import WebClient
from library.index.sessions import SessionFile

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"


@pytest.fixture
def client(tmp_path: Path) -> WebClient:
    folder = tmp_path / "tide"
    folder.mkdir()
    text = "def tide(zone):\n    return zone.high\n"
    session = SessionFile(tmp_path, FIRST, cwd=str(folder))
    session.ask("Write <b>tide</b>.")
    session.call("Write", {"file_path": str(folder / "tide.py"), "content": text}, "ok")
    (folder / "tide.py").write_text(text + "print(tide(1))\n")
    (tmp_path / "private.txt").write_text("nobody's business\n")
    (folder / "link.txt").symlink_to(tmp_path / "private.txt")
    web = WebClient(tmp_path)
    web.index()
    return web


def test_groups_of_lines_link_to_their_session(client: WebClient, tmp_path: Path) -> None:
    folders = client.get("/web/lines/folders").json["folders"]
    assert folders == [str(tmp_path / "tide")]
    words = urlencode({"folder": folders[0], "path": "tide.py"})
    answer = client.get(f"/web/lines?{words}").json
    assert (answer["explained"], answer["total"]) == (2, 3)
    first, last = answer["groups"]
    assert (first["first"], len(first["lines"]), last["origin"]) == (1, 2, None)
    page = client.get(f"/web/sessions/{first['key']}/page").text
    assert f'id="{first["origin"]["event_id"]}"' in page


@pytest.mark.parametrize("path", ["../private.txt", "link.txt", "/etc/hostname"])
def test_files_outside_of_the_folders_of_sessions_are_refused(
    client: WebClient, tmp_path: Path, path: str
) -> None:
    words = urlencode({"folder": str(tmp_path / "tide"), "path": path})
    answer = client.get(f"/web/lines?{words}")
    assert answer.status == 422
    assert "not in a folder of a session" in answer.json["error"]
    assert client.get(f"/web/lines?{urlencode({'folder': '/', 'path': path})}").status == 422
