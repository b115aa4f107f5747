"""Verifying finds what was changed and where, and says when it cannot tell."""

import copy
import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import open_token
from helpers.minimal_example import DOCUMENT_HASH, EVENTS_HASH, MINIMAL
from open_token.integrity.verify import (
    MISMATCHED,
    UNVERIFIABLE,
    VERIFIED,
    Verdict,
    verify,
    verify_bytes,
)

Document = dict[str, Any]


def example() -> Document:
    """The minimal example of the spec, with the hash that the design fixes for it."""
    document: Document = json.loads(MINIMAL)
    integrity = {
        "hash_alg": "sha256",
        "canonicalization": "json-c14n-like",
        "events_hash": EVENTS_HASH,
    }
    return {**document, "integrity": integrity}


def root(leaves: list[bytes]) -> bytes:
    """The tree by its definition in RFC 9162, split at the largest power of two below the size."""
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\1" + root(leaves[:split]) + root(leaves[split:])).digest()


def sealed() -> Document:
    document = example()
    document["integrity"] |= {
        "profile": "ot-int/1",
        "c14n": "rfc8785",
        "event_count": 5,
        "document_hash": DOCUMENT_HASH,
        "tree": {
            "alg": "rfc9162-sha256",
            "size": 5,
            "root": root([rfc8785.dumps(e) for e in document["events"]]).hex(),
        },
    }
    return document


def stream(document: Document) -> bytes:
    head = {name: value for name, value in document.items() if name not in ("events", "integrity")}
    lines = [{"type": "header", **head}]
    lines += [
        {**event, "type": "event", "event_type": event["type"]} for event in document["events"]
    ]
    if "integrity" in document:
        lines.append({"type": "footer", "integrity": document["integrity"]})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def as_json(document: Document) -> bytes:
    return json.dumps(document, indent=2).encode()


def broken(verdict: Verdict) -> set[str]:
    return {part.name for part in verdict.parts if part.state == "mismatch"}


def test_the_golden_hash_holds() -> None:
    verdict = verify(example())
    assert verdict.status == VERIFIED
    assert verdict.events == 5
    assert verdict.warnings == ("there is no document_hash: only the events are covered",)


@pytest.mark.parametrize("form", [as_json, stream])
def test_every_part_is_verified(form: Callable[[Document], bytes]) -> None:
    verdict = verify_bytes(form(sealed()))
    assert verdict.status == VERIFIED
    assert [part.name for part in verdict.parts] == [
        "events_hash",
        "event_count",
        "document_hash",
        "tree.root",
        "tree.size",
    ]
    assert verdict.warnings == verdict.reasons == ()


@pytest.mark.parametrize("form", [as_json, stream])
@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (
            lambda d: d["events"][1]["content"].update(text="What is 6 factorial?"),
            {"events_hash", "tree.root"},
        ),
        (lambda d: d["events"].pop(), {"events_hash", "tree.root", "tree.size", "event_count"}),
        (lambda d: d["events"].reverse(), {"events_hash", "tree.root"}),
        (lambda d: d["participants"][1].update(name="someone"), {"document_hash"}),
        (lambda d: d["conversation"].pop("redaction"), {"document_hash"}),
        (lambda d: d.update(exported_at="2026-02-01T00:00:00Z"), {"document_hash"}),
        (lambda d: d.update(extra=1), {"document_hash"}),
        (lambda d: d["integrity"].update(event_count=6), {"event_count"}),
        (lambda d: d["integrity"]["tree"].update(root="0" * 64), {"tree.root"}),
    ],
)
def test_a_change_shows_where_it_was_made(
    change: Callable[[Document], Any], parts: set[str], form: Callable[[Document], bytes]
) -> None:
    document = sealed()
    change(document)
    verdict = verify_bytes(form(document))
    assert verdict.status == MISMATCHED
    assert broken(verdict) == parts
    assert len(verdict.reasons) == len(parts)


def digest(*parts: str | bytes) -> str:
    return hashlib.sha256(
        b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    ).hexdigest()


def accented() -> Document:
    document = example()
    document["events"][0]["content"]["text"] = "Grüße"
    return document


