"""Whether a signature holds, and by whom it is."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.signers import allowed, create_key, public
from open_token.integrity.signatures import sshsig
from open_token.integrity.signatures.results import (
    INVALID,
    MAX_SIGNATURES,
    TRUSTED,
    UNCHECKED,
    UNKNOWN,
    SignatureResult,
    check_signatures,
    has_unsigned_fields,
    is_plain_signature,
)
from open_token.integrity.signatures.trust import Trust, read_signers

SAID = b'{"a":1}'
NOW = datetime(2026, 11, 16, tzinfo=UTC)


def judged(entry: Any, trust: Trust | None = None, said: bytes = SAID) -> SignatureResult:
    (found,) = check_signatures([entry], said, trust)
    return found


def trust_in(path: Path) -> Trust:
    return Trust(lambda: read_signers(path.read_bytes(), path.name), NOW)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    create_key(folder, "mia")
    create_key(folder, "ben")
    return folder


@pytest.fixture(scope="module")
def entry(keys: Path) -> dict[str, str]:
    return sshsig.sign(SAID, str(keys / "mia"))


def test_a_key_that_came_with_the_file_proves_nothing(keys: Path, entry: dict[str, str]) -> None:
    assert judged(entry).state == UNKNOWN
    assert judged(entry, trust_in(public(keys / "ben"))).state == UNKNOWN
    assert judged(entry, Trust(lambda: (), NOW)).state == UNKNOWN


def test_a_signer_whom_the_reader_knows(keys: Path, entry: dict[str, str]) -> None:
    found = judged(entry, trust_in(public(keys / "mia")))
    assert (found.state, found.by, found.keyid) == (TRUSTED, "mia@example.org", entry["keyid"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ('valid-before="20200101"', "no longer valid"),
        ('valid-after="20990101"', "not valid yet"),
        ('namespaces="git"', "may not"),
    ],
)
def test_a_signer_who_may_not(
    keys: Path, entry: dict[str, str], tmp_path: Path, options: str, reason: str
) -> None:
    found = judged(entry, trust_in(allowed(tmp_path / "list", keys / "mia", options=options)))
    assert found.state == UNKNOWN
    assert found.detail.startswith("the key of mia@example.org, but it")
    assert reason in found.detail


def test_ssh_keygen_has_the_last_word(keys: Path, entry: dict[str, str], tmp_path: Path) -> None:
    """Its own clock says that the line is out of date, whatever ours says."""
    path = allowed(tmp_path / "list", keys / "mia", options='valid-before="20200101"')
    found = judged(entry, trust_in(path)._replace(now=datetime(2019, 1, 1, tzinfo=UTC)))
    assert found.state == UNKNOWN
    assert "ssh-keygen does not accept it" in found.detail


def test_all_names_of_a_line_are_reported(
    keys: Path, entry: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "list"
    path.write_text(
        allowed(path, keys / "mia")
        .read_text()
        .replace("mia@example.org", "mia@example.org,lab@example.org")
    )
    assert judged(entry, trust_in(path)).by == "mia@example.org, lab@example.org"


def test_a_later_line_may_still_allow_it(keys: Path, entry: dict[str, str], tmp_path: Path) -> None:
    old = allowed(tmp_path / "old", keys / "mia", options='valid-before="20200101"').read_text()
    path = tmp_path / "list"
    path.write_text(old + allowed(tmp_path / "new", keys / "mia").read_text())
    assert judged(entry, trust_in(path)).state == TRUSTED


def test_what_does_not_hold(keys: Path, entry: dict[str, str]) -> None:
    trust = trust_in(public(keys / "mia"))
    assert judged(entry, trust, SAID + b" ").state == INVALID
    assert judged(entry, trust, b"").state == INVALID
    assert judged({**entry, "keyid": "SHA256:another"}, trust).state == INVALID
    assert judged({**entry, "scheme": "dsse-ed25519"}, trust).state == INVALID


@pytest.mark.parametrize(
    "rubbish",
    [None, 7, "sig", [], {}, {"scheme": 7}, {"scheme": "sshsig"}, {"scheme": "dsse-ed25519"}],
)
def test_rubbish(rubbish: Any) -> None:
    assert judged(rubbish).state == INVALID
    assert not is_plain_signature(rubbish)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
PARTS = {
    name: st.sampled_from(["sshsig", "dsse-ed25519", sshsig.format_armored(b"SSHSIG")]) | JSON
    for name in ("scheme", "sig")
}


@settings(max_examples=50)
@given(st.fixed_dictionaries(PARTS, optional={"keyid": JSON, "key": JSON}) | JSON)
def test_anything_at_all_is_no_signature(entry: Any) -> None:
    assert judged(entry).state in (INVALID, UNCHECKED)
    assert not is_plain_signature(entry)


@pytest.mark.parametrize("rubbish", [None, {}, "x", 7])
def test_what_is_no_list(rubbish: Any) -> None:
    assert [found.state for found in check_signatures(rubbish, SAID, None)] == [INVALID]


def test_a_scheme_of_somebody_else() -> None:
    found = judged({"scheme": "x" * 100, "keyid": "k", "sig": "s"})
    assert (found.state, found.scheme) == (UNCHECKED, "x" * 40)


def test_a_file_cannot_have_us_run_processes_without_end() -> None:
    found = list(check_signatures([{"scheme": "other"}] * 100_000, SAID, None))
    assert len(found) == MAX_SIGNATURES + 1
    assert (found[-1].state, found[-1].detail) == (UNCHECKED, "99,984 more were not checked")


def test_without_ssh_keygen(
    keys: Path, entry: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sshsig.sign(SAID, str(create_key(keys, "eva", "ecdsa")))
    monkeypatch.setattr(sshsig, "_COMMAND", "ssh-keygen-that-is-not-there")
    assert judged(other).state == UNCHECKED
    assert "install OpenSSH" in judged(other).detail
    pytest.importorskip("cryptography")
    assert judged(entry, trust_in(public(keys / "mia"))).by == "mia@example.org"


def test_only_signatures_are_carried(entry: dict[str, str]) -> None:
    assert is_plain_signature(entry)
    assert not is_plain_signature({**entry, "note": "anything at all"})


def test_words_beside_a_signature_are_noticed(entry: dict[str, str]) -> None:
    assert not has_unsigned_fields([entry])
    assert has_unsigned_fields([entry, {**entry, "by": "the president"}])
    assert not has_unsigned_fields({"by": "somebody"})
