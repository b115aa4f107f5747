"""Pages of an archive beside its documents, and the page that lists them."""

from pathlib import Path

import pytest

from helpers.page_checker import HOSTILE
from library.index.sessions import SessionFile
from open_token.cli import main

ONE = "11111111-aaaa-4aaa-8aaa-111111111111"
TWO = "22222222-aaaa-4aaa-8aaa-111111111111"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for session_id, prompt in ((ONE, "Fix the table of tides"), (TWO, "Why is <b>it</b> slow?")):
        session = SessionFile(tmp_path, session_id)
        session.ask(prompt)
        session.call("Bash", {"command": "make test"}, "13 passed")
        session.answer("Done.")
    return tmp_path


def list_pages(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"claude_code/*{suffix}"))


def test_each_session_has_a_page_and_one_page_lists_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", "kept", "--to", "html"]) == 0
    assert "2 pages written." in capsys.readouterr().err
    pages = list_pages(home / "kept", ".html")
    assert [page.name.partition("_")[2] for page in pages] == [
        "fix-the-table-of-tides_11111111.html",
        "why-is-it-slow_22222222.html",
    ]
    listing = (home / "kept" / "index.html").read_text()
    assert "Fix the table of tides" in listing
    assert "Why is &lt;b&gt;it&lt;/b&gt; slow?" in listing or "Why is it slow?" in listing
    for page in pages:
        assert f'href="claude_code/{page.name}"' in listing
        assert main(["verify", str(page)]) == 0
    assert main(["verify", "kept/index.html"]) == 0


def test_only_what_has_changed_is_written_again(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["archive", "kept", "--to", "html"])
    before = {page: page.stat().st_mtime_ns for page in list_pages(home / "kept", ".html")}
    capsys.readouterr()
    assert main(["archive", "kept", "--to", "html"]) == 0
    assert "0 pages written." in capsys.readouterr().err
    SessionFile(home, ONE, minute=50).answer("Really done.")
    main(["archive", "kept", "--to", "html"])
    after = {page: page.stat().st_mtime_ns for page in list_pages(home / "kept", ".html")}
    assert sum(before[page] != after[page] for page in before) == 1
    assert "1 page written." in capsys.readouterr().err


def test_markdown_pages_are_listed_in_markdown(home: Path) -> None:
    assert main(["archive", "kept", "--to", "markdown"]) == 0
    pages = list_pages(home / "kept", ".md")
    assert len(pages) == 2
    listing = (home / "kept" / "index.md").read_text()
    assert listing.startswith("# Archived sessions\n")
    for page in pages:
        assert f"](claude_code/{page.name})" in listing


def test_a_page_goes_with_its_document_and_other_files_stay(home: Path) -> None:
    main(["archive", "kept", "--to", "html"])
    notes = home / "kept" / "claude_code" / "notes.html"
    notes.write_text("mine")
    document = next((home / "kept").glob("claude_code/*1111*.json"))
    (home / ".claude" / "projects" / "-home-sam-tide" / f"{ONE}.jsonl").unlink()
    document.unlink()
    main(["archive", "kept", "--to", "html"])
    assert not document.with_suffix(".html").exists()
    assert len(list_pages(home / "kept", ".html")) == 2
    assert notes.read_text() == "mine"
    assert "tides" not in (home / "kept" / "index.html").read_text()


def test_a_document_that_cannot_be_read_is_named(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["archive", "kept"])
    document = next((home / "kept").glob("claude_code/*1111*.json"))
    document.write_text("{broken")
    capsys.readouterr()
    assert main(["archive", "kept", "--to", "html"]) == 1
    assert document.name in capsys.readouterr().err
    assert len(list_pages(home / "kept", ".html")) == 1


def test_no_title_is_markup(home: Path) -> None:
    for number, text in enumerate(HOSTILE):
        session = SessionFile(home, f"{number:08d}-bbbb-4bbb-8bbb-111111111111")
        session.ask(f"hostile {text}")
    main(["archive", "kept", "--to", "html"])
    main(["archive", "kept", "--to", "markdown"])
    listing = (home / "kept" / "index.html").read_text()
    assert listing.count("<script") == 2
    assert "<img" not in listing
    assert "onerror=alert(1)>" not in listing
    assert "](javascript:" not in (home / "kept" / "index.md").read_text()
