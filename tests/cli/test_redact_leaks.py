"""Planted secrets and every output of the commands that look for them: none of it ever holds a
value."""

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzzing.planting import FORMS, LEVELS, is_left, is_seen, plants
from helpers.terminal import Terminal
from open_token.cli import main
from open_token.cli import redact as redact_module
from open_token.cli import redact_search as search_module
from open_token.cli import rules as rules_module
from open_token.cli.shared import findings as found_module
from open_token.redaction.rule_catalogue import fill_placeholders

SHAPES = (
    "ghp_{alnum:36}",
    "password={pass:14}",
    "{jwt}",
    "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----",
    "postgres://app:{alnum:20}@db.internal:5432/main",
    "Authorization: Bearer {alnum:40}",
    "AWS_SECRET_ACCESS_KEY={b64:40}",
    "xoxb-{digit:12}-{digit:12}-{alnum:24}",
    "curl -u admin:{alnum:18} https://host.test/",
    "api_key: {alnum:32}",
    "mail {word:6}.{word:8}@firm.test",
    "card {luhn:4,16}",
    "IBAN {iban:DE}",
)
PLANTED = [fill_placeholders(shape, "leaks") for shape in SHAPES]
VALUES = sorted(
    {value for _, values in PLANTED for value in values if len(value) >= 8} | {PLANTED[10][0][5:]}
)
LINES = [text for text, _ in PLANTED]
SESSION = {
    "messages": [
        {"role": "system", "content": LINES[0]},
        {"role": "user", "content": "\n".join(LINES)},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {
                        "name": "run",
                        "arguments": json.dumps({"line": LINES, LINES[2]: json.dumps(LINES)}),
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": json.dumps({"out": LINES})},
    ]
}
WORDS = ("session.json", "--level", "pii")
COMMANDS = (
    ["redact", *WORDS],
    ["redact", *WORDS, "-o", "out.json"],
    ["redact", *WORDS, "-o", "out.json", "--json"],
    ["redact", *WORDS, "--check"],
    ["redact", *WORDS, "--check", "--json"],
    ["redact", *WORDS, "log.txt", "--check"],
    ["redact", *WORDS, "--report", "-"],
    ["redact", *WORDS, "--report", "report.json", "-o", "out.json"],
    ["redact", *WORDS, "--text"],
    ["redact", *WORDS, "strategy=drop", "mode=ndjson"],
    ["redact", "session.json", "--level", "strict"],
    ["redact", "session.json", "--level", "strict", "--check"],
    ["redact", "log.txt", "--level", "pii"],
    ["redact", "log.txt", "--level", "pii", "-o", "out.txt", "--report", "report.json"],
    ["redact", "log.txt", "--level", "pii", "--check"],
    ["redact", "-", "--level", "pii"],
    ["redact", "-", "--level", "pii", "--check"],
    ["redact", "-", "--level", "pii", "--report", "-"],
    ["rules", "explain", "log.txt", "--level", "pii"],
    ["rules", "explain", "-", "--level", "pii", "--json"],
    ["rules", "explain", "\n".join(LINES), "--level", "pii"],
)
FAULTS = (
    ["redact", "cut.json", "--from", "openai_chat"],
    ["redact", "cut.json", "--from", "openai_chat", "--check", "--json"],
    ["redact", "odd.txt", "--text"],
    ["redact", *WORDS, "-o", "no/such/folder/out.json"],
    ["redact", *WORDS, "--report", "log.txt/report.json"],
    ["redact", *WORDS, f"mode={VALUES[0]}"],
    ["redact", *WORDS, "--conversation", VALUES[1]],
    ["rules", "test", "bad.toml"],
    ["rules", "test", "bad2.toml"],
    ["rules", "show", VALUES[2]],
    ["rules", "list", "--level", VALUES[3]],
)


def leaked(text: str) -> list[str]:
    """The values of which a text holds a good part."""
    return [
        value for value in VALUES if value in text or value[2:12] in text or value[-10:] in text
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_key: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    Path("session.json").write_text(json.dumps(SESSION))
    Path("cut.json").write_text(json.dumps(SESSION)[:-40])
    Path("log.txt").write_text("\n".join(LINES))
    Path("odd.txt").write_bytes(b"\0" + "\n".join(LINES).encode())
    Path("bad.toml").write_text(
        f'[[allow]]\nvalue = "{VALUES[4]}"\n[[rule]]\nid = "x"\npattern = "{VALUES[5]}"\n'
    )
    Path("bad2.toml").write_text(f'[[rule]]\nid = "x"\npattern = "{VALUES[6]}\n')
    given = "\n".join(LINES).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))


def everything(capsys: pytest.CaptureFixture[str], *made: str) -> str:
    """All that a command said and wrote."""
    out, err = capsys.readouterr()
    files = [
        Path(name).read_text()
        for name in ("out.json", "out.txt", "report.json", *made)
        if Path(name).exists()
    ]
    settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
    files += [path.read_text() for path in settings.glob("*.toml")]
    return "\n".join([out, err, *files])


def test_the_secrets_are_planted() -> None:
    assert leaked(Path("log.txt").read_text()) == VALUES
    assert leaked(Path("session.json").read_text())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_output_holds_a_value(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) in (0, 1)
    said = everything(capsys)
    assert "REDACTED" in said or "github" in said
    assert leaked(said) == []


