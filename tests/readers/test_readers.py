"""Which reader takes an input: exactly one, or an error that says why."""

from pathlib import Path

import pytest

from helpers import fake_format
from helpers.golden_cases import CASES, GOLDEN, read_case
from open_token import registry
from open_token.errors import InputError, UsageError
from open_token.library.discovery import Discovery
from open_token.registry import READERS, detect_format, load_reader
from open_token.sources.source import Source


def problem_of(data: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        detect_format(Source("session", data=data))
    return caught.value


@pytest.mark.parametrize("name", READERS)
def test_every_reader_says_what_it_is(name: str) -> None:
    reader = load_reader(name)
    assert reader.definition.name == name
    assert reader.definition.title
    assert all(reader.definition.places)
    assert reader is load_reader(name.replace("_", "-"))


@pytest.mark.parametrize("name", ["", "nobody", "_wire_chat", "../source", "__init__"])
def test_what_is_no_reader_is_not_loaded(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_reader(name)
    assert "claude_code" in str(caught.value.help)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "input.empty"),
        (b"\n \n", "input.empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "input.binary"),
        (b"name,age\nada,36\n", "input.unknown"),
        (b'{"name": "x", "version": "1.0.0"}\n', "input.unknown"),
        (b"[]", "input.unknown"),
        (b"[1, 2, 3]", "input.unknown"),
        (b'{"name": ', "input.json"),
        (b'{"name": "\xff"}', "input.utf8"),
    ],
)
def test_what_nobody_claims(data: bytes, code: str) -> None:
    problem = problem_of(data)
    assert (problem.code, problem.exit_code) == (code, 3)
    assert problem.help


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (b'{"parentUuid": null, "sessionId": "s", "kind": "novel"}\n', "Claude Code"),
        (b'{"timestamp": "t", "type": "novel", "payload": {}}\n', "Codex"),
        (b'{"chunkedPrompt": 7}', "Google AI Studio"),
        (b'{"data": {"resourceSpans": 1}, "resource_logs": 2}', "OpenTelemetry"),
    ],
)
def test_a_near_miss_is_named(data: bytes, title: str) -> None:
    problem = problem_of(data)
    assert problem.code == "input.unknown"
    assert "of a version that is not known" in problem.what
    assert title in problem.what
    assert "--from " in str(problem.help)


def test_a_short_or_plain_signature_alone_is_no_near_miss() -> None:
    for data in (b'{"threadId": 1}', b'{"source": 1, "action": 2, "agent": 3}', b'{"mapping": 1}'):
        assert "looks like" not in problem_of(data).what


def test_two_claims_are_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_format.install_fake_format(monkeypatch, beside=("openai_chat",))
    monkeypatch.setattr(fake_format, "sniff", lambda source: True)
    problem = problem_of(b'[{"role": "user", "content": "hello"}]')
    assert problem.code == "input.ambiguous"
    assert "fake_session or openai_chat" in problem.what
    assert "--from fake_session or --from openai_chat" in str(problem.help)


def test_an_export_is_detected_whatever_its_events_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the fuzzer: an event with a key of OpenCode's."""
    fake_format.install_fake_format(monkeypatch)
    monkeypatch.setattr(fake_format, "sniff", lambda source: True)
    assert detect_format(Source("session", data=b'{"open_token_version": "0.1"}')) == "open_token"


def test_content_decides_not_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_format.install_fake_format(monkeypatch)
    assert (
        detect_format(Source.of(fake_format.write_fake_session(tmp_path / "session.ndjson")))
        == "fake_session"
    )
    (tmp_path / "claude.jsonl").write_text('{"open_token_version": "0.1"}')
    assert detect_format(Source.of(tmp_path / "claude.jsonl")) == "open_token"


@pytest.mark.parametrize("reader", READERS)
def test_every_golden_input_is_claimed_by_its_reader(reader: str, tmp_path: Path) -> None:
    for case in CASES:
        if case.parent.name == reader:
            (tmp_path / case.name).mkdir()
            path, _ = read_case(case, tmp_path / case.name)
            source = Source.of_folder(path) if path.is_dir() else Source.of(path)
            assert detect_format(source) == reader, case.name


