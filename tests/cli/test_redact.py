"""`open-token redact`: conversations and texts; check, report and review; and that no secret is in
any output."""

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.terminal import Terminal
from open_token.cli import main
from open_token.redaction.rule_catalogue import fill_placeholders

GITHUB = fill_placeholders("ghp_{alnum:36}", "cli")[0]
PASSWORD = fill_placeholders("{pass:14}", "cli")[0]
JWT = fill_placeholders("{jwt}", "cli")[0]
PEM = fill_placeholders(
    "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----", "cli"
)[0]
EMAIL = fill_placeholders("{word:5}.{word:7}@mail.test", "cli")[0]
SECRETS = (GITHUB, PASSWORD, JWT, PEM.split("\n")[1], EMAIL)
CONVERSATION = {
    "messages": [
        {"role": "user", "content": f"use {GITHUB} and password={PASSWORD}, mail {EMAIL}"},
        {"role": "assistant", "content": f"I have {GITHUB}.\n{PEM}\nand {JWT}"},
    ]
}

NOTHING = "redact  nothing to mask at level secrets\n"

RunRedact = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_redact(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    known_key: bytes,
) -> RunRedact:
    """Runs the verb in a folder with a conversation and a text; no planted secret may come out
    anywhere."""
    monkeypatch.chdir(tmp_path)
    Path("session.json").write_text(json.dumps(CONVERSATION))
    Path("log.txt").write_text(
        f"start\nfirst {PASSWORD}\ntoken {GITHUB}\npassword={PASSWORD}\n{PEM}\nend\n"
    )
    Path("clean.txt").write_text("nothing to see\n")

    def run(*words: str, given: bytes | None = None, leaks: bool = False) -> tuple[int, str, str]:
        if given is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main(["redact", *words])
        out, err = capsys.readouterr()
        if not leaks:
            assert [
                secret for secret in SECRETS if secret in out + err or secret[4:14] in out + err
            ] == []
        return code, out, err

    return run


def read(name: str) -> str:
    return Path(name).read_text()


def mark(text: str) -> str:
    return re.sub(r"\[REDACTED:(\w+):[0-9a-f]{8}\]", r"<\1>", text)


