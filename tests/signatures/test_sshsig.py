"""The scheme sshsig: what ssh-keygen makes is read whole, and everything else is refused before it
is run."""

import subprocess
from pathlib import Path

import pytest

from open_token.signatures import keygen, sshsig
from open_token.signatures.public_keys import fingerprint, string
from signers import new_key

SAID = b'{"a":1}'


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_keys_that_people_have(tmp_path: Path, kind: str) -> None:
    entry = sshsig.sign(SAID, str(new_key(tmp_path, kind=kind)))
    key = sshsig.public_key(entry)
    assert key is not None
    assert entry["keyid"] == fingerprint(key)
    assert sshsig.holds(entry, SAID) is True
    assert sshsig.holds(entry, SAID + b" ") is False


def test_a_signature_for_something_else(tmp_path: Path) -> None:
    words = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", str(new_key(tmp_path))]
    armoured = subprocess.run(words, input=SAID, capture_output=True, check=True).stdout.decode()
    assert sshsig.parse(armoured) is not None
    assert sshsig.public_key({"sig": armoured}) is None


@pytest.mark.parametrize("said", [SAID, b"another"])
def test_ed25519_without_ssh_keygen(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    entry = sshsig.sign(SAID, str(new_key(tmp_path)))
    other = sshsig.sign(SAID, str(new_key(tmp_path, "ben", "ecdsa")))
    monkeypatch.setattr(keygen, "_COMMAND", "ssh-keygen-that-is-not-there")
    assert sshsig.holds(entry, said) is (said == SAID)
    assert sshsig.holds(other, said) is None


BLOB = b"SSHSIG\0\0\0\1" + b"".join(
    map(string, (string(b"ssh-ed25519"), b"open-token", b"", b"sha512", b"sig"))
)


def test_the_armour_has_one_form() -> None:
    armoured = sshsig.armour(BLOB)
    assert sshsig.parse(armoured) is not None
    for changed in (
        armoured[:-1],
        armoured + "\n",
        armoured.replace("\n", "\r\n"),
        armoured.replace("U1NI", "U1NI\n"),
        armoured.replace("SIGNATURE", "SIGNATURES"),
        " " + armoured,
    ):
        assert sshsig.parse(changed) is None


@pytest.mark.parametrize(
    "sig", [None, 7, [], "", "x" * 20000, sshsig.armour(b""), sshsig.armour(BLOB[:-1]), "\x1b"]
)
def test_what_is_no_signature(sig: object) -> None:
    assert sshsig.parse(sig) is None
    assert sshsig.public_key({"sig": sig}) is None


def test_a_version_that_is_not_known() -> None:
    assert sshsig.parse(sshsig.armour(BLOB.replace(b"\0\0\0\1", b"\0\0\0\2", 1))) is None


def test_what_is_reserved_is_refused() -> None:
    parts = (string(b"ssh-ed25519"), b"open-token", b"more", b"sha512", b"sig")
    assert (
        sshsig.public_key({"sig": sshsig.armour(b"SSHSIG\0\0\0\1" + b"".join(map(string, parts)))})
        is None
    )
