"""The scheme dsse-ed25519."""

from base64 import b64decode
from pathlib import Path

import pytest

from helpers.signers import create_key
from open_token.integrity.signatures import dsse

pytest.importorskip("cryptography")
SAID = b'{"a":1}'


def test_the_envelope() -> None:
    assert dsse.encode_payload(SAID) == b'DSSEv1 28 application/vnd.in-toto+json 7 {"a":1}'


def test_keys_of_both_forms(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    for name, form in (("pem", forms.PrivateFormat.PKCS8), ("ssh", forms.PrivateFormat.OpenSSH)):
        (tmp_path / name).write_bytes(
            private.private_bytes(forms.Encoding.PEM, form, forms.NoEncryption())
        )
    entry = dsse.sign(SAID, str(tmp_path / "pem"))
    assert dsse.sign(SAID, str(tmp_path / "ssh")) == entry
    private.public_key().verify(b64decode(entry["sig"]), dsse.encode_payload(SAID))
    assert dsse.check_signature(entry, SAID) is True
    assert dsse.check_signature(entry, SAID + b" ") is False


def test_what_is_no_such_signature(tmp_path: Path) -> None:
    entry = dsse.sign(SAID, str(create_key(tmp_path)))
    assert dsse.read_public_key(entry)
    for change in (
        {"sig": ""},
        {"sig": None},
        {"sig": entry["sig"] + "="},
        {"key": "ssh-rsa AAAA"},
        {"key": None},
    ):
        assert dsse.read_public_key({**entry, **change}) is None
        assert dsse.check_signature({**entry, **change}, SAID) is False
