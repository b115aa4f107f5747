"""The scheme sshsig: what ssh-keygen makes is read whole, and everything else is refused before it
is run."""

import subprocess
from pathlib import Path

import pytest

from helpers.signers import create_key
from open_token.integrity.signatures import sshsig
from open_token.integrity.signatures.keys import compute_fingerprint, encode_ssh_string

SAID = b'{"a":1}'


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_keys_that_people_have(tmp_path: Path, kind: str) -> None:
    entry = sshsig.sign(SAID, str(create_key(tmp_path, kind=kind)))
    key = sshsig.read_public_key(entry)
    assert key is not None
    assert entry["keyid"] == compute_fingerprint(key)
    assert sshsig.check_signature(entry, SAID) is True
    assert sshsig.check_signature(entry, SAID + b" ") is False


def test_a_signature_for_something_else(tmp_path: Path) -> None:
    words = ["ssh-keygen", "-Y", "sign", "-n", "git", "-f", str(create_key(tmp_path))]
    armoured = subprocess.run(words, input=SAID, capture_output=True, check=True).stdout.decode()
    assert sshsig.parse_armored(armoured) is not None
    assert sshsig.read_public_key({"sig": armoured}) is None


@pytest.mark.parametrize("said", [SAID, b"another"])
def test_ed25519_without_ssh_keygen(
    tmp_path: Path, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cryptography")
    entry = sshsig.sign(SAID, str(create_key(tmp_path)))
    other = sshsig.sign(SAID, str(create_key(tmp_path, "ben", "ecdsa")))
    monkeypatch.setattr(sshsig, "_COMMAND", "ssh-keygen-that-is-not-there")
    assert sshsig.check_signature(entry, said) is (said == SAID)
    assert sshsig.check_signature(other, said) is None


BLOB = b"SSHSIG\0\0\0\1" + b"".join(
    map(
        encode_ssh_string,
        (encode_ssh_string(b"ssh-ed25519"), b"open-token", b"", b"sha512", b"sig"),
    )
)


def test_the_armour_has_one_form() -> None:
    armoured = sshsig.format_armored(BLOB)
    assert sshsig.parse_armored(armoured) is not None
    for changed in (
        armoured[:-1],
        armoured + "\n",
        armoured.replace("\n", "\r\n"),
        armoured.replace("U1NI", "U1NI\n"),
        armoured.replace("SIGNATURE", "SIGNATURES"),
        " " + armoured,
    ):
        assert sshsig.parse_armored(changed) is None


@pytest.mark.parametrize(
    "sig",
    [
        None,
        7,
        [],
        "",
        "x" * 20000,
        sshsig.format_armored(b""),
        sshsig.format_armored(BLOB[:-1]),
        "\x1b",
    ],
)
def test_what_is_no_signature(sig: object) -> None:
    assert sshsig.parse_armored(sig) is None
    assert sshsig.read_public_key({"sig": sig}) is None


def test_a_version_that_is_not_known() -> None:
    assert (
        sshsig.parse_armored(sshsig.format_armored(BLOB.replace(b"\0\0\0\1", b"\0\0\0\2", 1)))
        is None
    )


def test_what_is_reserved_is_refused() -> None:
    parts = (encode_ssh_string(b"ssh-ed25519"), b"open-token", b"more", b"sha512", b"sig")
    assert (
        sshsig.read_public_key(
            {
                "sig": sshsig.format_armored(
                    b"SSHSIG\0\0\0\1" + b"".join(map(encode_ssh_string, parts))
                )
            }
        )
        is None
    )
