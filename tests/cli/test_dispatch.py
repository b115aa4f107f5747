"""Verbs, help and errors: what a person sees who types something right, something wrong, or
something odd."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.terminal import Terminal
from open_token import __version__
from open_token.cli import dispatch, main
from open_token.cli.dispatch import VERBS, build_parser, load_verb
from open_token.cli.shared.console import Console
from open_token.errors import InputError, OpenTokenError


def run_command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def raising(patch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """Let every command end with this problem."""

    def fail(words: list[str], console: Console) -> int:
        raise problem

    patch.setattr(dispatch, "_dispatch", fail)


class TestHelp:
    """Summary, usage, grouped options, exit status and examples, within the terminal's width."""

    @pytest.mark.parametrize("columns", [80, 60])
    @pytest.mark.parametrize("verb", ["", *VERBS])
    def test_help_fits_the_terminal(
        self,
        verb: str,
        columns: int,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        code, out, err = run_command(capsys, *filter(None, [verb]), "--help")
        assert (code, err) == (0, "")
        lines = out.rstrip("\n").split("\n")
        # A word that cannot be broken, such as a path, may stand out of a narrow terminal.
        too_long = [line for line in lines if len(line) > columns and len(line.split()) > 1]
        assert too_long == []
        assert not any(line != line.rstrip() or "\t" in line for line in lines)

    def test_help_is_at_most_80_columns_wide(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("COLUMNS", "200")
        wide = run_command(capsys, "export", "--help")
        monkeypatch.setenv("COLUMNS", "80")
        assert wide == run_command(capsys, "export", "--help")

    @pytest.mark.parametrize("verb", VERBS)
    def test_help_has_summary_usage_exit_status_and_examples(
        self, verb: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = run_command(capsys, verb, "--help")[1]
        lines = out.rstrip("\n").split("\n")
        assert lines[0].endswith(".")
        assert lines[1] == ""
        assert lines[2].startswith(f"Usage: open-token {verb}")
        assert "\nGlobal options:\n" in out
        assert "\nExit status:\n  0    " in out
        examples = out.partition("\nExamples:\n")[2]
        assert f"open-token {verb}" in examples

    @pytest.mark.parametrize("verb", VERBS)
    def test_help_lists_every_option(self, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
        out = run_command(capsys, verb, "--help")[1]
        parser = build_parser(verb, load_verb(verb))
        for action in parser._actions:
            if action.option_strings and action.help != argparse.SUPPRESS:
                assert action.help
                names = [name.replace("_", "-") for name in action.option_strings]
                assert re.search(rf"^  .*{re.escape(max(names))}", out, re.MULTILINE)

    @pytest.mark.parametrize("verb", VERBS)
    def test_three_ways_to_ask(self, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
        answers = {
            run_command(capsys, *words)
            for words in ((verb, "--help"), (verb, "x=y", "-h"), ("help", verb))
        }
        assert len(answers) == 1
        code, out, err = answers.pop()
        assert (code, err) == (0, "")
        assert out.endswith("\n")
        assert not out.endswith("\n\n")

    @pytest.mark.parametrize("words", [["-h"], ["help"]])
    def test_of_all(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert run_command(capsys, *words) == run_command(capsys, "--help")

    def test_nothing_asked_is_a_usage_error_with_the_help(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run_command(capsys)
        assert (code, err) == (2, "")
        assert out == run_command(capsys, "--help")[1]

    def test_help_lists_exactly_the_commands(self, capsys: pytest.CaptureFixture[str]) -> None:
        commands = run_command(capsys, "--help")[1].partition("\nGlobal options:")[0]
        names = re.findall(r"^  (\w+) ", commands, re.MULTILINE)
        assert sorted(names) == sorted(VERBS)

    def test_every_verb_has_a_module(self) -> None:
        folder = Path(dispatch.__file__).parent
        modules = {path.stem for path in folder.glob("*.py")}
        modules |= {path.parent.name for path in folder.glob("*/__init__.py")}
        assert set(VERBS) <= modules

    @pytest.mark.parametrize("word", ["--version", "-V"])
    def test_version(self, word: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run_command(capsys, word) == (
            0,
            f"open-token {__version__} (Open-Token format 0.1)\n",
            "",
        )


class TestTypos:
    """One guess, then where to look."""

    @pytest.mark.parametrize(
        ("words", "guess"),
        [
            (["exprot"], "did you mean `open-token export`?"),
            (["session"], "did you mean `open-token sessions`?"),
            (["help", "exprot"], "did you mean `open-token export`?"),
            (["export", "--redcat", "pii"], "did you mean --redact?"),
            (["export", "--max-byts=5"], "did you mean --max-bytes?"),
            (["export", "redcat=pii"], "did you mean redact?"),
            (["export", "redact=secret"], "did you mean secrets?"),
            (["sessions", "--heer"], "did you mean --here?"),
            (["ls"], "did you mean `open-token sessions`?"),
            (["view"], "did you mean `open-token show`?"),
            (["cost"], "did you mean `open-token stats`?"),
            (["Compare"], "did you mean `open-token diff`?"),
            (["find", "tides"], "did you mean `open-token search`?"),
        ],
    )
    def test_a_near_word(
        self, words: list[str], guess: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run_command(capsys, *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert f"help: {guess} " in err

    @pytest.mark.parametrize(
        "words",
        [
            ["zzzzz"],
            ["help", "zzzzz"],
            ["export", "--xyzzy"],
            ["formats", "extra"],
            ["schema", "everything"],
            ["completion"],
            ["completion", "cmd"],
            ["export", "--color", "blue"],
            ["export", "-o"],
            ["export", "--zzzzz"],
            ["export", "a.json", "b.json"],
            ["validate"],
            ["verify"],
        ],
    )
    def test_no_near_word(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run_command(capsys, *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert "help: " in err
        assert "did you mean" not in err

    def test_a_bare_path_is_exported(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("session").write_text("{}")
        code, _, err = run_command(capsys, "session")
        assert code == 3
        assert "--> session" in err
        code, _, err = run_command(capsys, "help", "session")
        assert code == 2
        assert "no such command or file: 'session'" in err

    def test_a_verb_wins_over_a_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("formats").write_text("{}")
        assert run_command(capsys, "formats")[0] == 0


class TestErrors:
    """Three parts, once, and nothing a terminal would obey."""

    def test_the_three_parts(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(monkeypatch, InputError("no", where="a:1", help="do so"))
        assert run_command(capsys, "formats") == (3, "", "error: no\n  --> a:1\nhelp: do so\n")

    def test_hostile_names_are_made_visible(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(
            monkeypatch,
            InputError("no \x1b[2J", where="a\nhelp: run this\x07", help="\u202edo\udcff"),
        )
        _, _, err = run_command(capsys, "formats")
        assert (
            err == "error: no \\x1b[2J\n  --> a\\x0ahelp: run this\\x07\nhelp: \\u202edo\\udcff\n"
        )

    def test_an_unknown_verb_is_shown_harmless(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "'\\x1b[31mred'" in run_command(capsys, "\x1b[31mred")[2]

    def test_as_json(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(monkeypatch, InputError("no", where="a\udcff", help="do so", code="input.x"))
        code, out, err = run_command(capsys, "formats", "--json")
        assert (code, err) == (3, "")
        parts = {"code": "input.x", "message": "no", "where": "a\ufffd", "help": "do so"}
        assert json.loads(out) == {"error": parts}

    def test_as_json_without_what_is_not_known(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(monkeypatch, OpenTokenError("no"))
        assert json.loads(run_command(capsys, "--json")[1]) == {
            "error": {"code": "error", "message": "no"}
        }

    def test_a_usage_error_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run_command(capsys, "formats", "--json", "--zzz")
        assert (code, err) == (2, "")
        assert json.loads(out)["error"]["code"] == "usage"

    @pytest.mark.parametrize("words", [["formats"], ["formats", "--json"]])
    def test_an_internal_error_shows_no_traceback(
        self, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(monkeypatch, KeyError("the secret content"))
        code, out, err = run_command(capsys, *words)
        assert code == 3
        assert "(KeyError)" in out + err
        assert "OPEN_TOKEN_DEBUG=1" in out + err
        assert "Traceback" not in err
        assert "secret content" not in out + err

    def test_debug_shows_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("OPEN_TOKEN_DEBUG", "1")
        raising(monkeypatch, KeyError("secret content"))
        err = run_command(capsys, "formats")[2]
        assert "Traceback" in err
        assert "dispatch.py" in err
        assert "secret content" not in err

    def test_interruption(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        raising(monkeypatch, KeyboardInterrupt())
        assert run_command(capsys, "formats") == (130, "", "\ninterrupted; no file was written\n")

    def test_the_word_error_is_red_on_a_screen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "xterm")
        with Terminal(monkeypatch) as terminal:
            assert main(["zzzzz"]) == 2
        assert terminal.seen.startswith("\x1b[31merror:\x1b[0m no such command")


class TestProcess:
    """The command as the shell sees it."""

    COMMAND = (sys.executable, "-m", "open_token")

    def test_a_pipe_that_closes_early_is_no_trouble(self) -> None:
        started = subprocess.Popen(
            [*self.COMMAND, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert started.stdout
        assert started.stderr
        started.stdout.close()
        assert started.stderr.read() == b""
        started.stderr.close()
        assert started.wait() in (0, 141)

    def test_a_full_disk_is_reported(self) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("there is no /dev/full here")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*self.COMMAND, "formats"], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 3
        assert done.stderr.startswith(b"error: system error: No space left on device\n")
        assert b"Exception" not in done.stderr

    def test_the_program_ends_with_the_code(self) -> None:
        done = subprocess.run([*self.COMMAND, "zzzzz"], capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (2, b"")

    def test_names_that_are_not_utf8_are_no_trouble(self, tmp_path: Path) -> None:
        (tmp_path / os.fsdecode(b"bad\xff.json")).write_bytes(b"")
        for words in (
            ["export", b"bad\xff.json"],
            ["export", b"bad\xff.json", "--json", "-o", "x"],
            ["export", b"no\xff.json"],
        ):
            done = subprocess.run(
                [*self.COMMAND, *words], capture_output=True, check=False, cwd=tmp_path
            )
            assert done.returncode == 3
            assert b"Traceback" not in done.stderr
            assert b"inside open-token" not in done.stderr + done.stdout


def test_options_of_every_verb_may_stand_before_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "--json", "formats") == run_command(capsys, "formats", "--json")
    assert run_command(capsys, "--color", "never", "formats") == run_command(
        capsys, "formats", "--color", "never"
    )
    assert run_command(capsys, "--color=always", "-q", "formats")[0] == 0
    assert run_command(capsys, "--quiet", "validate")[0] == 2
    assert run_command(capsys, "--quiet")[0] == 2
    assert run_command(capsys, "--color")[0] == 2
