"""Ed25519 by a package that may be missing."""

import sys
from pathlib import Path

import pytest

from helpers.signers import create_key
from open_token.errors import SigningError
from open_token.integrity.signatures import keys

# The first test of RFC 8032, section 7.1: no bytes are signed.
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
    "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def test_the_vector_of_the_rfc() -> None:
    pytest.importorskip("cryptography")
    assert keys.verify_ed25519(PUBLIC, SIGNATURE, b"") is True
    assert keys.verify_ed25519(PUBLIC, SIGNATURE, b"x") is False
    assert keys.verify_ed25519(PUBLIC, SIGNATURE[:-1], b"") is False
    assert keys.verify_ed25519(PUBLIC[:-1], SIGNATURE, b"") is False


def test_keys_of_other_kinds_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    (tmp_path / "rubbish").write_bytes(b"no key")
    for path in (tmp_path / "rubbish", tmp_path / "missing", create_key(tmp_path, kind="ecdsa")):
        with pytest.raises(SigningError, match="Ed25519"):
            keys.load_private_key(str(path))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert keys.verify_ed25519(PUBLIC, SIGNATURE, b"") is None
    with pytest.raises(SigningError) as caught:
        keys.load_private_key("key")
    assert caught.value.code == "sign.package"
