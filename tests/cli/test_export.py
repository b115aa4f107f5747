"""`open-token export`: what is written where, what is said, and what happens with every bad
input."""

import contextlib
import gzip
import io
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import fake_format, fake_multi_format
from helpers.terminal import Terminal
from open_token.cli import main
from open_token.errors import InputError
from open_token.registry import READERS
from open_token.sources.source import Source

# Part of every input; no error message may show it.
MARKER = "xylophone"
EXPORT = {
    "open_token_version": "0.1",
    "conversation": {"id": "conv_1"},
    "participants": [{"actor_id": "act_001", "kind": "human", "name": "user"}],
    "events": [
        {
            "id": "evt_000001",
            "seq": 1,
            "type": "message",
            "actor_id": "act_001",
            "visibility": "public",
            "role": "user",
            "content": {"mime": "text/plain", "text": MARKER},
        }
    ],
}


class Shell:
    """Runs the command in a folder of its own and keeps its output."""

    def __init__(
        self, folder: Path, capture: pytest.CaptureFixture[bytes], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder
        self._capture = capture
        self._patch = patch
        self.out = b""
        self.err = ""

    def run(self, *words: str, stdin: bytes = b"") -> int:
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(["export", *words])
        self.out, err = self._capture.readouterr()
        self.err = err.decode()
        return code

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    def write_session(
        self, *says: str, name: str = "session.jsonl", tail: bytes = b"", **facts: Any
    ) -> str:
        path = fake_format.write_fake_session(self.folder / name, says=says or (MARKER,), **facts)
        path.write_bytes(path.read_bytes() + tail)
        return name

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))


