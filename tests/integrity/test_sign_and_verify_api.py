"""Signing and its check as a Python program calls them."""

import os
from pathlib import Path

import pytest

import open_token
from helpers.signers import CHAT, allowed, create_key, public
from open_token.errors import InputError, UsageError


def settings(text: str = "") -> Path:
    folder = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings"
    folder.mkdir(parents=True, exist_ok=True)
    if text:
        (folder / "config.toml").write_text(text)
    return folder


def test_there_and_back(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    document = open_token.sign(open_token.export(CHAT, redact="none"), key)
    (judged,) = open_token.verify(document, trust=public(key)).signatures
    assert (judged.state, judged.by) == ("trusted", "mia@example.org")
    assert open_token.verify(document).signatures[0].state == "unknown"


def test_an_export_signed_as_it_is_made(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    assert (
        open_token.verify(open_token.export(CHAT, redact="none", sign_key=key), trust=public(key))
        .signatures[0]
        .state
        == "trusted"
    )
    receipt = open_token.export_file(CHAT, tmp_path / "session", redact="none", sign_key=str(key))
    assert receipt.integrity
    assert len(receipt.integrity["signatures"]) == 1
    assert (
        open_token.verify(open_token.read(tmp_path / "session"), trust=public(key))
        .signatures[0]
        .state
        == "trusted"
    )


def test_key_and_signers_of_the_settings(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    folder = settings(f'sign_key = "{key}"\n')
    document = open_token.sign(open_token.export(CHAT, redact="none"))
    assert open_token.verify(document).signatures[0].state == "unknown"
    allowed(folder / "allowed_signers", key)
    assert open_token.verify(document).signatures[0].state == "trusted"
    settings('allowed_signers = "others"\n')
    with pytest.raises(InputError, match="does not exist"):
        open_token.verify(document)
    (folder / "others").write_text("# nobody\n")
    assert open_token.verify(document).signatures[0].state == "unknown"


def test_a_list_that_is_wrong_troubles_only_who_needs_it(tmp_path: Path) -> None:
    (settings() / "allowed_signers").write_text("rubbish\n")
    document = open_token.export(CHAT, redact="none")
    assert open_token.verify(document).status == "verified"
    with pytest.raises(InputError, match="invalid list"):
        open_token.verify(open_token.sign(document, create_key(tmp_path)))
    with pytest.raises(InputError, match="invalid list"):
        open_token.verify(document, trust=settings() / "allowed_signers")


def test_a_project_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = create_key(tmp_path)
    (tmp_path / ".open-token.toml").write_text(
        f'sign_key = "{key}"\nallowed_signers = "{public(key)}"\n'
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no signing key"):
        open_token.sign(open_token.export(CHAT, redact="none"))
    document = open_token.sign(open_token.export(CHAT, redact="none"), key)
    assert open_token.verify(document).signatures[0].state == "unknown"


@pytest.mark.parametrize("name", ["sign_key", "allowed_signers"])
def test_settings_of_the_wrong_kind(name: str) -> None:
    settings(f"{name} = 7\n")
    with pytest.raises(UsageError, match=name):
        open_token.sign(open_token.export(CHAT, redact="none"))