class TestConversation:
    def test_it_is_exported(
        self, run_redact: RunRedact, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code, out, err = run_redact("session.json", "--level", "pii", "exported_at=omit")
        assert code == 0
        assert "redact  masked 2 github_token (1 distinct value)" in err
        assert main(["export", "session.json", "redact=pii", "exported_at=omit"]) == 0
        assert capsys.readouterr().out == out

    def test_a_file_appears_whole(self, run_redact: RunRedact) -> None:
        code, out, _ = run_redact("session.json", "-o", "out.json", "--level", "pii", "--json")
        assert (code, json.loads(out)["schema"]) == (0, "open-token/receipt/1")
        assert [secret for secret in SECRETS if secret in Path("out.json").read_text()] == []

    def test_check_says_no_and_writes_nothing(self, run_redact: RunRedact) -> None:
        before = sorted(os.listdir())
        code, out, err = run_redact("session.json", "--check")
        assert code == 1
        rows = [line.split("\t") for line in out.splitlines()]
        assert ["github_token", "github-token", "2", "evt_000001 /content/text"] in rows
        assert err == "4 values in 5 places would be masked at level secrets\n"
        assert sorted(os.listdir()) == before

    def test_check_of_its_own_outcome_says_yes(self, run_redact: RunRedact) -> None:
        run_redact("session.json", "-o", "out.json", "--level", "pii")
        assert run_redact("out.json", "--check", "--level", "pii") == (
            0,
            "",
            "clean   nothing to mask at level pii\n",
        )

    def test_check_takes_several_sources(self, run_redact: RunRedact) -> None:
        code, out, err = run_redact(
            "--check", "session.json", "clean.txt", "log.txt", "--report", "found.json"
        )
        assert code == 1
        assert "private_key\tprivate-key\t1\tlog.txt: line 5\n" in out
        assert err.endswith("7 values in 9 places in 3 files would be masked at level secrets\n")
        assert [report["count"] for report in json.loads(read("found.json"))["reports"]] == [
            5,
            0,
            4,
        ]
        assert run_redact("--check", "clean.txt", "clean.txt")[0] == 0
        assert run_redact("session.json", "log.txt")[0] == 2
        assert run_redact("--check")[0] == 2

    def test_one_that_cannot_be_read_is_reported_and_the_others_are_searched(
        self, run_redact: RunRedact
    ) -> None:
        Path("binary.txt").write_bytes(b"start \0 end")
        sources = ("gone.json", "session.json", "binary.txt", "log.txt")
        code, out, err = run_redact("--check", *sources)
        assert code == 3
        assert "log.txt: line 2" in out
        assert "not searched: " in err
        assert "--> binary.txt" in err
        assert "--> gone.json" in err
        assert " in 2 files would be masked at level secrets" in err
        assert run_redact("--check", "gone.json", "binary.txt")[0] == 3

    def test_several_processes_report_the_same(self, run_redact: RunRedact) -> None:
        for number in range(4):
            lines = "".join(f"line {line} of a long text\n" for line in range(30_000))
            Path(f"log{number}.txt").write_text(f"{lines}password={PASSWORD}{number}\n{lines}")
        words = ("--check", "--json", "log0.txt", "gone.json", "log1.txt", "log2.txt", "log3.txt")
        one = run_redact(*words, "--jobs", "1")
        two = run_redact(*words, "--jobs", "2")
        assert one == two
        assert one[0] == 3
        assert [report["count"] for report in json.loads(one[1])["reports"]] == [1, 1, 1, 1]

    def test_check_on_a_screen_is_a_table(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Terminal(monkeypatch, stdout=True) as terminal:
            assert main(["redact", "session.json", "--check"]) == 1
        assert re.search(r"^TYPE +RULE +TIMES +FIRST PLACE\r$", terminal.seen, re.MULTILINE)
        assert re.search(
            r"^github_token  github-token +2  evt_000001 /content/text\r$",
            terminal.seen,
            re.MULTILINE,
        )
        assert [secret for secret in SECRETS if secret in terminal.seen] == []

    def test_the_report_has_no_values(self, run_redact: RunRedact) -> None:
        code, out, err = run_redact("session.json", "--report", "-", "--level", "pii")
        report = json.loads(out)
        assert (code, err) == (0, "")
        assert (report["schema"], report["source"], report["level"]) == (
            "open-token/redaction-report/1",
            "session.json",
            "pii",
        )
        assert report["count"] == 6
        first = report["findings"][0]
        assert first["type"] == "github_token"
        assert first["places"] == ["evt_000001 /content/text", "evt_000002 /content/text"]
        assert set(first) == {"type", "rule", "level", "count", "length", "places"}

    def test_report_and_check_go_together(self, run_redact: RunRedact) -> None:
        code, out, _ = run_redact("session.json", "--report", "-", "--check")
        assert (code, json.loads(out)["count"]) == (1, 5)
        assert json.loads(run_redact("session.json", "--check", "--json")[1])["count"] == 5

    def test_the_report_comes_beside_the_outcome(self, run_redact: RunRedact) -> None:
        code, out, err = run_redact("session.json", "--report", "found.json", "-o", "out.json")
        assert (code, out, json.loads(Path("found.json").read_text())["count"]) == (0, "", 5)
        assert "report  found.json  (contains no values)\n" in err
        assert Path("out.json").exists()
        assert (
            json.loads(run_redact("session.json", "--report", "more.json", "redact=pii")[1])[
                "open_token_version"
            ]
            == "0.1"
        )
        code, out, _ = run_redact("session.json", "--report", "-", "-o", "again.json")
        assert (code, json.loads(out)["count"], Path("again.json").exists()) == (0, 5, True)
        assert [
            secret
            for secret in SECRETS[:4]
            for name in ("found.json", "more.json")
            if secret in read(name)
        ] == []

    def test_nothing_to_mask_is_said(self, run_redact: RunRedact) -> None:
        run_redact("session.json", "-o", "out.json")
        assert (
            "redact  nothing to mask at level none\n"
            in run_redact("session.json", "--level", "none", leaks=True)[2]
        )

    def test_stdin_is_a_conversation_when_its_reader_is_named(self, run_redact: RunRedact) -> None:
        code, out, _ = run_redact(
            "-", "--from", "openai_chat", given=json.dumps(CONVERSATION).encode(), leaks=True
        )
        assert (code, json.loads(out)["open_token_version"]) == (0, "0.1")
        assert GITHUB not in out

    def test_rules_and_allow_lists_take_part(self, run_redact: RunRedact, known_key: bytes) -> None:
        Path(".open-token.toml").write_text(
            '[[rule]]\nid = "have"\npattern = "I have"\n[[allow]]\nrule = "*"\n'
        )
        code, out, err = run_redact("session.json", "--check")
        assert code == 1
        assert "have\thave\t1\t" in out
        assert "github_token" in out
        assert "the allow-list of" in err
        settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "config.toml"
        settings.write_text(f'trust_projects = ["{Path.cwd()}"]\n')
        assert run_redact("session.json", "--check") == (
            0,
            "",
            "clean   nothing to mask at level secrets\n",
        )


class TestText:
    def test_stdin_is_filtered(self, run_redact: RunRedact) -> None:
        code, out, err = run_redact("-", given=f"a {GITHUB}\nb é\n".encode())
        assert (code, mark(out)) == (0, "a <github_token>\nb é\n")
        assert err == "read    text  <stdin>\nredact  masked 1 github_token (1 distinct value)\n"

    def test_who_sits_at_a_terminal_is_reported_to_type(
        self,
        run_redact: RunRedact,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with Terminal(monkeypatch, ("end with Ctrl-D", b"plain words\n\x04")) as terminal:
            assert main(["redact", "-"]) == 0
        assert terminal.missed == []
        assert terminal.seen.count("reading from the terminal") == 1
        assert capsys.readouterr().out == "plain words\n"

    def test_a_file_is_known_as_a_whole(self, run_redact: RunRedact) -> None:
        code, out, _ = run_redact("log.txt")
        assert code == 0
        assert (
            mark(out)
            == "start\nfirst <password>\ntoken <github_token>\npassword=<password>\n<private_key>\nend\n"
        )

    def test_nothing_to_mask_is_the_same_text(self, run_redact: RunRedact) -> None:
        assert run_redact("clean.txt") == (
            0,
            "nothing to see\n",
            f"read    text  clean.txt\n{NOTHING}",
        )
        assert run_redact("clean.txt", "--check")[0] == 0
        assert run_redact("-", given=b"") == (0, "", f"read    text  <stdin>\n{NOTHING}")

    def test_check_and_report_name_lines(self, run_redact: RunRedact) -> None:
        assert run_redact("log.txt", "--check")[0] == 1
        report = json.loads(run_redact("log.txt", "--report", "-")[1])
        places = {finding["type"]: finding["places"] for finding in report["findings"]}
        assert places == {
            "password": ["line 2", "line 4"],
            "github_token": ["line 3"],
            "private_key": ["line 5"],
        }
        code, out, _ = run_redact("-", "--check", given=Path("log.txt").read_bytes())
        assert code == 1
        assert "line 2" in out

    def test_a_conversation_can_stay_a_text(self, run_redact: RunRedact) -> None:
        code, out, _ = run_redact("session.json", "--text", "--level", "pii")
        assert (code, list(json.loads(out))) == (0, ["messages"])

    def test_a_file_appears_whole(self, run_redact: RunRedact) -> None:
        _, out, err = run_redact("log.txt", "-o", "clean.log", "--json")
        assert json.loads(out)["redaction"][0] == "masked 1 github_token (1 distinct value)"
        assert "wrote   clean.log" in err
        assert GITHUB not in Path("clean.log").read_text()

    @pytest.mark.parametrize(
        ("data", "code"),
        [
            (f"x {GITHUB}".encode("utf-16"), "input.utf8"),
            (b"a\0b" + GITHUB.encode(), "input.binary"),
        ],
        ids=["utf-16", "binary"],
    )
    def test_what_cannot_be_searched_is_refused(
        self, run_redact: RunRedact, data: bytes, code: str
    ) -> None:
        Path("odd.txt").write_bytes(data)
        for words in (
            ["odd.txt", "--text", "-o", "out.txt"],
            ["-", "-o", "out.txt"],
            ["-", "--check"],
        ):
            status, out, _ = run_redact(*words, "--json", given=data)
            assert status == 3
            assert json.loads(out)["error"]["code"] == code
        assert not Path("out.txt").exists()

    def test_a_pipe_streams(self) -> None:
        command = [sys.executable, "-m", "open_token", "redact", "-"]
        data = f"line {GITHUB} {'x' * 40}\n".encode() * 20_000
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        assert GITHUB.encode() not in done.stdout + done.stderr
        assert done.stdout.count(b"\n") == 20_000


class TestReview:
    def reviewed(
        self, patch: pytest.MonkeyPatch, *keys: tuple[str, bytes], words: tuple[str, ...]
    ) -> tuple[int, str]:
        with Terminal(patch, *keys) as terminal:
            code = main(["redact", *words])
        assert terminal.missed == []
        assert [
            secret
            for secret in SECRETS[:-1]
            if secret in terminal.seen or secret[4:14] in terminal.seen
        ] == []
        return code, terminal.seen

    def test_keep_mask_and_false_for_good(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [
            ("1 of 4", b"k"),
            ("2 of 4", b"m"),
            ("3 of 4", b"f"),
            ("4 of 4", b"n"),
            ("findings seen", b"w"),
        ]
        code, seen = self.reviewed(
            monkeypatch, *keys, words=("session.json", "--review", "-o", "out.json")
        )
        assert code == 0
        assert "review  2 masked, 1 kept, 1 false positive" in seen
        text = json.loads(Path("out.json").read_text())
        said = json.dumps(text["events"])
        assert GITHUB in said
        assert PASSWORD not in said
        assert PEM.split("\n")[1] in said
        assert JWT not in said
        listed = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "allow.toml"
        assert listed.stat().st_mode & 0o777 == 0o600
        assert listed.read_text().count("[[allow]]") == 1
        assert PEM.split("\n")[1] not in listed.read_text()
        code, out, _ = run_redact("session.json", "--check")
        assert code == 1
        assert "private_key" not in out
        assert "github_token" in out

    def test_the_report_lists_the_decisions(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        words = ("session.json", "--review", "-o", "out.json", "--report", "found.json")
        self.reviewed(monkeypatch, ("1 of 4", b"kf"), ("3 of 4", b"w"), words=words)
        report = json.loads(read("found.json"))
        assert [item["decision"] for item in report["findings"]] == [
            "keep",
            "false for good",
            "mask",
            "mask",
        ]
        assert [secret for secret in SECRETS if secret in read("found.json")] == []

    def test_quitting_leaves_nothing(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [("1 of 4", b"ff"), ("3 of 4", b"q")]
        code, seen = self.reviewed(
            monkeypatch, *keys, words=("session.json", "--review", "-o", "out.json")
        )
        assert code == 130
        assert "nothing was written or remembered" in seen
        assert not Path("out.json").exists()
        assert not (Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "allow.toml").exists()

    def test_a_text_is_reviewed_too(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [("line 2", b"k"), ("2 of 3", b"w")]
        code, _ = self.reviewed(monkeypatch, *keys, words=("log.txt", "--review", "-o", "out.txt"))
        assert code == 0
        out = Path("out.txt").read_text()
        assert PASSWORD in out
        assert GITHUB not in out

    def test_policy_locks_private_keys(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "config.toml"
        settings.write_text("[policy]\nnever_export_private_keys = true\n")
        keys = [("1 of 4", b"nn"), ("the policy forbids exporting private keys", b"kfw")]
        code, _ = self.reviewed(
            monkeypatch, *keys, words=("session.json", "--review", "-o", "out.json")
        )
        assert code == 0
        assert PEM.split("\n")[1] not in Path("out.json").read_text()

    def test_nothing_to_review(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code, seen = self.reviewed(monkeypatch, words=("clean.txt", "--review", "-o", "out.txt"))
        assert code == 0
        assert "nothing would be masked" in seen
        assert Path("out.txt").read_text() == "nothing to see\n"

    def test_without_a_file_on_a_screen_nothing_is_written(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Terminal(monkeypatch, ("1 of 4", b"w"), stdout=True) as terminal:
            assert main(["redact", "session.json", "--review"]) == 0
        assert "add -o FILE to write the result" in terminal.seen
        assert "open_token_version" not in terminal.seen

    def test_a_prompt_that_strict_masks_may_be_kept(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        prompts = [
            {"role": "system", "content": f"Be {word}. {GITHUB}"} for word in ("kind", "short")
        ]
        Path("prompts.json").write_text(
            json.dumps({"messages": [*prompts, *CONVERSATION["messages"]]})
        )
        words = ("prompts.json", "--level", "strict", "--review", "-o", "out.json")
        self.reviewed(monkeypatch, ("1 of ", b"k"), ("2 of ", b"w"), words=words)
        said = [event["content"]["text"] for event in json.loads(read("out.json"))["events"][:2]]
        assert [mark(text) for text in said] == ["Be kind. <github_token>", "<system_prompt>"]

    def test_nobody_decides_for_a_file_that_cannot_be(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for more in (["-o", "no/out.json"], ["-o", "out.json", "--report", "no/found.json"]):
            with Terminal(monkeypatch) as terminal:
                assert main(["redact", "session.json", "--review", *more]) == 3
            assert "the folder of the output does not exist" in terminal.seen
            assert "1 of 4" not in terminal.seen
        assert not Path("out.json").exists()

    def test_what_was_false_for_good_can_be_taken_back(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        keys = [("1 of 4", b"n"), ("2 of 4", b"ff"), ("4 of 4", b"w")]
        self.reviewed(monkeypatch, *keys, words=("session.json", "--review", "-o", "out.json"))
        Path("elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        assert "password" not in run_redact("../session.json", "--check")[1]
        listed = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "allow.toml"
        entries = re.split(r"(?=\n\[\[)", listed.read_text())
        listed.write_text("".join(entry for entry in entries if "password" not in entry))
        out = run_redact("../session.json", "--check")[1]
        assert "password" in out
        assert "private_key" not in out

    def test_a_text_from_a_pipe_cannot_be_reviewed(
        self, run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Terminal(monkeypatch) as terminal:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x")))
            assert main(["redact", "-", "--review", "-o", "out.txt"]) == 2
        assert "save the text to a file first" in terminal.seen

    def test_without_a_terminal_it_is_a_usage_error(self, run_redact: RunRedact) -> None:
        code, out, err = run_redact("session.json", "--review")
        assert (code, out) == (2, "")
        assert err.startswith("error: --review needs a terminal\n")


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (["session.json", "--review", "--check"], 2, "--review and --check are mutually exclusive"),
        (["session.json", "--report"], 2, "--report: expected one argument"),
        (["session.json", "--report", "."], 3, "the output is a folder"),
        (["session.json", "--report", "session.json"], 2, "the output would overwrite the source"),
        (["session.json", "--report", "x", "-o", "./x"], 2, "-o and --report name the same file"),
        (["session.json", "--check", "-o", "x"], 2, "--check writes nothing"),
        (
            ["session.json", "--text", "--from", "codex"],
            2,
            "--text and --from are mutually exclusive",
        ),
        (["session.json", "--level", "all"], 2, "invalid value for redact"),
        (["session.json", "--level", "pii", "redact=none"], 2, "redact is given more than once"),
        (["session.json", "-o", "."], 3, "the output is a folder"),
        (
            ["log.txt", "-o", "x", "--report", "no/such/x"],
            3,
            "the folder of the output does not exist",
        ),
        (["session.json", "-o", "session.json"], 2, "the output would overwrite the source"),
        (["log.txt", "-o", "log.txt"], 2, "the output would overwrite the source"),
        (["none.txt", "-o", "x"], 3, "no such file"),
        (["session.json", "--chek"], 2, "did you mean --check?"),
        ([], 2, "`last` for the newest session, or - for stdin"),
        (["session.json", "log.txt"], 2, "only --check accepts several"),
        ([f"use {GITHUB} please"], 3, "to redact a text, use stdin: open-token redact -"),
        (
            [f"https://x:{PASSWORD}@mail.test/a"],
            3,
            "to redact a text, use stdin: open-token redact -",
        ),
    ],
)
def test_usage(run_redact: RunRedact, words: list[str], code: int, what: str) -> None:
    status, out, err = run_redact(*words)
    assert (status, out) == (code, "")
    assert what in err
    assert sorted(os.listdir()) == ["clean.txt", "log.txt", "session.json"]
    assert Path("session.json").read_text() == json.dumps(CONVERSATION)


def test_an_engine_can_be_chosen(run_redact: RunRedact, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Any] = []
    for engine in ("auto", "hyperscan", "keywords"):
        monkeypatch.setenv("OPEN_TOKEN_ENGINE", engine)
        outcomes.append(run_redact("session.json", "redact=pii", "exported_at=omit")[1])
    assert len(set(outcomes)) == 1
    monkeypatch.setenv("OPEN_TOKEN_ENGINE", "steam")
    code, _, err = run_redact("session.json")
    assert code == 2
    assert "OPEN_TOKEN_ENGINE in the environment" in err


def test_json_needs_an_output_file_or_a_check(run_redact: RunRedact) -> None:
    code, out, _ = run_redact("session.json", "--json")
    assert (code, json.loads(out)["error"]["message"]) == (
        2,
        "--json needs -o FILE, --check or --report",
    )


def test_a_pipe_that_pauses_is_put_out() -> None:
    """A line is there while the pipe is still open; where it is not, the watch ends the waiting."""
    command = [sys.executable, "-m", "open_token", "redact", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        watch = threading.Timer(60, process.kill)
        watch.start()
        process.stdin.write(f"a {GITHUB}\nb".encode())
        process.stdin.flush()
        assert mark(process.stdout.readline().decode()) == "a <github_token>\n"
        process.stdin.close()
        assert process.stdout.read() == b"b"
        watch.cancel()


@pytest.mark.parametrize("words", [("session.json",), ("log.txt",), ("session.json", "--text")])
class TestPolicy:
    """What the settings demand holds whatever the command says, and stderr says so."""

    def policy(self, text: str) -> None:
        (Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "config.toml").write_text(
            f"[policy]\n{text}\n"
        )

    def test_private_keys_never_leave(self, words: tuple[str, ...], run_redact: RunRedact) -> None:
        self.policy("never_export_private_keys = true")
        code, out, err = run_redact(*words, "redact=none", leaks=True)
        assert code == 0
        assert GITHUB in out
        assert PEM.split("\n")[1] not in out
        assert "warning: the policy forbids exporting private keys; they are masked\n" in err

    def test_a_level_is_the_least(self, words: tuple[str, ...], run_redact: RunRedact) -> None:
        self.policy('min_redact = "pii"')
        code, _, err = run_redact(*words, "redact=none")
        assert code == 0
        assert "warning: the policy requires at least redact=pii; using that\n" in err
        assert run_redact(*words, "redact=none", "--check")[0] == 1

    def test_an_allow_list_does_not_lift_it(
        self, words: tuple[str, ...], run_redact: RunRedact
    ) -> None:
        self.policy('min_redact = "pii"\nnever_export_private_keys = true\n[[allow]]\nrule = "*"')
        assert run_redact(*words, "redact=none")[0] == 0

    def test_a_policy_that_is_misspelt_stops_everything(
        self, words: tuple[str, ...], run_redact: RunRedact
    ) -> None:
        self.policy("never_export_private_key = true")
        code, out, err = run_redact(*words, "redact=none", "-o", "out.json")
        assert (code, out, Path("out.json").exists()) == (2, "", False)
        assert "did you mean never_export_private_keys?" in err
