"""Which conversation is meant, by every way to say it."""

import io
import os
import sys
from pathlib import Path

import pytest

from helpers import fake_format
from helpers.fake_format import write_fake_session
from helpers.terminal import Terminal
from open_token import registry
from open_token.cli import main
from open_token.cli.shared.console import Console
from open_token.cli.shared.source_selection import SelectedSource, select_source
from open_token.errors import InputError, UsageError
from open_token.formats.definition import Agent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with three conversations, two of them held in the folder `here`; we stand in
    `here`."""
    fake_format.install_fake_format(monkeypatch)
    folder = tmp_path / "home"
    (folder / "here").mkdir(parents=True)
    (folder / "elsewhere").mkdir()
    write_fake_session(
        folder / ".fake" / "a" / "aaaa-newest.jsonl",
        10,
        cwd=str(folder / "other"),
        title="bake bread",
    )
    write_fake_session(
        folder / ".fake" / "a" / "bbbb-second.jsonl",
        20,
        cwd=str(folder / "here"),
        title="sow beans",
    )
    write_fake_session(
        folder / ".fake" / "a" / "bbbb-third.jsonl", 30, cwd=str(folder / "here"), id="own-id"
    )
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder / "here")
    return folder


def chosen(*words: str, current: bool = False, picking: bool = False) -> SelectedSource:
    return select_source(list(words), Console(), current=current, picking=picking)


def stem(choice: SelectedSource) -> str:
    assert choice.source.path
    return choice.source.path.stem


class TestNamed:
    """SOURCE is a word."""

    @pytest.mark.parametrize(
        "word",
        ["session.jsonl", "./session.jsonl", "~/here/session.jsonl", "../here/session.jsonl"],
    )
    def test_a_file_is_named_as_it_was_given(self, home: Path, word: str) -> None:
        write_fake_session(home / "here" / "session.jsonl")
        choice = chosen(word)
        assert (choice.source.name, choice.how, choice.reader) == (word, None, None)
        assert stem(choice) == "session"

    def test_a_file_wins_over_an_id(self, home: Path) -> None:
        write_fake_session(home / "here" / "bbbb")
        write_fake_session(home / "here" / "last")
        assert chosen("bbbb").source.name == "bbbb"
        assert chosen("last").source.name == "last"

    def test_a_missing_file_is_no_id(self, home: Path) -> None:
        for word in ("nothing.jsonl", "a/b", "/nowhere/session"):
            with pytest.raises(InputError) as caught:
                chosen(word)
            assert caught.value.where == word
            assert "No such file" in caught.value.what

    def test_a_folder_is_its_newest_conversation(self, home: Path) -> None:
        write_fake_session(home / "elsewhere" / "old.jsonl", 50)
        write_fake_session(home / "elsewhere" / "deep" / "new.jsonl", 5)
        choice = chosen("../elsewhere")
        assert (stem(choice), choice.reader) == ("new", "fake_session")
        assert "the newest session in that folder" in str(choice.how)

    def test_a_folder_without_any(self, home: Path) -> None:
        with pytest.raises(InputError) as caught:
            chosen("../elsewhere")
        assert caught.value.code == "input.none"
        assert str(caught.value.where).endswith("elsewhere")

    def test_standard_input(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"fake_session": "x"}\n')))
        choice = chosen("-")
        assert (choice.source.name, choice.source.size) == ("<stdin>", 22)

    @pytest.mark.parametrize(
        ("word", "meant"),
        [
            ("aaaa-newest", "aaaa-newest"),
            ("aaaa", "aaaa-newest"),
            ("a", "aaaa-newest"),
            ("BBBB-S", "bbbb-second"),
            ("own-id", "bbbb-third"),
            ("own", "bbbb-third"),
            ("last", "aaaa-newest"),
            ("@1", "aaaa-newest"),
            ("@2", "bbbb-second"),
            ("@3", "bbbb-third"),
        ],
    )
    def test_an_id_its_start_or_a_number(self, home: Path, word: str, meant: str) -> None:
        choice = chosen(word)
        assert (stem(choice), choice.reader) == (meant, "fake_session")
        assert str(choice.source.path) in str(choice.how)

    def test_a_start_that_two_have_lists_them(self, home: Path) -> None:
        with pytest.raises(InputError) as caught:
            chosen("bbbb")
        assert caught.value.what == "2 sessions match that id prefix"
        assert caught.value.help == "give more of the id: bbbb-second, bbbb-third"

    def test_of_two_files_of_one_conversation_the_newer_is_meant(self, home: Path) -> None:
        write_fake_session(home / ".fake" / "a" / "cccc-begun.jsonl", 25, id="own-id")
        assert stem(chosen("own-id")) == "cccc-begun"

    @pytest.mark.parametrize("word", ["@0", "@4", "@99999"])
    def test_a_number_that_is_too_high(self, home: Path, word: str) -> None:
        with pytest.raises(InputError, match="3 sessions found"):
            chosen(word)

    @pytest.mark.parametrize("word", ["zzzz", "@x", "@", "x" * 5000, "~nobody-of-that-name"])
    def test_nobody_of_that_name(self, home: Path, word: str) -> None:
        with pytest.raises(InputError) as caught:
            chosen(word)
        assert caught.value.code == "input.missing"
        assert len(str(caught.value.where)) <= 200

    def test_last_of_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_format.install_fake_format(monkeypatch)
        monkeypatch.chdir(tmp_path)
        for words in (["last"], ["@1"], []):
            with pytest.raises(InputError, match="no sessions found on this machine"):
                chosen(*words)


class TestAbsent:
    """SOURCE is not given."""

    def test_the_newest_of_this_folder(self, home: Path) -> None:
        choice = chosen()
        assert stem(choice) == "bbbb-second"
        assert str(choice.how).endswith("bbbb-second.jsonl (the newest session of this folder)")

    def test_a_folder_without_sessions_is_refused(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(home / "elsewhere")
        with pytest.raises(InputError, match="no session found in this folder") as caught:
            chosen()
        assert caught.value.code == "input.none"
        assert "`last`" in str(caught.value.help)

    def test_on_a_terminal_one_of_this_machine_is_chosen(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(home / "elsewhere")
        with Terminal(monkeypatch, ("> aaaa", b"\x1b[B"), ("> bbbb", b"\r")) as terminal:
            choice = chosen()
        assert terminal.missed == []
        assert "no session of this folder found; choose one of this machine" in terminal.seen
        assert stem(choice) == "bbbb-second"

    def test_stderr_says_which(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export"]) == 0
        result = capsys.readouterr()
        assert "source  " in result.err
        assert "bbbb-second.jsonl (the newest session of this folder)" in result.err
        assert '"bbbb-second"' in result.out


AGENTS = registry.list_agents()


class TestCurrent:
    """--current: the conversation this process runs in."""

    @pytest.mark.parametrize(
        "variable", [name for agent in AGENTS for name in agent.session_id_variables]
    )
    def test_by_every_variable(
        self, home: Path, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        agent = Agent(
            name=fake_format.NAME,
            title="",
            checked="",
            includes="",
            omits="",
            session_id_variables=(variable,),
        )
        monkeypatch.setattr("open_token.cli.shared.session_selection.list_agents", lambda: [agent])
        monkeypatch.setenv(variable, "aaaa-newest")
        choice = chosen(current=True)
        assert stem(choice) == "aaaa-newest"
        assert f"the running session, from {variable}" in str(choice.how)

    @pytest.mark.parametrize("variable", ["PI_SESSION_FILE", "CURSOR_TRANSCRIPT_PATH"])
    def test_by_a_variable_that_names_a_file(
        self, home: Path, variable: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = write_fake_session(home / "elsewhere" / "session.jsonl")
        monkeypatch.setenv(variable, str(path))
        choice = chosen(current=True)
        assert choice.source.path == path
        assert choice.how == f"{path} (the session named by {variable})"

    def test_else_the_newest_of_this_folder(self, home: Path) -> None:
        choice = chosen(current=True)
        assert stem(choice) == "bbbb-second"
        assert (
            "no environment variable names the running session; this is the newest of this folder"
            in str(choice.how)
        )

    def test_a_variable_of_a_conversation_that_is_not_there(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "aaaa-newest")
        choice = chosen(current=True)
        assert stem(choice) == "bbbb-second"
        assert "the session named by CLAUDE_CODE_SESSION_ID was not found" in str(choice.how)

    def test_current_without_any_hint_is_refused(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(home / "elsewhere")
        with pytest.raises(InputError) as caught:
            chosen(current=True)
        assert caught.value.code == "input.none"

    def test_real_readers_know_their_variables(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = "019c0000-1111-7222-8333-444455556666"
        places = {
            "CLAUDE_CODE_SESSION_ID": tmp_path / ".claude" / "projects" / "-home" / f"{name}.jsonl",
            "CODEX_THREAD_ID": tmp_path
            / ".codex/sessions/2026/01/31"
            / f"rollout-2026-01-31T10-00-00-{name}.jsonl",
        }
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        for variable, path in places.items():
            path.parent.mkdir(parents=True)
            path.write_text("{}\n")
            monkeypatch.setenv(variable, name)
            assert chosen(current=True).source.path == path
            monkeypatch.delenv(variable)


class TestPicked:
    """--pick: the person takes one."""

    def test_the_taken_one(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Terminal(monkeypatch, ("> aaaa", b"\x1b[B"), ("> bbbb", b"\r")) as terminal:
            choice = chosen(picking=True)
        assert terminal.missed == []
        assert stem(choice) == "bbbb-second"
        assert "sow beans" in terminal.seen

    def test_leaving_is_an_interruption(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Terminal(monkeypatch, ("> aaaa", b"\x1b")) as terminal:
            assert main(["export", "--pick", "-o", "out.json"]) == 130
        assert "interrupted; no file was written" in terminal.seen
        assert os.listdir(home / "here") == []

    def test_the_whole_command(
        self,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsysbinary: pytest.CaptureFixture[bytes],
    ) -> None:
        with Terminal(monkeypatch, ("> aaaa", b"beans"), ("(1)", b"\r")):
            assert main(["export", "--pick", "mode=ndjson", "-q", "-o", "out.ndjson"]) == 0
        assert b"bbbb-second" in (home / "here" / "out.ndjson").read_bytes()
        assert capsysbinary.readouterr().out == b""

    def test_without_a_terminal(self, home: Path) -> None:
        with pytest.raises(UsageError, match="needs a terminal"):
            chosen(picking=True)

    def test_none_to_pick(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        fake_format.install_fake_format(monkeypatch)
        with Terminal(monkeypatch), pytest.raises(InputError, match="no sessions found"):
            chosen(picking=True)


@pytest.mark.parametrize(
    "how", [{"current": True}, {"picking": True}, {"current": True, "picking": True}]
)
def test_two_ways_at_once_are_one_too_many(home: Path, how: dict[str, bool]) -> None:
    with pytest.raises(UsageError, match="are mutually exclusive"):
        chosen(*([] if len(how) == 2 else ["last"]), **how)


def test_one_conversation_at_a_time(home: Path) -> None:
    with pytest.raises(UsageError, match="got 2"):
        chosen("a.jsonl", "b.jsonl")