@pytest.mark.parametrize(
    "make",
    [
        lambda events: digest(json.dumps(events, sort_keys=True, separators=(",", ":"))),
        lambda events: digest(json.dumps(events)),
        lambda events: digest(b"\n".join(rfc8785.dumps(event) for event in events)),
        lambda events: digest(rfc8785.dumps(events)).upper(),
    ],
)
def test_a_hash_over_another_form_does_not_match(make: Callable[[list[Any]], str]) -> None:
    document = accented()
    document["integrity"]["events_hash"] = make(document["events"])
    assert verify(document).status == MISMATCHED


@pytest.mark.parametrize("value", [None, 1, [], {}, {"events": 1}])
def test_what_is_no_export_is_unverifiable(value: Any) -> None:
    assert verify(value).status == UNVERIFIABLE


@pytest.mark.parametrize("form", [as_json, stream])
def test_nothing_to_compare_with_is_unverifiable(form: Callable[[Document], bytes]) -> None:
    document = sealed()
    del document["integrity"]
    verdict = verify_bytes(form(document))
    assert verdict.status == UNVERIFIABLE
    assert verdict.reasons


@pytest.mark.parametrize(
    "change",
    [
        {"hash_alg": "sha512"},
        {"events_hash": None},
        {"canonicalization": "mine", "events_hash": "0" * 64},
    ],
)
def test_unknown_ways_are_unverifiable(change: Document) -> None:
    document = sealed()
    document["integrity"] |= change
    assert verify(document).status == UNVERIFIABLE


def test_a_known_hash_under_another_name_is_verified() -> None:
    document = sealed()
    document["integrity"]["canonicalization"] = "jcs"
    assert verify(document).status == VERIFIED


@pytest.mark.parametrize(
    "harm",
    [
        lambda raw: raw[:-30],
        lambda raw: raw.replace(b'"seq": 2,', b'"seq": 1, "seq": 2,'),
        lambda raw: raw.replace(b"factorial?", b"factorial?\\ud800"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: raw.replace(b'"n": 5', b'"n": NaN'),
        lambda raw: raw.replace(b"tutor", b"tut\xffor"),
    ],
)
@pytest.mark.parametrize("form", [as_json, stream])
def test_bytes_that_readers_take_differently_are_unverifiable(
    harm: Callable[[bytes], bytes], form: Callable[[Document], bytes]
) -> None:
    raw = form(sealed())
    assert harm(raw) != raw
    verdict = verify_bytes(harm(raw))
    assert verdict.status == UNVERIFIABLE
    assert verdict.reasons


@pytest.mark.parametrize(
    "line", [b'{"type":"ping"}', b"[1]", b'{"type":"header"}', b'{"type":"event","event":{},"x":1}']
)
def test_lines_that_no_hash_covers_are_unverifiable(line: bytes) -> None:
    lines = stream(sealed()).splitlines()
    assert verify_bytes(b"\n".join([*lines[:3], line, *lines[3:]])).status == UNVERIFIABLE
    assert verify_bytes(b"\n".join([*lines, line])).status == UNVERIFIABLE


def test_long_integers_are_taken_as_floats_with_a_warning() -> None:
    document = sealed()
    document["events"][2]["content"]["data"]["arguments"]["n"] = 2**60
    taken = copy.deepcopy(document["events"])
    taken[2]["content"]["data"]["arguments"]["n"] = float(2**60)
    document["integrity"] = {**example()["integrity"], "events_hash": digest(rfc8785.dumps(taken))}
    verdict = verify_bytes(as_json(document))
    assert verdict.status == VERIFIED
    assert any("last digits" in warning for warning in verdict.warnings)


def test_a_head_that_cannot_be_hashed_does_not_pass() -> None:
    document = sealed()
    document["conversation"]["number"] = 10**400
    assert verify(document).status == UNVERIFIABLE


def test_events_in_the_header_of_a_stream_do_not_pass() -> None:
    lines = stream(sealed())
    assert verify_bytes(lines).status == VERIFIED
    verdict = verify_bytes(
        lines.replace(b'{"type": "header"', b'{"events": [], "type": "header"', 1)
    )
    assert verdict.status == UNVERIFIABLE


@pytest.mark.parametrize("name", ["integrity", "exported_at", "open_token_version", "more"])
def test_a_header_and_a_footer_that_differ_do_not_pass(name: str) -> None:
    header, *events, footer = [json.loads(line) for line in stream(sealed()).splitlines()]
    footer = {name: header.get(name), **footer}
    header[name] = {"coercions": []}
    verdict = verify_bytes(
        b"\n".join(json.dumps(record).encode() for record in (header, *events, footer))
    )
    assert (verdict.status, verdict.reasons) == (
        UNVERIFIABLE,
        (f"header and footer differ in {name}",),
    )


def test_participants_are_reported_in_a_header_and_once_more_in_a_footer() -> None:
    header, *events, footer = [json.loads(line) for line in stream(sealed()).splitlines()]
    footer["participants"] = [dict(reversed(person.items())) for person in header["participants"]]
    verdict = verify_bytes(
        b"\n".join(json.dumps(record).encode() for record in (header, *events, footer))
    )
    assert verdict.status == VERIFIED


def test_what_is_not_checked_is_said() -> None:
    document = sealed()
    document["integrity"] |= {"source": {}, "signatures": [{"scheme": "of somebody else"}]}
    verdict = verify(document)
    assert verdict.warnings == ("source was not checked",)
    assert [judged.state for judged in verdict.signatures] == ["unchecked"]


def test_the_package_offers_the_function() -> None:
    assert open_token.verify(sealed()).status == VERIFIED
    assert open_token.verify(sealed()).status == VERIFIED


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6)
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
)