@pytest.mark.parametrize("words", FAULTS, ids=range(len(FAULTS)))
@pytest.mark.parametrize("debug", ["", "1"], ids=["", "debug"])
def test_no_error_holds_a_value(
    words: list[str],
    debug: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPEN_TOKEN_DEBUG", debug)
    assert main(words) in (2, 3)
    assert leaked(everything(capsys)) == []
    assert not Path("out.json").exists()


def failing(*_: object, **__: object) -> object:
    raise ValueError(f"could not take {LINES}")


def refusing(*_: object, **__: object) -> object:
    raise OSError(5, "Input/output error", "\n".join(LINES))


@pytest.mark.parametrize("debug", ["", "1"], ids=["", "debug"])
@pytest.mark.parametrize("fault", [failing, refusing])
@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (redact_module, "export", ["redact", *WORDS, "-o", "out.json"]),
        (search_module, "read_record", ["redact", *WORDS, "--check"]),
        (search_module, "list_record_findings", ["redact", *WORDS, "--report", "report.json"]),
        (redact_module, "redact_text", ["redact", "log.txt", "-o", "out.txt"]),
        (redact_module, "redact_text", ["redact", "-"]),
        (found_module, "to_json", ["redact", "log.txt", "--report", "-"]),
        (redact_module, "load_settings", ["redact", "log.txt"]),
        (rules_module, "explain", ["rules", "explain", "log.txt"]),
    ],
)
def test_a_crash_report_shows_no_value(
    module: object,
    name: str,
    words: list[str],
    fault: Callable[..., object],
    debug: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPEN_TOKEN_DEBUG", debug)
    monkeypatch.setattr(module, name, fault)
    assert main(words) == 3
    said = everything(capsys)
    assert "error:" in said
    assert leaked(said) == []


def test_an_error_of_a_reader_shows_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    """What a reader says of broken input is a word of ours and a place."""
    Path("lines.jsonl").write_text("\n".join(json.dumps({"x": line})[:-1] for line in LINES))
    for words in (
        ["redact", "lines.jsonl", "--from", "claude_code"],
        ["redact", "lines.jsonl", "--level", "pii"],
    ):
        main(words)
        assert leaked(everything(capsys)) == []


def test_the_review_screen_holds_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["redact", *WORDS, "--review", "-o", "out.json", "--report", "report.json"]
    with Terminal(
        monkeypatch, ("1 of ", b"n" * 30 + b"p" * 30 + b"m" * 40), ("seen", b"w"), stdout=True
    ) as terminal:
        assert main(words) == 0
    assert terminal.missed == []
    assert "github_token" in terminal.seen
    assert leaked(terminal.seen + everything(capsys)) == []


def test_progress_holds_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("open_token.cli.shared.progress._DELAY", 0.0)
    monkeypatch.setattr("open_token.cli.shared.progress._INTERVAL", 0.0)
    for words in (
        ["redact", "log.txt", "--level", "pii", "--check"],
        ["redact", "log.txt", "--level", "pii", "-o", "out.txt"],
    ):
        with Terminal(monkeypatch) as terminal:
            main(words)
        assert "reading [" in terminal.seen
        assert leaked(terminal.seen) == []


def test_what_is_remembered_holds_no_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "redact",
        "log.txt",
        "--level",
        "pii",
        "--review",
        "-o",
        "kept.txt",
        "--report",
        "report.json",
    ]
    with Terminal(monkeypatch, ("1 of ", b"f" * 30), ("seen", b"w")) as terminal:
        assert main(words) == 0
    assert "added to" in terminal.seen
    said = everything(capsys)
    assert "hmac:" in said
    assert leaked(terminal.seen + said) == []


HIDDEN = ("plain", "JSON once")


def printed_by(
    words: list[str], capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> str:
    """All that one command says on a terminal, with its progress, and writes into files."""
    for name in ("out.json", "out.txt", "report.json"):
        Path(name).unlink(missing_ok=True)
    with Terminal(patch, stdout=True) as terminal:
        main(words)
    return terminal.seen.replace("\r\n", "\n") + everything(capsys)


@pytest.mark.parametrize("form", HIDDEN)
@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.full)])
def test_every_kind_in_every_output(
    form: str, share: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each kind of secret and of personal data in each place of a conversation, and in a text."""
    monkeypatch.setattr("open_token.cli.shared.progress._DELAY", 0.0)
    monkeypatch.setattr("open_token.cli.shared.progress._INTERVAL", 0.0)
    kinds = [plant for level in LEVELS for plant in plants(form, level, share)]
    made = [plant for plant in kinds if is_seen(plant, form)]
    said = [FORMS[form](plant.text) for plant in made]
    calls = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "run", "arguments": json.dumps({"a": text})},
        }
        for number, text in enumerate(said)
    ]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": text}
        for call, text in zip(calls, said, strict=True)
    ]
    session = [{"role": "user", "content": text} for text in said]
    Path("kinds.json").write_text(
        json.dumps({"messages": [*session, {"role": "assistant", "tool_calls": calls}, *results]})
    )
    Path("kinds.txt").write_text("\n\n".join(said))
    assert sum(is_left(plant, form, Path("kinds.txt").read_text()) for plant in made) > 300 // share
    Path("cut.jsonl").write_text(
        "\n".join(json.dumps({"type": "user", "message": text})[:-1] for text in said)
    )
    for words in (
        ["redact", "kinds.json", "--level", "pii", "-o", "out.json", "--report", "report.json"],
        ["redact", "kinds.json", "--level", "pii", "--check"],
        ["redact", "kinds.txt", "--level", "pii", "-o", "out.txt", "--report", "report.json"],
        ["rules", "explain", "kinds.txt", "--level", "pii"],
        ["export", "kinds.json", "redact=pii", "--to", "markdown", "-o", "out.txt"],
        ["redact", "cut.jsonl", "--from", "claude_code", "--level", "pii"],
    ):
        written = printed_by(words, capsys, monkeypatch)
        assert [plant.rule for plant in made if is_left(plant, form, written)] == []
