"""Exports that are there already, signed: what passes, what does not, and what is left as it
was."""

import copy
import io
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

import open_token
from helpers.signers import (
    CHAT,
    Document,
    as_lines,
    create_key,
    public,
    recompute_hashes,
    with_signature,
)
from open_token.api import load_trust
from open_token.errors import OpenTokenError, SigningError, UsageError
from open_token.integrity.signatures.results import INVALID, TRUSTED, UNKNOWN
from open_token.integrity.signatures.trust import Trust
from open_token.integrity.signing import load_signer, sign_document, sign_file
from open_token.integrity.verify import verify, verify_bytes
from open_token.sources.source import Source


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_key(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def trust(key: Path) -> Trust | None:
    return load_trust(public(key), {})


def build_document(**options: Any) -> Document:
    return dict(open_token.export(CHAT, redact="none", **options))


def signed_bytes(raw: bytes, key: Path) -> bytes:
    out = io.BytesIO()
    sign_file(Source("session", data=raw), out, load_signer(key))
    return out.getvalue()


def states(document: Document, trust: Trust | None) -> list[str]:
    return [judged.state for judged in verify(document, trust).signatures]


@pytest.mark.parametrize("integrity", ["hash", "tree", "source"])
def test_nothing_but_the_signature_is_new(key: Path, trust: Trust, integrity: str) -> None:
    document = build_document(integrity=integrity)
    made = with_signature(document, key)
    assert states(made, trust) == [TRUSTED]
    assert verify(made).status == "verified"
    assert open_token.validate(made) == open_token.validate(document)
    made["integrity"] = {
        name: value for name, value in made["integrity"].items() if name != "signatures"
    }
    assert made == document


@pytest.mark.parametrize("options", [{}, {"pretty": False}, {"mode": "ndjson"}])
def test_the_bytes_stay_as_they_are(key: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    open_token.export_file(CHAT, tmp_path / "session", redact="none", **options)
    raw = (tmp_path / "session").read_bytes()
    made = signed_bytes(raw, key)
    entry = orjson.loads(made.splitlines()[-1] if "mode" in options else made)["integrity"][
        "signatures"
    ]
    indented = b"".join(
        orjson.dumps({"signatures": entry}, option=orjson.OPT_INDENT_2).splitlines(True)[1:-1]
    )
    text = b',"signatures":' + orjson.dumps(entry)
    if not options:
        text = b",\n" + b"".join(b"  " + line for line in indented.splitlines(True)).rstrip(b"\n")
        text = text.replace(b'\n    "signatures"', b'\n    "signatures"')
    assert made.replace(text, b"") == raw
    assert signed_bytes(made, key) == made


def test_both_forms_have_the_same_signature(key: Path, trust: Trust) -> None:
    document = build_document()
    lines = signed_bytes(as_lines(document), key)
    made = sign_document(document, load_signer(key))
    assert orjson.loads(lines.splitlines()[-1])["integrity"] == made["integrity"]
    assert [judged.state for judged in verify_bytes(lines, trust).signatures] == [TRUSTED]


def test_signatures_stand_side_by_side(key: Path, trust: Trust, tmp_path: Path) -> None:
    once = with_signature(build_document(), key)
    assert with_signature(once, key) == once
    both = with_signature(once, create_key(tmp_path, "ben", "ecdsa"))
    assert states(both, trust) == [TRUSTED, UNKNOWN]
    pytest.importorskip("cryptography")
    assert states(with_signature(both, key, "dsse-ed25519"), trust) == [TRUSTED, UNKNOWN, TRUSTED]


def test_no_signature_is_put_where_nobody_looks(key: Path, tmp_path: Path) -> None:
    document = with_signature(build_document(), key)
    mine = document["integrity"]["signatures"][0]
    other = {"scheme": "other", "keyid": "x", "sig": "y"}
    document["integrity"]["signatures"] = [*[other] * 16, {**mine, "sig": "another"}]
    with pytest.raises(SigningError, match="no more than 16"):
        sign_document(document, load_signer(key))
    document["integrity"]["signatures"] = [*[other] * 15, mine]
    assert sign_document(document, load_signer(key)) == document


@pytest.mark.parametrize("mode", ["json", "ndjson"])
def test_a_false_signature_does_not_stand_for_ones_own(
    key: Path, trust: Trust, tmp_path: Path, mode: str
) -> None:
    """Exported again and signed, an export whose signature was forged is signed in truth."""
    forged = with_signature(build_document(), key)
    strange = with_signature(build_document(exported_at="2001-01-01T00:00:00Z"), key)
    forged["integrity"]["signatures"] = strange["integrity"]["signatures"]
    (tmp_path / "forged.json").write_bytes(orjson.dumps(forged))
    target = tmp_path / "again"
    result = open_token.export_file(
        tmp_path / "forged.json", target, mode=mode, sign_key=key, redact="none"
    )
    assert ("signatures-dropped", 1) in [(note.code, note.count) for note in result.notes]
    assert [judged.state for judged in verify_bytes(target.read_bytes(), trust).signatures] == [
        TRUSTED
    ]


def test_a_header_beside_a_signed_footer_proves_nothing(key: Path, trust: Trust) -> None:
    document = with_signature(build_document(), key)
    header, *lines, footer = as_lines(document).splitlines()
    said = orjson.loads(header)
    footer = orjson.dumps(orjson.loads(footer) | {"conversation": said["conversation"]})
    assert not verify_bytes(b"\n".join((header, *lines, footer)), trust).warnings
    said["conversation"]["source_runtime"] = "other"
    verdict = verify_bytes(b"\n".join((orjson.dumps(said), *lines, footer)), trust)
    assert verdict.warnings == (
        "the header differs from the footer and is not covered: source_runtime",
    )


def test_a_document_of_another_program(key: Path, trust: Trust) -> None:
    """The three keys that the spec asks for are enough."""
    document = build_document()
    names = ("hash_alg", "canonicalization", "events_hash")
    document["integrity"] = {name: document["integrity"][name] for name in names}
    assert states(with_signature(document, key), trust) == [TRUSTED]


def leaves(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values that are no containers."""
    if isinstance(value, dict):
        return [leaf for name, item in value.items() for leaf in leaves(item, (*place, name))]
    if isinstance(value, list):
        return [
            leaf for number, item in enumerate(value) for leaf in leaves(item, (*place, number))
        ]
    return [place]


def changed(document: Document, place: tuple[Any, ...], chance: random.Random) -> Document:
    """The document with one value another one, one key gone, or one letter more or less."""
    made = copy.deepcopy(document)
    owner: Any = made
    for name in place[:-1]:
        owner = owner[name]
    value = owner[place[-1]]
    if isinstance(value, str) and value:
        spot = chance.randrange(len(value))
        letter = chance.choice([letter for letter in "aZ09+ " if letter != value[spot]])
        owner[place[-1]] = chance.choice(
            [value[:spot] + letter + value[spot + 1 :], value[:spot], value + letter]
        )
    elif isinstance(owner, dict) and chance.random() < 0.3:
        del owner[place[-1]]
    else:
        owner[place[-1]] = chance.choice([value + 1, "x"]) if isinstance(value, int) else "x"
    return made


@pytest.mark.parametrize(("scheme", "rounds"), [("sshsig", 20), ("dsse-ed25519", 100)])
def test_no_change_passes(key: Path, trust: Trust, scheme: str, rounds: int) -> None:
    """Also not when the hashes are made anew, which everybody can do."""
    if scheme != "sshsig":
        pytest.importorskip("cryptography")
    chance = random.Random(scheme)
    document = with_signature(build_document(integrity="source"), key, scheme)
    assert states(document, trust) == [TRUSTED]
    places = leaves(document)
    for _ in range(rounds):
        place = chance.choice(places)
        made = changed(document, place, chance)
        if place[0] != "integrity":
            made = recompute_hashes(made)
        assert TRUSTED not in states(made, trust), place


def test_an_export_without_its_last_events(key: Path, trust: Trust) -> None:
    document = with_signature(build_document(integrity="tree"), key)
    document["events"] = document["events"][:-1]
    document = recompute_hashes(document)
    assert verify(document).status == "verified"
    assert states(document, trust) == [INVALID]


def test_another_conversation_id(key: Path, trust: Trust) -> None:
    document = with_signature(build_document(), key)
    document["conversation"] = {**document["conversation"], "id": "conv_another"}
    document = recompute_hashes(document)
    assert verify(document).status == "verified"
    assert states(document, trust) == [INVALID]


def test_a_signature_moved_to_another_export(key: Path, trust: Trust) -> None:
    entries = with_signature(build_document(), key)["integrity"]["signatures"]
    other = dict(open_token.export(CHAT.replace(b"hello", b"hullo"), redact="none"))
    other["integrity"] = {**other["integrity"], "signatures": entries}
    assert verify(other).status == "verified"
    assert states(other, trust) == [INVALID]


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["events"][0]["content"].update(text="another"),
        lambda made: made.pop("integrity"),
        lambda made: made["integrity"].update(hash_alg="md5"),
        lambda made: made["events"][0]["content"].update(data=2**60),
        lambda made: made["integrity"].update(
            signatures=[{"scheme": "sshsig", "keyid": "", "sig": ""}]
        ),
        lambda made: made["integrity"].update(signatures={}),
        lambda made: made.pop("events"),
    ],
)
def test_what_nobody_should_sign(key: Path, change: Any) -> None:
    document = copy.deepcopy(build_document())
    change(document)
    for raw in (orjson.dumps(document), as_lines({"events": [], "integrity": {}} | document)):
        with pytest.raises(SigningError) as caught:
            signed_bytes(raw, key)
        assert caught.value.code == "sign.unverified"
    with pytest.raises(SigningError):
        sign_document(document, load_signer(key))


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[]", b"7", b"\xff", b'{"type":"header"}\n{"type":"event"}\n', b"\n\n", b"{}\n{}\n"],
)
def test_what_is_no_export(key: Path, raw: bytes) -> None:
    with pytest.raises(OpenTokenError):
        signed_bytes(raw, key)


def test_a_key_or_a_scheme_that_there_is_not(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(SigningError, match="no such key"):
            load_signer(path)
    with pytest.raises(UsageError):
        load_signer(tmp_path, "rot13")
