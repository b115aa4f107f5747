"""ssh-keygen as it is run."""

import os
import subprocess
from pathlib import Path

import pytest

from helpers.signers import create_key, public
from open_token.errors import SigningError
from open_token.integrity.signatures import sshsig
from open_token.integrity.signatures.trust import read_signers


def test_a_signature_is_made_and_taken(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    made = sshsig.sign_with_keygen(str(key), b"said")
    assert sshsig.check_with_keygen(made, b"said")
    assert not sshsig.check_with_keygen(made, b"said otherwise")
    (signer,) = read_signers(public(key).read_bytes(), "mia.pub")
    assert sshsig.accepts_signer(signer, made, b"said")
    assert not sshsig.accepts_signer(signer, made, b"said otherwise")


def test_pipes_hold_the_texts_and_are_closed() -> None:
    with sshsig._open_pipes(b"one", b"two") as pipes:
        assert [os.read(pipe, 10) for pipe in pipes] == [b"one", b"two"]
    for pipe in pipes:
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(pipe)


def test_a_key_that_cannot_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_key(tmp_path)
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("\x1b[31mno key")
    rubbish.chmod(0o600)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "never")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    with pytest.raises(SigningError) as caught:
        sshsig.sign_with_keygen(str(rubbish), b"said")
    assert caught.value.code == "sign.key"


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    key.chmod(0o644)
    with pytest.raises(SigningError, match="too open"):
        sshsig.sign_with_keygen(str(key), b"said", is_alone=True)


def test_nobody_is_asked_where_a_process_is_alone(tmp_path: Path) -> None:
    key = create_key(tmp_path)
    words = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "some words", "-f", str(key)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    with pytest.raises(SigningError, match="cannot sign"):
        sshsig.sign_with_keygen(str(key), b"said", is_alone=True)


def test_without_ssh_keygen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshsig, "_COMMAND", "ssh-keygen-that-is-not-there")
    for sign in (sshsig.require_keygen, lambda: sshsig.sign_with_keygen("key", b"said")):
        with pytest.raises(SigningError) as caught:
            sign()
        assert caught.value.code == "sign.tool"
    with pytest.raises(sshsig.KeygenMissing):
        sshsig.check_with_keygen("", b"said")


def test_one_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*words: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("ssh-keygen", 1)

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(SigningError, match="timed out"):
        sshsig.sign_with_keygen("key", b"said")
    assert not sshsig.check_with_keygen("", b"said")