@pytest.fixture
def shell(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    fake_format.install_fake_format(monkeypatch)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return Shell(tmp_path / "work", capsysbinary, monkeypatch)


@pytest.fixture
def as_anyone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that is also the home and that somebody else than the super-user can be let
    into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setenv("HOME", name)
        monkeypatch.setenv("OPEN_TOKEN_HOME", f"{name}/settings")
        monkeypatch.chdir(folder)
        yield folder
        folder.chmod(0o700)


@contextlib.contextmanager
def anyone() -> Iterator[None]:
    """Not the super-user, who may read and write anything."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"say": f"{MARKER} {n}"}).encode() + b"\n" for n in range(count))


class TestWritten:
    """stdout carries the payload alone, a file appears whole, stderr has the messages."""

    def test_to_stdout(self, shell: Shell) -> None:
        assert shell.run(shell.write_session("hello")) == 0
        assert shell.document["events"][0]["content"]["text"] == "hello"
        assert shell.out.endswith(b"}\n")
        assert shell.err.splitlines()[0] == "read    fake_session  session.jsonl  1 event, 0 calls"
        assert "hash    sha256:" + shell.document["integrity"]["events_hash"][:16] in shell.err

    @pytest.mark.parametrize("flag", ["-o", "--output"])
    def test_to_a_file(self, shell: Shell, flag: str) -> None:
        assert shell.run(shell.write_session("hello"), flag, "my session.json") == 0
        assert shell.out == b""
        written = (shell.folder / "my session.json").read_bytes()
        assert json.loads(written)["conversation"]["id"] == "session"
        last = shell.err.splitlines()[-2:]
        assert re.fullmatch(
            rf"wrote   my session\.json  {len(written) / 1000:.1f} kB  \d+\.\d s", last[0]
        )
        assert last[1] == "next    open-token verify 'my session.json'"
        assert shell.names() == ["my session.json", "session.jsonl"]

    def test_dash_is_stdout(self, shell: Shell) -> None:
        assert shell.run(shell.write_session("hello"), "-o", "-", "-q") == 0
        assert shell.document["events"]
        assert shell.err == ""
        assert shell.run("session.jsonl", "-o", "-", "--json") == 2

    def test_an_old_file_is_replaced_and_keeps_its_mode(self, shell: Shell) -> None:
        shell.write("out.json", b"old")
        (shell.folder / "out.json").chmod(0o600)
        assert shell.run(shell.write_session("hello"), "-o", "out.json") == 0
        assert stat.S_IMODE((shell.folder / "out.json").stat().st_mode) == 0o600
        assert json.loads((shell.folder / "out.json").read_bytes())

    def test_a_device_is_written_to_not_replaced(self, shell: Shell) -> None:
        pipe = shell.folder / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
            assert shell.run(shell.write_session("hello"), "-o", "pipe") == 0
            assert reader.stdout
            assert json.loads(reader.stdout.read())["conversation"]["id"] == "session"
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_quiet_is_quiet(self, shell: Shell) -> None:
        for flag in ("--quiet", "-q"):
            assert (
                shell.run(shell.write_session("hello", tail=b'{"say": "ha'), flag, "-o", "out.json")
                == 0
            )
            assert (shell.out, shell.err) == (b"", "")

    def test_a_receipt_as_json(self, shell: Shell) -> None:
        assert (
            shell.run(shell.write_session("hello", tail=b'{"say": "ha'), "--json", "-o", "out.json")
            == 0
        )
        result = shell.document
        assert (result["schema"], result["output"], result["reader"]) == (
            "open-token/receipt/1",
            "out.json",
            "fake_session",
        )
        assert result["form"] == "json"
        assert (result["events"], result["bytes"]) == (
            1,
            (shell.folder / "out.json").stat().st_size,
        )
        assert result["notes"][0]["code"] == "half-line"

    def test_json_needs_a_file(self, shell: Shell) -> None:
        assert shell.run(shell.write_session("hello"), "--json") == 2
        assert shell.document["error"]["code"] == "usage"

    def test_the_same_input_gives_the_same_bytes(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767268800")
        shell.run(shell.write_session("hello"))
        first = shell.out
        shell.run("session.jsonl")
        assert shell.out == first
        assert shell.document["exported_at"] == "2026-01-01T12:00:00Z"

    def test_hostile_names_are_made_visible(self, shell: Shell) -> None:
        name = shell.write_session("hello", name="a\x1b[31m\nb.jsonl")
        assert shell.run(name, "-o", "out\x07.json") == 0
        assert "\x1b" not in shell.err
        assert "a\\x1b[31m\\x0ab.jsonl" in shell.err
        assert "wrote   out\\x07.json" in shell.err

    def test_a_long_read_shows_a_bar_on_a_terminal_only(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("open_token.cli.shared.progress._DELAY", 0)
        shell.write_session("x" * 300_000, *["y" * 300_000] * 7)
        with Terminal(monkeypatch) as terminal:
            assert main(["export", "session.jsonl", "-o", "out.json"]) == 0
        assert "reading [" in terminal.seen
        assert terminal.seen.index("reading [") < terminal.seen.index(
            "\r\x1b[Kread    fake_session"
        )
        assert shell.run("session.jsonl", "-o", "out.json") == 0
        assert "reading" not in shell.err


class TestOptions:
    """The same options by word, by flag, before and after, and all in one string."""

    @pytest.mark.parametrize(
        "words",
        [
            ["session.jsonl", "mode=ndjson", "redact=none"],
            ["mode=ndjson", "session.jsonl", "redact=none"],
            ["mode=ndjson", "redact=none", "session.jsonl"],
            ["--mode", "ndjson", "session.jsonl", "--redact=none"],
            ["session.jsonl", "--redact", "none", "mode=ndjson"],
            ["session.jsonl mode=ndjson redact=none"],
            ["mode=ndjson redact=none", "session.jsonl"],
            ["session.jsonl", "  mode=ndjson   redact=none "],
            [
                "session.jsonl",
                "mode=ndjson",
                "mode=ndjson",
                "--redact",
                "none",
                "redact=none",
                "--redact",
                "none",
            ],
            ["--quiet", "session.jsonl", "mode=ndjson", "--from", "fake-session", "redact=none"],
        ],
    )
    def test_every_way_is_the_same(self, shell: Shell, words: list[str]) -> None:
        shell.write_session("hello")
        assert shell.run("session.jsonl", "mode=ndjson", "redact=none", "exported_at=omit") == 0
        expected = shell.out
        assert shell.run(*words, "exported_at=omit") == 0
        assert shell.out == expected
        assert expected.startswith(b'{"type":"header"')

    @pytest.mark.parametrize(
        "word", ["max_bytes=9000", "max-bytes=9000", "--max-bytes=9000", "--max_bytes=9_000"]
    )
    def test_underscores_and_dashes(self, shell: Shell, word: str) -> None:
        assert shell.run(shell.write_session("x" * 20_000), word) == 0
        assert len(shell.out) <= 9000
        assert shell.document["events"][0]["content"]["data"] == {
            "truncated": True,
            "original_length": 20_000,
        }

    @pytest.mark.parametrize(
        ("words", "what"),
        [
            (["mode=json", "mode=ndjson"], "mode is given more than once"),
            (["mode=json", "--mode", "ndjson"], "mode is given more than once"),
            (["mode=json mode=ndjson"], "mode is given more than once"),
            (["--mode", "json", "--mode", "ndjson"], "mode is given more than once"),
            (["--mode", "xml"], "invalid value for mode"),
            (["max_bytes=lots"], "invalid value for max_bytes"),
            (["colour=red"], "unknown option 'colour'"),
            (["--colour", "red"], "unknown argument --colour"),
            (["other.jsonl"], "expected one source, got"),
            (["--from", "nobody"], "unknown reader 'nobody'"),
            (["--current"], "SOURCE, --current and --pick are mutually exclusive"),
            (["--pick"], "SOURCE, --current and --pick are mutually exclusive"),
        ],
    )
    def test_what_does_not_fit_is_a_usage_error(
        self, shell: Shell, words: list[str], what: str
    ) -> None:
        shell.write_session()
        assert shell.run("session.jsonl", *words, "-o", "out.json") == 2
        assert shell.out == b""
        assert f"error: {what}" in shell.err
        assert "\nhelp: " in shell.err
        assert shell.names() == ["session.jsonl"]

    @pytest.mark.parametrize(
        ("words", "warning"),
        [
            (["internal=full"], "internal has no effect without include=include-internal"),
            (["drop=oldest"], "drop has no effect without max_bytes"),
            (["mode=ndjson", "pretty=true"], "pretty has no effect with mode=ndjson"),
        ],
    )
    def test_what_has_no_effect_is_said(self, shell: Shell, words: list[str], warning: str) -> None:
        assert shell.run(shell.write_session(), *words, "--quiet") == 0
        assert shell.err.startswith(f"warning: {warning}")

    def test_a_policy_that_forbids_is_said(self, shell: Shell) -> None:
        settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text("[policy]\nforbid_internal_full = true\n")
        shell.write(
            "session.jsonl", b'{"fake_session": "a"}\n{"say": "hi"}\n{"think": "One. Two."}\n'
        )
        assert shell.run("session.jsonl", "include=include-internal", "internal=full") == 0
        assert "warning: the policy forbids internal=full" in shell.err
        assert shell.document["events"][1]["content"]["text"] == "One."

    def test_a_policy_that_asks_for_more_is_said(self, shell: Shell) -> None:
        settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
        settings.mkdir(parents=True)
        (settings / "config.toml").write_text('[policy]\nmin_redact = "pii"\n')
        assert shell.run(shell.write_session("ada@example.org"), "redact=none") == 0
        assert "warning: the policy requires at least redact=pii" in shell.err
        assert shell.document["conversation"]["redaction"]["mode"] == "pii"
        assert b"ada@" not in shell.out
        assert shell.run("session.jsonl", "redact=strict") == 0
        assert "warning" not in shell.err

    def test_settings_apply_and_flags_override_them(self, shell: Shell) -> None:
        shell.write_session()
        shell.write(".open-token.toml", b'[defaults]\nmode = "ndjson"\n')
        assert shell.run("session.jsonl") == 0
        assert shell.out.startswith(b'{"type":"header"')
        assert shell.run("session.jsonl", "mode=json") == 0
        assert shell.document["events"]

    def test_wrong_settings_name_the_file(self, shell: Shell) -> None:
        shell.write_session()
        shell.write(".open-token.toml", b'[defaults]\nredact = "all"\n')
        assert shell.run("session.jsonl") == 2
        assert "--> " + str(shell.folder / ".open-token.toml") in shell.err


Prepare = Callable[[Shell], list[str]]


def cut(data: bytes, share: float) -> bytes:
    return data[: int(len(data) * share)]


HEAD = b'{"fake_session": "a"}\n'
STREAM_HEADER = b'{"type":"header","open_token_version":"0.1"}\n'
BAD: dict[str, tuple[Prepare, str, tuple[str, ...]]] = {
    "no line is JSON": (
        lambda s: [
            s.write("session.jsonl", f'{{"say": {MARKER}}}\n{{"say": {MARKER}}}\n'.encode())
        ],
        "input.json",
        ("this line is not JSON", "--> session.jsonl:1:9", "fix or remove that line"),
    ),
    "an export with a torn line": (
        lambda s: [s.write("session.ndjson", STREAM_HEADER + f'{{"a": {MARKER}}}\n'.encode())],
        "input.json",
        ("this line is not JSON", "--> session.ndjson:2:7", "fix or remove that line"),
    ),
    "a broken document": (
        lambda s: [
            s.write(
                "session.json", f'{{\n "open_token_version": "0.1",\n "a": {MARKER}\n}}'.encode()
            )
        ],
        "input.json",
        ("the input is not JSON", "--> session.json:3:7"),
    ),
    "a binary file": (
        lambda s: [s.write("session.bin", b"\x7fELF\0\1\2" + MARKER.encode())],
        "input.binary",
        ("binary data", "--> session.bin", "open-token formats"),
    ),
    "an empty file": (
        lambda s: [s.write("session.jsonl", b"")],
        "input.empty",
        ("the input is empty", "--> session.jsonl"),
    ),
    "a text": (
        lambda s: [s.write("notes.md", f"# {MARKER}\n".encode())],
        "input.unknown",
        ("--> notes.md", "open-token formats"),
    ),
    "JSON of no format": (
        lambda s: [s.write("package.json", f'{{"name": "{MARKER}"}}'.encode())],
        "input.unknown",
        ("unrecognized format", "--> package.json", "--from NAME"),
    ),
    "a folder without conversations": (
        lambda s: [s.write("notes.txt", MARKER.encode()) and "."],
        "input.none",
        ("no session found in this folder", "name a file"),
    ),
    "a missing file": (
        lambda s: ["nothing.jsonl"],
        "input.missing",
        ("No such file or directory", "--> nothing.jsonl"),
    ),
    "neither file nor id": (
        lambda s: ["zzzz"],
        "input.missing",
        ("--> zzzz", "open-token sessions"),
    ),
    "nothing on this machine": (
        lambda s: [],
        "input.none",
        ("no sessions found on this machine",),
    ),
    "invalid UTF-8": (
        lambda s: [
            s.write("session.jsonl", f'{{"fake_session": "{MARKER} '.encode() + b'\xff"}\n')
        ],
        "input.utf8",
        ("not valid UTF-8", "--> session.jsonl:1:29", "iconv"),
    ),
    "UTF-16": (
        lambda s: [s.write("session.jsonl", f'{{"say": "{MARKER}"}}'.encode("utf-16"))],
        "input.utf8",
        ("not valid UTF-8", "iconv -c -f utf-16"),
    ),
    "gzip cut off": (
        lambda s: [s.write("session.gz", cut(gzip.compress(HEAD + lines(9000)), 0.7))],
        "input.compressed",
        ("gzip data is damaged or cut off", "--> session.gz", "gzip -dc"),
    ),
    "gzip cut off near its start": (
        lambda s: [s.write("session.gz", cut(gzip.compress(HEAD + lines(9)), 0.5))],
        "input.compressed",
        ("gzip data is damaged or cut off", "--> session.gz"),
    ),
    "deep nesting": (
        lambda s: [
            s.write(
                "session.jsonl", HEAD + lines(1) + b'{"say": ' + b"[" * 9999 + b"]" * 9999 + b"}\n"
            )
        ],
        "input.deep",
        ("nested too deep", "--> session.jsonl:3"),
    ),
    "a reader forced on foreign content": (
        lambda s: [s.write_session(), "--from", "open-token"],
        "input",
        ("this is not an Open-Token export", "--> session.jsonl", "leave --from out"),
    ),
    "another reader forced on an export": (
        lambda s: [s.write("session.json", json.dumps(EXPORT).encode()), "--from", "fake_session"],
        "input.no-events",
        ("no conversation in this input", "--> session.json", "the right --from?"),
    ),
    "a conversation in which nothing is said": (
        lambda s: [s.write("session.jsonl", HEAD)],
        "input.no-events",
        ("no conversation in this input", "0 events were read"),
    ),
    "an export with a broken event": (
        lambda s: [
            s.write("session.json", json.dumps(EXPORT | {"events": [{"id": MARKER}]}).encode())
        ],
        "input.export",
        ("--> session.json:events[0]", "open-token validate"),
    ),
    "what cannot be made to fit": (
        lambda s: [s.write_session(), "max_bytes=10"],
        "max-bytes",
        ("cannot be made smaller than", "drop=oldest"),
    ),
}


class TestPages:
    def test_page_is_written_whole_and_reported(self, shell: Shell) -> None:
        write_session = shell.write("session.json", json.dumps(EXPORT).encode())
        assert (
            shell.run(write_session, "--to", "html", "-o", str(shell.folder / "session.html")) == 0
        )
        page = (shell.folder / "session.html").read_text()
        assert page.startswith("<!doctype html>")
        assert MARKER in page
        assert "wrote   " in shell.err
        assert "session.html in a browser" in shell.err
        assert "verify" not in shell.err

    def test_page_goes_to_stdout_alone(self, shell: Shell) -> None:
        write_session = shell.write("session.json", json.dumps(EXPORT).encode())
        assert shell.run(write_session, "--to", "markdown") == 0
        assert shell.out.startswith(b"# ")

    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    def test_json_and_ndjson_are_other_words_for_the_mode(self, shell: Shell, mode: str) -> None:
        write_session = shell.write("session.json", json.dumps(EXPORT).encode())
        shell.run(write_session, "exported_at=omit", f"mode={mode}")
        expected = shell.out
        assert shell.run(write_session, "exported_at=omit", "--to", mode) == 0
        assert shell.out == expected

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (
                ["--to", "htm"],
                "did you mean html? --to accepts json, ndjson, html, markdown, brief, atif, otel",
            ),
            (["--to", "html", "mode=json"], "--to and mode are mutually exclusive"),
            (["--to", "html", "--follow"], "--follow cannot be combined with --to html"),
            (
                ["--to", "html", "--conversation", "all", "-o", "x"],
                "--conversation all cannot be combined with --to html",
            ),
            (["--to", "html", "--sign", "key"], "--sign cannot be combined with --to html"),
            (["--to", "atif", "--follow"], "--follow cannot be combined with --to atif"),
            (["--to", "otel", "--sign", "key"], "--sign cannot be combined with --to otel"),
            (["--to", "otel", "mode=ndjson"], "--to and mode are mutually exclusive"),
        ],
    )
    def test_what_does_not_go_together_is_refused(
        self, shell: Shell, words: list[str], said: str
    ) -> None:
        write_session = shell.write("session.json", json.dumps(EXPORT).encode())
        assert shell.run(write_session, *words) == 2
        assert said in shell.err

    def test_input_that_is_no_conversation_leaves_no_page(self, shell: Shell) -> None:
        write_session = shell.write("holiday.csv", b"a,b\n1,2\n")
        assert (
            shell.run(write_session, "--to", "html", "-o", str(shell.folder / "session.html")) == 3
        )
        assert not (shell.folder / "session.html").exists()


class TestAllConversations:
    def test_one_that_fails_is_reported_and_costs_the_exit_code(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_multi_format.install_multi_format(monkeypatch)
        read = fake_multi_format.read

        def fail(source: Source, draft: Any) -> None:
            if source.conversation == "b":
                raise InputError("this part is damaged", where="chats.json:2", help="repair it")
            read(source, draft)

        monkeypatch.setattr(fake_multi_format, "read", fail)
        chats = [{"session": name, "says": [MARKER]} for name in "abc"]
        path = shell.write("chats.json", json.dumps(chats).encode())
        folder = shell.folder / "out"
        assert shell.run(path, "--conversation", "all", "-o", str(folder), "--json") == 1
        assert "conversation 2 was not exported: this part is damaged" in shell.err
        assert "--> chats.json:2" in shell.err
        result = json.loads(shell.out)
        assert [item["id"] for item in result["conversations"]] == ["a", "c"]
        assert result["failures"] == [{"number": 2, "id": "b", "error": "input"}]
        assert sorted(path.name for path in folder.iterdir()) == [
            "1_a.json",
            "3_c.json",
            "index.json",
        ]

    def test_jobs_are_for_several_conversations(self, shell: Shell) -> None:
        session = shell.write("conversation.json", json.dumps(EXPORT).encode())
        assert shell.run(session, "--jobs", "2") == 2
        assert "--jobs needs --conversation all" in shell.err


class TestFormsOfOthers:
    @pytest.mark.parametrize(
        ("to", "start"),
        [("atif", b'{\n  "schema_version": "ATIF-v1.8"'), ("otel", b'{"resourceSpans"')],
    )
    def test_file_is_written_whole_and_what_is_lost_is_reported(
        self, shell: Shell, to: str, start: bytes
    ) -> None:
        note = {
            "id": "evt_000002",
            "seq": 2,
            "type": "annotation",
            "actor_id": "act_001",
            "visibility": "metadata",
        }
        note["content"] = {"mime": "application/json", "data": {"kind": "notice"}}
        write_session = shell.write(
            "session.json", json.dumps({**EXPORT, "events": [*EXPORT["events"], note]}).encode()
        )
        target = shell.folder / "made.json"
        assert shell.run(write_session, "--to", to, "-o", str(target), "--json") == 0
        assert target.read_bytes().startswith(start)
        assert (
            f"note    annotation: not in {'ATIF' if to == 'atif' else 'OpenTelemetry'}" in shell.err
        )
        assert "verify" not in shell.err
        facts = json.loads(shell.out)
        assert facts["form"] == to
        assert facts["bytes"] == target.stat().st_size
        assert facts["notes"][-1]["code"] == "annotation"

    def test_conversation_that_is_too_long_leaves_nothing(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("open_token.pipeline.MAX_BUFFERED", 200)
        write_session = shell.write("session.json", json.dumps(EXPORT).encode())
        before = shell.names()
        assert shell.run(write_session, "--to", "atif", "-o", str(shell.folder / "made.json")) == 3
        assert "too long to be written as atif" in shell.err
        assert shell.names() == before
        assert shell.run(write_session, "--to", "markdown") == 0


class TestBadInput:
    """Each a clear message with place and remedy, the right exit code, no traceback, no partial
    output."""

    @pytest.mark.parametrize("name", BAD)
    def test_bad_input_is_reported_and_nothing_is_written(self, shell: Shell, name: str) -> None:
        prepare, code, parts = BAD[name]
        words = prepare(shell)
        before = shell.names()
        for target in ([], ["-o", "out.json"], ["mode=ndjson", "-o", "out.json"]):
            assert shell.run(*words, *target) == 3
            assert shell.out == b""
            self.check(shell.err, parts)
            assert shell.names() == before
        assert shell.run(*words, "-o", "out.json", "--json") == 3
        assert shell.document["error"]["code"] == code
        assert shell.err == "" or shell.err.startswith("source  ")
        assert MARKER.encode() not in shell.out
        assert shell.names() == before

    def check(self, err: str, parts: tuple[str, ...]) -> None:
        message = err[err.index("error: ") :]
        assert message.count("error: ") == 1
        assert [part for part in parts if part not in message] == []
        assert "\nhelp: " in message
        assert MARKER not in err
        assert "Traceback" not in err
        assert "inside open-token" not in err

    @pytest.mark.parametrize(
        "name",
        [
            name
            for name in BAD
            if "folder" not in name
            and "nothing" not in name
            and "id" not in name
            and "missing" not in name
        ],
    )
    def test_bad_input_from_standard_input_is_reported(self, shell: Shell, name: str) -> None:
        prepare, _, parts = BAD[name]
        file, *words = prepare(shell)
        assert shell.run("-", *words, stdin=(shell.folder / file).read_bytes()) == 3
        assert shell.out == b""
        self.check(shell.err, tuple(part.replace(file, "<stdin>") for part in parts))

    @pytest.mark.parametrize("reader", READERS)
    def test_no_reader_falls_over_when_it_is_forced(
        self, shell: Shell, reader: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_format.install_fake_format(monkeypatch, beside=READERS)
        for data in (
            b"",
            b"\0\1\2",
            f"{MARKER}\n".encode(),
            f'{{"a": "{MARKER}"}}'.encode(),
            b"[[]]",
            b"5",
            b'[null, 5, "x", [], {}]',
            b"{}\n{}\n",
        ):
            code = shell.run(shell.write("session", data), "--from", reader, "-o", "out.json")
            # Any text is a history of Aider's, some formats hold several conversations, some
            # hold facts alone.
            assert code in (0, 2, 3), data
            if code:
                self.check(shell.err, ("session",))
            assert shell.names() == (["session"] if code else ["out.json", "session"]), data
            Path("out.json").unlink(missing_ok=True)

    def test_a_file_that_two_readers_claim(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.write("session.json", b'[{"role": "user", "content": "hello"}]')
        fake_format.install_fake_format(monkeypatch, beside=("openai_chat",))
        monkeypatch.setattr(fake_format, "sniff", lambda source: True)
        assert shell.run("session.json", "-o", "out.json") == 3
        self.check(
            shell.err,
            (
                "ambiguous format: it could be fake_session or openai_chat",
                "--from fake_session or --from openai_chat",
            ),
        )
        assert shell.names() == ["session.json"]
        assert shell.run("session.json", "-o", "out.json", "--from", "openai_chat") == 0

    def test_a_half_written_last_line_is_left_out(self, shell: Shell) -> None:
        assert shell.run(shell.write_session("hello", tail=f'{{"say": "{MARKER}'.encode())) == 0
        assert [event["content"]["text"] for event in shell.document["events"]] == ["hello"]
        assert (
            "note    half-line: the last line was not complete and is left out (line 3)"
            in shell.err
        )
        assert MARKER not in shell.err

    def test_a_stream_without_footer_is_reported(self, shell: Shell) -> None:
        shell.run(shell.write("session.json", json.dumps(EXPORT).encode()), "mode=ndjson")
        assert shell.run(shell.write("cut.ndjson", b"".join(shell.out.splitlines(True)[:-1]))) == 0
        assert "note    incomplete-stream: the stream has no footer" in shell.err
        assert MARKER not in shell.err

    def test_a_line_of_many_megabytes_is_exported(self, shell: Shell) -> None:
        long = "word " * 4_000_000
        assert shell.run(shell.write_session(long), "-o", "out.json") == 0
        assert (
            json.loads((shell.folder / "out.json").read_bytes())["events"][0]["content"]["text"]
            == long
        )
        shell.write("one.json", json.dumps(EXPORT | {"title": long}).encode())
        assert shell.run("one.json", "-o", "out.json") == 0

    def test_standard_input(self, shell: Shell) -> None:
        shell.write_session("hello")
        assert shell.run("-", stdin=(shell.folder / "session.jsonl").read_bytes()) == 0
        assert shell.document["events"][0]["content"]["text"] == "hello"
        assert "read    fake_session  <stdin>" in shell.err

    def test_gzip(self, shell: Shell) -> None:
        assert shell.run(shell.write("session.gz", gzip.compress(HEAD + lines(3)))) == 0
        assert len(shell.document["events"]) == 3


class TestBadOutput:
    """Nothing is half written, however the command ends."""

    @pytest.mark.parametrize(
        ("target", "what"),
        [
            ("nowhere/out.json", "cannot write: No such file or directory"),
            (".", "the output is a folder"),
            ("session.jsonl/out.json", "cannot write: Not a directory"),
            ("x" * 300, "cannot write: File name too long"),
        ],
    )
    def test_a_target_that_cannot_be(self, shell: Shell, target: str, what: str) -> None:
        shell.write_session()
        assert shell.run("session.jsonl", "-o", target) == 3
        assert f"error: {what}" in shell.err
        assert f"--> {target}\nhelp: " in shell.err
        assert shell.names() == ["session.jsonl"]

    def test_a_folder_that_may_not_be_written(self, shell: Shell, as_anyone: Path) -> None:
        shell.folder = as_anyone
        shell.write_session()
        as_anyone.chmod(0o555)
        with anyone():
            assert shell.run("session.jsonl", "-o", "out.json") == 3
        assert "error: cannot write: Permission denied\n  --> out.json\nhelp: " in shell.err
        assert shell.names() == ["session.jsonl"]

    def test_a_source_that_may_not_be_read(self, shell: Shell, as_anyone: Path) -> None:
        shell.folder = as_anyone
        shell.write_session()
        (as_anyone / "session.jsonl").chmod(0)
        with anyone():
            assert shell.run("session.jsonl", "-o", "out.json") == 3
        assert (
            "error: cannot read the input: Permission denied\n  --> session.jsonl\nhelp: "
            in shell.err
        )
        assert shell.names() == ["session.jsonl"]

    def test_settings_that_may_not_be_written_are_no_trouble(
        self, shell: Shell, as_anyone: Path
    ) -> None:
        shell.folder = as_anyone
        shell.write_session("hello")
        as_anyone.chmod(0o555)
        with anyone():
            assert shell.run("session.jsonl") == 0
        assert shell.document["events"]
        assert shell.names() == ["session.jsonl"]

    def test_a_folder_of_the_kernel(self, shell: Shell) -> None:
        if not Path("/proc/self").exists():
            pytest.skip("there is no /proc here")
        shell.write_session()
        assert shell.run("session.jsonl", "-o", "/proc/out.json") == 3
        assert "error: cannot write: " in shell.err
        assert "--> /proc/out.json" in shell.err

    @pytest.mark.parametrize("target", ["session.jsonl", "./session.jsonl", "link.jsonl"])
    def test_the_source_is_not_replaced(self, shell: Shell, target: str) -> None:
        shell.write_session()
        (shell.folder / "link.jsonl").symlink_to("session.jsonl")
        before = (shell.folder / "session.jsonl").read_bytes()
        assert shell.run("session.jsonl", "-o", target) == 2
        assert "the output would overwrite the source" in shell.err
        assert (shell.folder / "session.jsonl").read_bytes() == before

    def test_ctrl_c_leaves_no_file(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        def read(source: Any, draft: Any) -> None:
            draft.add_message("user", MARKER, draft.get_actor("human", "user"))
            raise KeyboardInterrupt

        shell.write_session()
        shell.write("out.json", b"old")
        monkeypatch.setattr(fake_format, "read", read)
        assert shell.run("session.jsonl", "-o", "out.json") == 130
        assert shell.run("session.jsonl") == 130
        assert shell.out == b""
        assert shell.err == "\ninterrupted; no file was written\n"
        assert (shell.folder / "out.json").read_bytes() == b"old"
        assert shell.names() == ["out.json", "session.jsonl"]

    def test_an_error_half_way_leaves_no_file(self, shell: Shell) -> None:
        deep = b"[" * 9999 + b"]" * 9999
        shell.write("session.jsonl", HEAD + lines(50_000) + b'{"say": ' + deep + b"}\n")
        assert shell.run("session.jsonl", "-o", "out.json") == 3
        assert "--> session.jsonl:50002" in shell.err
        assert shell.names() == ["session.jsonl"]

    def test_a_closed_pipe_is_no_trouble(self, shell: Shell) -> None:
        shell.write(
            "session.json", json.dumps(EXPORT | {"events": _many(EXPORT["events"][0])}).encode()
        )  # type: ignore[index]
        command = [sys.executable, "-m", "open_token", "export", "session.json", "-q"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=shell.folder
        ) as started:
            assert started.stdout
            assert started.stderr
            assert started.stdout.read(10)
            started.stdout.close()
            assert started.stderr.read() == b""
        assert started.returncode == 141


def _many(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {**event, "id": f"evt_{n:06d}", "content": {"mime": "text/plain", "text": "x" * 1000}}
        for n in range(1, 600)
    ]


class TestOnATerminal:
    """Without -o, a document goes to a new file: it would flood the screen."""

    @pytest.mark.parametrize(
        ("words", "name"),
        [
            ([], "session.open-token.json"),
            (["--mode", "ndjson"], "session.open-token.ndjson"),
            (["--to", "html"], "session.html"),
            (["--to", "markdown"], "session.md"),
        ],
    )
    def test_a_file_is_written_and_named(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str
    ) -> None:
        shell.write_session("hello")
        with Terminal(monkeypatch, stdout=True) as terminal:
            assert main(["export", "session.jsonl", *words]) == 0
        assert f"wrote   {name}" in terminal.seen
        assert Path(name).stat().st_size > 100
        assert "hello" not in terminal.seen

    def test_an_existing_file_is_left_alone(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shell.write_session("hello")
        Path("session.html").write_text("mine")
        with Terminal(monkeypatch, stdout=True) as terminal:
            assert main(["export", "session.jsonl", "--to", "html"]) == 0
        assert "wrote   session-2.html" in terminal.seen
        assert Path("session.html").read_text() == "mine"

    @pytest.mark.parametrize("words", [["-o", "-"], ["--to", "brief"]])
    def test_the_screen_is_used_where_it_is_wanted(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str]
    ) -> None:
        shell.write_session("hello")
        with Terminal(monkeypatch, stdout=True) as terminal:
            assert main(["export", "session.jsonl", *words]) == 0
        assert "hello" in terminal.seen
        assert sorted(path.name for path in Path().iterdir()) == ["session.jsonl"]

    def test_a_page_is_opened_in_a_browser(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[str] = []
        monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
        shell.write_session("hello")
        assert shell.run("session.jsonl", "--to", "html", "--open") == 0
        assert opened == [(Path.cwd() / "session.html").as_uri()]
        assert shell.run("session.jsonl", "--open") == 2
