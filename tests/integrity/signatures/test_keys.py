"""Public keys as OpenSSH writes them."""

import subprocess
from pathlib import Path

import pytest

from helpers.signers import create_key, public
from open_token.integrity.signatures import keys

RAW = bytes(range(32))
KEY = keys.from_raw_ed25519(RAW)


def test_a_key_there_and_back() -> None:
    text = keys.format_public_key(KEY)
    assert text.startswith("ssh-ed25519 AAAA")
    assert keys.find_public_key(text) == KEY
    assert keys.to_raw_ed25519(KEY) == RAW


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, kind: str) -> None:
    path = public(create_key(tmp_path, kind=kind))
    result = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(path)], capture_output=True, text=True, check=True
    ).stdout
    key = keys.find_public_key(" ".join(path.read_text().split()[:2]))
    assert key is not None
    assert keys.compute_fingerprint(key) == result.split()[1]
    assert (keys.to_raw_ed25519(key) is None) == (kind == "ecdsa")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-rsa " + keys.format_public_key(KEY).split()[1],
        "ssh-ed25519 !!!!",
        None,
        7,
    ],
)
def test_what_is_no_key(text: object) -> None:
    assert keys.find_public_key(text) is None


@pytest.mark.parametrize("blob", [b"\0", b"\0\0\0\5abc", b"\xff\xff\xff\xff", b"\0\0\0\0\0"])
def test_lengths_that_lie(blob: bytes) -> None:
    assert keys.parse_ssh_strings(blob) is None
    assert keys.to_raw_ed25519(blob) is None


def test_base64_has_one_form() -> None:
    assert keys.decode_exact_base64("QQ==") == b"A"
    assert [keys.decode_exact_base64(text) for text in ("QR==", "QQ", "QQ==\n", "Q Q==", "ä")] == [
        None
    ] * 5


def test_a_key_in_pem() -> None:
    from base64 import b64encode

    der = b64encode(bytes.fromhex("302a300506032b6570032100") + RAW).decode()
    assert keys.from_pem(f"-----BEGIN PUBLIC KEY-----\n{der}\n-----END PUBLIC KEY-----\n") == KEY
    assert keys.from_pem("-----BEGIN PUBLIC KEY-----\nQQ==\n-----END PUBLIC KEY-----\n") is None
    assert keys.from_pem("") is None
