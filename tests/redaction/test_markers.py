"""Redaction markers: one grammar for every module, and hashes that do not reveal values."""

import hashlib
import hmac
import re
from pathlib import Path

import pytest

import open_token
from helpers.growth import grows_linearly
from open_token.native.fidelity import ExportObserver
from open_token.passes.truncate_cuts import _GAP, _HEAD, cut_text
from open_token.redaction.marker_factory import (
    MarkerNumbering,
    build_drop_factory,
    build_keyed_factory,
    canonicalize_value,
)
from open_token.redaction.markers import (
    MARKER,
    MARKER_PATTERN,
    blank_markers,
    count_markers,
    format_marker,
    has_malformed_marker,
    split_at_markers,
    strip_marker_hashes,
)
from open_token.redaction.masker import find_lines_near_markers
from open_token.replay.equivalence import Equivalence
from open_token.validation.events import check_markers
from open_token.writers.escape import escape_html

KEY = bytes(range(32))
VALUE = "hunter2" + "x9Q"

ACME = "[REDACTED:Acme.Key:0a1b2c3d]"
MARKERS = [
    ACME,
    "[REDACTED:email:00000000]",
    "[REDACTED:api-key:deadbeef]",
    "[REDACTED:A_b.9-:01234567]",
    f"[REDACTED:{'x' * 5000}:01234567]",
]
NOT_MARKERS = [
    "[REDACTED]",
    "[REDACTED:email]",
    "[REDACTED::0a1b2c3d]",
    "[REDACTED:email:0a1b2c3]",
    "[REDACTED:email:0a1b2c3d4]",
    "[REDACTED:email:0A1B2C3D]",
    "[REDACTED:email:0a1b2c3d",
    "[REDACTED:two words:0a1b2c3d]",
    "[REDACTED:a:b:0a1b2c3d]",
    "[REDACTED:é:0a1b2c3d]",
    "[REDACTED:[email]:0a1b2c3d]",
    "[redacted:email:0a1b2c3d]",
    "[REDACTED:email\n:0a1b2c3d]",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_every_function_accepts_a_marker(marker: str) -> None:
    text = f"a {marker} b"
    raw = text.encode()
    assert MARKER.search(text)[0] == marker
    assert re.findall(MARKER_PATTERN, text) == [marker]
    assert not has_malformed_marker(text)
    assert split_at_markers(text) == ["a ", " b"]
    assert count_markers(raw) == 1
    assert strip_marker_hashes(raw) == raw.replace(raw[-12:-3], b"")
    assert blank_markers(raw) == b"a " + bytes(len(marker)) + b" b"


@pytest.mark.parametrize("other", NOT_MARKERS)
def test_every_function_rejects_what_is_no_marker(other: str) -> None:
    text = f"a {other} b"
    raw = text.encode()
    assert MARKER.search(text) is None
    assert has_malformed_marker(text) is ("[REDACTED:" in text)
    assert split_at_markers(text) == [text]
    assert count_markers(raw) == 0
    assert strip_marker_hashes(raw) == raw
    assert blank_markers(raw) == raw


def test_a_marker_within_brackets_is_found() -> None:
    nested = f"[REDACTED:[REDACTED:{ACME}:0a1b2c3d]]"
    assert [match[0] for match in MARKER.finditer(nested)] == [ACME]
    assert has_malformed_marker(nested)
    assert split_at_markers(f"[[{ACME}]]{ACME}") == ["[[", "]]", ""]


def test_a_marker_names_its_type_and_hash() -> None:
    match = MARKER.fullmatch(format_marker("Acme.Key", "0a1b2c3d"))
    assert match is not None
    assert (match[0], match["type"], match["hash"]) == (ACME, "Acme.Key", "0a1b2c3d")


@pytest.mark.parametrize(
    "hostile", ["[REDACTED:", "[REDACTED:a", "[REDACTED:a:", "[REDACTED:a:0a1b2c3", "a:0a1b2c3d]"]
)
def test_hostile_texts_take_linear_time(hostile: str) -> None:
    assert grows_linearly(lambda size: MARKER.search(hostile * size), 20_000)
    assert grows_linearly(lambda size: split_at_markers(hostile * size), 20_000)
    assert grows_linearly(lambda size: count_markers((hostile * size).encode()), 20_000)
    assert grows_linearly(lambda size: has_malformed_marker(ACME * size), 2_000)


def test_validation_accepts_it() -> None:
    problems: list[str] = []
    event = {"content": {"mime": "text/plain", "text": f"key {ACME}"}}
    check_markers(event, "events[0]", lambda code, *rest: problems.append(code))
    assert problems == []
    event["content"]["text"] = "key [REDACTED:Acme.Key]"
    check_markers(event, "events[0]", lambda code, *rest: problems.append(code))
    assert problems == ["OT802"]


def test_replay_takes_it_for_any_text() -> None:
    sameness = Equivalence()
    assert sameness.matches_prompt(f"login with {ACME} now", "login with hunter2 now")
    assert not sameness.matches_prompt("login with [REDACTED:x] now", "login with hunter2 now")


def test_truncation_does_not_cut_it() -> None:
    text = "a" * (_HEAD - 9) + ACME + "b" * 5000
    assert f"{ACME}{_GAP}" in cut_text(text)


def test_fidelity_takes_it_for_any_text() -> None:
    witness = ExportObserver()
    witness.learn(f"the key of the production server is {ACME}, keep it")
    assert witness.knows("the key of the production server is hunter2, keep it")


def test_the_page_highlights_it() -> None:
    assert escape_html(f"key {ACME}") == f'key <mark title="redacted: Acme.Key">{ACME}</mark>'
    assert escape_html("key [REDACTED:Acme.Key:0A]") == "key [REDACTED:Acme.Key:0A]"


def test_no_other_module_has_a_grammar() -> None:
    """A regular expression for markers escapes their bracket."""
    package = Path(open_token.__file__).parent
    scripts = [*package.rglob("*.py"), *package.rglob("*.js"), *package.rglob("*.html")]
    owners = [path.name for path in scripts if r"\[REDACTED" in path.read_text("utf-8")]
    assert owners == ["markers.py"]


def test_a_mark_has_the_form_of_the_spec() -> None:
    mark = build_keyed_factory(KEY, "conv_1").build_marker("password", VALUE)
    assert re.fullmatch(r"\[REDACTED:password:[0-9a-f]{8}\]", mark)
    assert MARKER.fullmatch(mark)
    assert VALUE not in mark


def test_the_derivation_is_hkdf_sha256_then_hmac() -> None:
    extracted = hmac.new(bytes(32), KEY, hashlib.sha256).digest()
    derived = hmac.new(extracted, b"open-token/redact/v1|conv_1\x01", hashlib.sha256).digest()
    expected = hmac.new(derived, VALUE.encode(), hashlib.sha256).hexdigest()[:8]
    assert (
        build_keyed_factory(KEY, "conv_1").build_marker("password", VALUE)
        == f"[REDACTED:password:{expected}]"
    )


def test_the_same_value_has_the_same_hash_with_any_type() -> None:
    marker = build_keyed_factory(KEY, "conv_1")
    assert (
        marker.build_marker("password", VALUE)[-10:] == marker.build_marker("secret", VALUE)[-10:]
    )
    assert marker.build_marker("password", VALUE) != marker.build_marker("password", VALUE + "!")


def test_hashes_of_another_conversation_or_key_are_not_comparable() -> None:
    here = build_keyed_factory(KEY, "conv_1").build_marker("secret", VALUE)
    assert here != build_keyed_factory(KEY, "conv_2").build_marker("secret", VALUE)
    assert here != build_keyed_factory(bytes(32), "conv_1").build_marker("secret", VALUE)


@pytest.mark.parametrize(
    ("type", "one", "other"),
    [
        ("email", "Jo.Doe@Mail.Test", "jo.doe@mail.test"),
        ("card", "4111 1111 1111 1111", "4111-1111-1111-1111"),
        ("iban", "GB82 WEST 1234 5698 7654 32", "gb82west12345698765432"),
        ("ssn", "536-22-8726", "536 22 8726"),
        ("phone", "+49 30 901820", "+4930901820"),
        ("phone", "(415) 555-2671", "+1 415 555 2671"),
    ],
)
def test_equal_things_have_equal_marks(type: str, one: str, other: str) -> None:
    assert canonicalize_value(type, one) == canonicalize_value(type, other)


def test_secrets_are_taken_exactly() -> None:
    assert canonicalize_value("password", "Abc 123") == "Abc 123"


def test_dropped_marks_say_nothing() -> None:
    assert build_drop_factory().build_marker("email", "a@b.test") == "[REDACTED:email:00000000]"


def test_numbers_count_values_in_order_of_first_use() -> None:
    marker = MarkerNumbering().build_factory()
    marks = [marker.build_marker("secret", value) for value in ("one", "two", "one")]
    assert [mark[-9:-1] for mark in marks] == ["00000001", "00000002", "00000001"]


def test_numbers_in_the_text_are_not_used_again() -> None:
    numbers = MarkerNumbering()
    numbers.reserve_numbers(
        "see [REDACTED:email:00000007] and [REDACTED:secret:deadbeef] and [REDACTED:x:98765432]"
    )
    assert numbers.build_factory().build_marker("secret", "one") == "[REDACTED:secret:00000008]"


def test_without_marks_keeps_the_length() -> None:
    text = b"a [REDACTED:email:0123abcd] b"
    blank = blank_markers(text)
    assert len(blank) == len(text)
    assert b"email" not in blank
    assert blank.startswith(b"a \0")
    assert blank_markers(b"a [REDACTED b") == b"a [REDACTED b"


def test_what_is_near_a_mark_are_the_lines_around_it() -> None:
    mark = "[REDACTED:email:0123abcd]"
    lines = [f"line {number}" for number in range(40)]
    lines[5] = f"a {mark} b {mark}"
    lines[8], lines[30] = mark, f"{mark} at the end"
    text = "\n".join(lines).encode()
    near = [
        text[start:end].decode().split("\n") for start, end in find_lines_near_markers(text, 0, 3)
    ]
    assert near == [lines[3:11], lines[28:33]]
    assert list(find_lines_near_markers(b"no mark\n" * 9, 0, 3)) == []
    assert list(find_lines_near_markers(mark.encode() * 9, 0, 3)) == [(0, 9 * len(mark))]


def test_marks_in_one_long_line_take_no_longer() -> None:
    mark = b"[REDACTED:email:0123abcd] "
    assert grows_linearly(lambda size: list(find_lines_near_markers(mark * size, 0, 3)), 20_000)
    assert grows_linearly(
        lambda size: list(find_lines_near_markers((mark + b"\n") * size, 0, 3)), 20_000
    )
