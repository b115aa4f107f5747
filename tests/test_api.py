"""What a Python program calls."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import open_token
from helpers import fake_format
from open_token.api import load_context
from open_token.errors import InputError, UsageError


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake_format.install_fake_format(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return fake_format.write_fake_session(
        tmp_path / "session.jsonl", says=("hello", "ada@example.org")
    )


def texts(document: Any) -> list[str]:
    return [event["content"]["text"] for event in document["events"]]


class TestExport:
    """A document from a path or from bytes."""

    def test_of_a_path_a_name_and_bytes(self, session: Path) -> None:
        documents = [
            open_token.export(source, exported_at="omit")
            for source in (session, str(session), session.read_bytes())
        ]
        assert documents[0] == documents[1] == documents[2]
        assert documents[0]["conversation"]["id"] == "session"
        assert documents[0]["integrity"]["event_count"] == 2
        assert not open_token.validate(documents[0])

    def test_options_are_those_of_the_command_line(self, session: Path) -> None:
        assert "integrity" not in open_token.export(session, integrity="none")
        assert texts(open_token.export(session, redact="pii"))[1].startswith("[REDACTED:")
        assert texts(open_token.export(session, redact="none")) == ["hello", "ada@example.org"]

    def test_rules_and_allow_lists_of_the_settings_take_part(self, session: Path) -> None:
        Path(".open-token.toml").write_text("[[rule]]\nid = 'greeting'\npattern = 'hello'\n")
        settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
        settings.mkdir(parents=True, exist_ok=True)
        (settings / "config.toml").write_text(
            f"[[allow]]\nrule = 'email'\npath = '{session.parent}/*.jsonl'\n"
        )
        said = texts(open_token.export(session, redact="pii"))
        assert said[0].startswith("[REDACTED:greeting:")
        assert said[1] == "ada@example.org"

    def test_the_answer_is_a_document_with_any_settings(
        self, session: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPEN_TOKEN_MODE", "ndjson")
        assert open_token.export(session)["open_token_version"] == "0.1"
        assert open_token.export(session, mode="ndjson", pretty=True)["open_token_version"] == "0.1"

    def test_a_reader_can_be_named(self, tmp_path: Path, session: Path) -> None:
        assert (
            open_token.export(b'{"say": "hi"}', reader="fake-session")["events"][0]["role"]
            == "user"
        )

    @pytest.mark.parametrize("options", [{"redcat": "pii"}, {"redact": "all"}, {"max_bytes": 0}])
    def test_wrong_options_are_usage_errors(self, session: Path, options: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            open_token.export(session, **options)

    def test_errors_are_of_one_family(self, tmp_path: Path) -> None:
        for source in (tmp_path / "nothing", tmp_path, b"", b"\0\0"):
            with pytest.raises(open_token.OpenTokenError):
                open_token.export(source)
        assert issubclass(open_token.InputError, open_token.OpenTokenError)


class TestExportFile:
    """A file, whole or not at all."""

    def test_export_returns_what_was_written(self, session: Path, tmp_path: Path) -> None:
        receipt = open_token.export_file(session, tmp_path / "out.ndjson", mode="ndjson")
        assert (receipt.reader, receipt.events) == ("fake_session", 2)
        assert receipt.bytes == (tmp_path / "out.ndjson").stat().st_size

    def test_a_failure_writes_nothing(self, session: Path, tmp_path: Path) -> None:
        session.write_bytes(b"{oops}\n" * 3)
        with pytest.raises(InputError):
            open_token.export_file(session, tmp_path / "out.json")
        assert sorted(os.listdir(tmp_path)) == ["session.jsonl"]


class TestRead:
    """An export as it is."""

    @pytest.mark.parametrize("mode", ["json", "ndjson"])
    def test_both_modes(self, session: Path, tmp_path: Path, mode: str) -> None:
        expected = open_token.export(session, exported_at="omit")
        open_token.export_file(session, tmp_path / "out", mode=mode, exported_at="omit")
        assert open_token.read(tmp_path / "out") == expected
        assert open_token.read((tmp_path / "out").read_bytes()) == expected

    def test_thoughts_and_secrets_stay(self) -> None:
        event = {
            "id": "evt_000001",
            "seq": 1,
            "type": "message",
            "actor_id": "act_001",
            "visibility": "internal",
            "role": "assistant_thought",
            "content": {"mime": "text/plain", "text": "password: hunter2hunter2"},
        }
        document = {
            "open_token_version": "0.1",
            "exported_at": "2026-01-31T00:00:00Z",
            "conversation": {"id": "c"},
            "participants": [{"actor_id": "act_001", "kind": "model", "name": "m"}],
            "events": [event],
        }
        assert open_token.read(json.dumps(document).encode()) == document

    def test_what_is_no_export_is_refused(self, session: Path) -> None:
        with pytest.raises(InputError, match="not an Open-Token export"):
            open_token.read(session)


class TestSurroundings:
    """Clock, keys and settings of one export."""

    def test_what_is_said_wins(self, tmp_path: Path) -> None:
        (tmp_path / ".open-token.toml").write_text(
            '[defaults]\nredact = "strict"\nmode = "ndjson"\n'
        )
        env = {
            "OPEN_TOKEN_HOME": str(tmp_path / "home"),
            "OPEN_TOKEN_REDACT": "pii",
            "SOURCE_DATE_EPOCH": "86400",
        }
        context = load_context({"mode": "json"}, env, tmp_path)
        assert (context.options.mode, context.options.redact) == ("json", "pii")
        assert context.now == "1970-01-02T00:00:00Z"
        assert context.key == (tmp_path / "home" / "settings" / "key").read_bytes()

    @pytest.mark.parametrize("epoch", ["", "soon", "-5"])
    def test_the_clock_is_read_without_fractions(self, tmp_path: Path, epoch: str) -> None:
        now = load_context(
            {}, {"OPEN_TOKEN_HOME": str(tmp_path), "SOURCE_DATE_EPOCH": epoch}, tmp_path
        ).now
        assert now is not None
        assert len(now) == 20
        assert now.endswith("Z")


def test_the_front_door_opens_to_each_name() -> None:
    for name in open_token.__all__:
        assert getattr(open_token, name).__doc__ is not None or name in ("Event", "Export")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        open_token.nothing  # noqa: B018 - asking is what fails