@given(JSON, st.sampled_from(["events", "integrity", "conversation", "participants"]))
def test_any_document_gets_a_verdict(value: Any, name: str) -> None:
    document = sealed()
    document[name] = value
    assert verify(document).status != VERIFIED or value == sealed()[name]
    assert verify_bytes(json.dumps(document).encode()).status != VERIFIED


@given(st.data())
def test_any_single_change_is_found(data: st.DataObject) -> None:
    raw = json.dumps(sealed(), separators=(",", ":")).encode()
    end = raw.index(b'"integrity"')
    place = data.draw(st.integers(0, end - 1))
    changed = raw[:place] + bytes([data.draw(st.integers(32, 126))]) + raw[place + 1 :]
    if json.loads(raw) != _value(changed):
        assert verify_bytes(changed).status != VERIFIED


def _value(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


def reshape(line: bytes, shape: str) -> bytes:
    """A line of an event in another shape."""
    event = json.loads(line)
    if "event" in event:
        event = event["event"]
    elif "event_type" in event:
        del event["type"]
        event["type"] = event.pop("event_type")
    if shape == "nested":
        event = {"type": "event", "event": event}
    elif shape == "flat":
        event = {"type": "event", "event_type": event.pop("type"), **event}
    return json.dumps(event).encode()


@pytest.mark.parametrize("shape", ["nested", "bare"])
@pytest.mark.parametrize("has_profile", [True, False])
def test_a_line_that_was_wrapped_or_unwrapped_is_seen(shape: str, has_profile: bool) -> None:
    document = sealed()
    document["integrity"].pop("profile", None)
    if has_profile:
        document["integrity"]["profile"] = "ot-int/1"
    header, *events, footer = stream(document).splitlines()
    events = [reshape(line, "flat") for line in events]
    assert verify_bytes(b"\n".join((header, *events, footer))).status == VERIFIED
    one = [reshape(events[0], shape), *events[1:]]
    assert verify_bytes(b"\n".join((header, *one, footer))).status == UNVERIFIABLE
    # Another program may write another shape, and then all lines have it.
    every = [reshape(line, shape) for line in events]
    status = UNVERIFIABLE if has_profile else VERIFIED
    assert verify_bytes(b"\n".join((header, *every, footer))).status == status


def test_a_document_hash_that_was_removed_is_missed() -> None:
    document = sealed()
    document["integrity"]["profile"] = "ot-int/1"
    assert verify(document).status == VERIFIED
    del document["integrity"]["document_hash"]
    verdict = verify(document)
    assert verdict.status == MISMATCHED
    assert "document_hash was removed" in verdict.reasons[0]
