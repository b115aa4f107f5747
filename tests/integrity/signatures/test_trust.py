"""Lists of trusted signers: what OpenSSH reads, read in the same way, and nothing trusted by
mistake."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.errors import InputError
from open_token.integrity.signatures.keys import format_public_key, from_raw_ed25519
from open_token.integrity.signatures.trust import Signer, read_signers

KEY = from_raw_ed25519(bytes(range(32)))
TEXT = format_public_key(KEY)
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def only(line: str) -> Signer:
    (signer,) = read_signers(line.encode(), "list")
    return signer


@pytest.mark.parametrize(
    ("line", "names", "options"),
    [
        (f"mia@example.org {TEXT}", ("mia@example.org",), {}),
        (
            f"  mia@example.org,ben@example.org   {TEXT}  a comment\r",
            ("mia@example.org", "ben@example.org"),
            {},
        ),
        (f'"mia of the lab" {TEXT}', ("mia of the lab",), {}),
        (f'mia namespaces="git,open-token" {TEXT}', ("mia",), {"namespaces": "git,open-token"}),
        (
            f'mia valid-after="20200101",valid-before="20300101Z" {TEXT}',
            ("mia",),
            {"valid-after": "20200101", "valid-before": "20300101Z"},
        ),
        (f"*@example.org cert-authority {TEXT}", ("*@example.org",), {"cert-authority": ""}),
        (f"{TEXT} mia@example.org", ("mia@example.org",), {}),
    ],
)
def test_a_line(line: str, names: tuple[str, ...], options: dict[str, str]) -> None:
    assert only(line) == Signer(names, options, KEY)


def test_a_line_anew_is_read_as_the_same() -> None:
    signer = only(f'mia,ben namespaces="a b,open-token",valid-before="20300101" {TEXT}')
    assert only(signer.line) == signer


def test_remarks_and_empty_lines() -> None:
    assert read_signers(f"# who\n\n \t\nmia {TEXT}\n".encode(), "list") == (
        Signer(("mia",), {}, KEY),
    )
    assert read_signers(b"", "list") == ()


@pytest.mark.parametrize(
    "line",
    [
        "mia",
        "mia ssh-ed25519",
        "mia ssh-ed25519 AAAA",
        f"mia unknown-option {TEXT}",
        f'mia valid-before="tomorrow" {TEXT}',
        f'mia valid-before="20261399" {TEXT}',
        f'mia namespaces="open {TEXT}',
        f"mia namespaces {TEXT}",
        f"mia namespaces=open-token {TEXT}",
        f"mia valid-before=20990101 {TEXT}",
        f'mia valid-before="\u0662\u0660\u0669\u0669\u0660\u0661\u0660\u0661" {TEXT}',
        f'mia namespaces="open-token", {TEXT}',
        f'mia"x namespaces="open\\"-token" {TEXT}',
        f", {TEXT}",
        "x" * 9000,
        '"' * 4000,
    ],
)
def test_a_line_that_is_none_is_reported_with_its_number(line: str) -> None:
    with pytest.raises(InputError) as caught:
        read_signers(f"# first\n{line}\n".encode(), "list")
    assert caught.value.where == "list:2"
    assert caught.value.code == "sign.trust"


def test_what_is_no_text() -> None:
    with pytest.raises(InputError, match="UTF-8"):
        read_signers(b"\xff\xfe", "list")
    with pytest.raises(InputError, match="public Ed25519"):
        read_signers(b"-----BEGIN CERTIFICATE-----\n", "list")
    with pytest.raises(InputError, match="a private key") as caught:
        read_signers("-----BEGIN OPENSSH {}-----\n".format("PRIVATE KEY").encode(), "list")
    assert caught.value.help == "give the public key (.pub)"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("", ""),
        ('namespaces="open-token"', ""),
        ('namespaces="open-*"', ""),
        ('namespaces="git"', "namespaces"),
        ('namespaces="*,!open-token"', "namespaces"),
        ('namespaces="open-[t]oken"', "namespaces"),
        ('valid-before="20261116120000Z"', "valid-before"),
        ('valid-before="20261116120001Z"', ""),
        ('valid-after="20261116120001Z"', "valid-after"),
        ('valid-after="202611161200Z"', ""),
        ('valid-before="20200101"', "valid-before"),
        ("cert-authority", "certificates"),
    ],
)
def test_who_may_sign_now(options: str, reason: str) -> None:
    refusal = only(f"mia {options} {TEXT}").refusal(NOW)
    assert reason in refusal
    assert bool(reason) == bool(refusal)


WORDS = st.sampled_from(
    [
        "mia",
        "ssh-ed25519",
        TEXT,
        "namespaces=",
        '"',
        ",",
        " ",
        "\t",
        "\n",
        'valid-before="2026"',
        "#",
        "!",
    ]
)


@given(
    st.binary(max_size=200)
    | st.lists(WORDS | st.text(max_size=3), max_size=12).map(lambda words: "".join(words).encode())
)
def test_any_file_is_read_or_refused(raw: bytes) -> None:
    try:
        signers = read_signers(raw, "list")
    except InputError:
        return
    for signer in signers:
        assert only(signer.line).key == signer.key


def test_times_without_a_zone_are_those_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "XYZ-03")
    time.tzset()
    signer = only(f'mia valid-before="202611161500" {TEXT}')
    assert signer.refusal(NOW)
    assert not signer.refusal(NOW.replace(hour=11, minute=59))