UNREAD = b'{"type":"hologram","words":"Of a kind that nobody knows yet."}\n'
LOGS = "acp claude_code claude_stream codex codex_app_server copilot_cli factory_droid gemini_cli grok_cli iflow kimi_cli openclaw openhands otel_genai pi qwen_code".split()
"""Formats that a runtime writes line by line, and to which its next version may add kinds of
lines."""


@pytest.mark.parametrize("reader", LOGS)
def test_a_line_of_a_new_kind_hides_no_conversation(reader: str) -> None:
    tried = 0
    for path in sorted(GOLDEN.glob(f"{reader}/*/input.jsonl")):
        lines = path.read_bytes().splitlines(keepends=True)
        is_early = reader == "codex" and path.parent.name.startswith(
            "legacy"
        )  # nothing is added to it any more
        for place in (0, 1, len(lines)) if len(lines) > 2 and not is_early else ():
            source = Source("x", data=b"".join([*lines[:place], UNREAD, *lines[place:]]))
            assert detect_format(source) == reader, path
            tried += 1
    assert tried


@pytest.mark.parametrize("frame", [b"%b", b'{%b: 1, ""}', b'"%b', b'%b"', b'{"x":"a%b"}'])
def test_a_sign_is_found_wherever_it_stands(frame: bytes) -> None:
    for sign in {s for reader in READERS.values() for s in reader.definition.signatures}:
        for part in (sign, sign[1:], sign[:-1], sign[1:-1]):
            data = frame % part
            for head in (data, data + b" " * (1 << 13)):
                assert registry.Head(head).contains(sign) == (sign in data), data


def test_every_package_of_agents_and_formats_is_a_reader() -> None:
    root = Path(registry.__file__).parent
    packages = {
        path.parent.name
        for path in (*root.glob("agents/*/reader.py"), *root.glob("formats/*/reader.py"))
    }
    assert set(READERS) == packages
    assert list(READERS) == sorted(READERS)


def test_a_broken_line_is_named_though_nobody_claims_the_input() -> None:
    problem = problem_of(b'{"a": 1}\n{"b": \n{"c": 2}\n')
    assert (problem.code, problem.where) == ("input.json", "session:2:6")


_PLACES_TRIED = 6


def at_home(reader: str) -> list[tuple[Path, str]]:
    """Golden files of a reader, one for each place below the home folder in which such a file is
    looked for."""
    places = [
        place
        for place in load_reader(reader).definition.places
        if not place.startswith(("$", "./"))
    ]
    cases = [case for case in CASES if case.parent.name == reader]
    found = []
    for place in places:
        for case in cases:
            suffix = ".sql" if Path(place).suffix in (".db", ".vscdb") else Path(place).suffix
            if suffix and any(
                file.suffix == suffix for file in (*case.glob("input*"), *case.glob("input/*"))
            ):
                found.append((case, place.replace("*", "5d1f7b3e-9a2c-4e8f-b1d0-3c4a5b6c7d8e")))
    return found[:: max(1, len(found) // _PLACES_TRIED)]


@pytest.mark.parametrize("reader", [name for name in READERS if at_home(name)])
def test_what_lies_in_a_usual_place_is_found(reader: str, tmp_path: Path) -> None:
    """A file of a format that may hold several conversations, and holds one, was not listed."""
    for number, (case, place) in enumerate(at_home(reader)):
        made = tmp_path / str(number)
        made.mkdir()
        source, _ = read_case(case, made)
        if source.suffix not in (".db", Path(place).suffix):
            continue
        target = made / "home" / place
        target.parent.mkdir(parents=True)
        target.write_bytes(source.read_bytes())
        if detect_format(Source.of(target)) == reader:
            assert Discovery({}, made / "home").sessions(), f"{case.name} as {place}"
