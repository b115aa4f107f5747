"""`open-token hook keep`: the options are the user's own, the folder is the one that was asked
for."""

import json
from pathlib import Path

import pytest

from helpers.hook_calls import SESSIONS, write_sessions
from open_token.cli import main
from open_token.cli.hook_keep import drop_option_variables
from open_token.library.hooks.payload import HookCall
from open_token.library.hooks.queue import CallQueue

SECRET = "-".join(("sk", "ant", "api03", "x7Kp" * 23 + "AA"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_sessions(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPEN_TOKEN_HOME", str(tmp_path / "ot"))
    monkeypatch.setenv("OPEN_TOKEN_REDACT", "none")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("os.nice", lambda _: 0)
    return tmp_path


def kept(home: Path, folder: Path) -> str:
    path = next((home / ".codex").rglob("*.jsonl"))
    path.write_text(path.read_text().replace('"text":"', f'"text":"{SECRET} ', 1))
    CallQueue(home / "ot/data/hooks").add(
        HookCall(runtime="codex", id=SESSIONS["codex"].id, folder=str(folder), event="SessionEnd")
    )
    assert main(["hook", "keep"]) == 0
    (file,) = folder.glob("codex/*")
    return file.read_text()


def test_secrets_are_masked_with_any_environment(home: Path) -> None:
    text = kept(home, home / "sessions")
    assert json.loads(text)["events"]
    assert SECRET not in text
    assert "[REDACTED:" in text


def test_the_settings_of_the_user_count(home: Path) -> None:
    (home / "ot/settings").mkdir(parents=True)
    (home / "ot/settings/config.toml").write_text('[defaults]\nmode = "ndjson"\n')
    assert len(kept(home, home / "sessions").splitlines()) > 2


def test_settings_that_cannot_be_read_are_in_the_log(home: Path) -> None:
    (home / "ot/settings").mkdir(parents=True)
    (home / "ot/settings/config.toml").write_text("[")
    CallQueue(home / "ot/data/hooks").add(
        HookCall(runtime="codex", id=SESSIONS["codex"].id, event="SessionEnd")
    )
    assert main(["hook", "keep"]) == 0
    assert '"result":"failed"' in (home / "ot/data/hooks/log.ndjson").read_text()


def test_only_export_options_are_taken_from_the_environment() -> None:
    assert drop_option_variables(
        {"OPEN_TOKEN_REDACT": "none", "OPEN_TOKEN_HOME": "x", "A": "b"}
    ) == {
        "OPEN_TOKEN_HOME": "x",
        "A": "b",
    }
