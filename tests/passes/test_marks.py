"""Marks: their form, their keys, and that nobody can guess a value from one."""

import hashlib
import hmac
import re

import pytest

from linear import grows_no_faster
from open_token.passes._marker import Numbers, canonical, dropped, keyed
from open_token.passes._marks import MARK, near_marks, without_marks

KEY = bytes(range(32))
VALUE = "hunter2" + "x9Q"


def test_a_mark_has_the_form_of_the_spec() -> None:
    mark = keyed(KEY, "conv_1").mark("password", VALUE)
    assert re.fullmatch(r"\[REDACTED:password:[0-9a-f]{8}\]", mark)
    assert MARK.fullmatch(mark)
    assert VALUE not in mark


def test_the_derivation_is_hkdf_sha256_then_hmac() -> None:
    extracted = hmac.new(bytes(32), KEY, hashlib.sha256).digest()
    derived = hmac.new(extracted, b"open-token/redact/v1|conv_1\x01", hashlib.sha256).digest()
    expected = hmac.new(derived, VALUE.encode(), hashlib.sha256).hexdigest()[:8]
    assert keyed(KEY, "conv_1").mark("password", VALUE) == f"[REDACTED:password:{expected}]"


def test_the_same_value_has_the_same_hash_whatever_its_type() -> None:
    marker = keyed(KEY, "conv_1")
    assert marker.mark("password", VALUE)[-10:] == marker.mark("secret", VALUE)[-10:]
    assert marker.mark("password", VALUE) != marker.mark("password", VALUE + "!")


def test_another_conversation_or_key_tells_nothing() -> None:
    here = keyed(KEY, "conv_1").mark("secret", VALUE)
    assert here != keyed(KEY, "conv_2").mark("secret", VALUE)
    assert here != keyed(bytes(32), "conv_1").mark("secret", VALUE)


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
    assert canonical(type, one) == canonical(type, other)


def test_secrets_are_taken_exactly() -> None:
    assert canonical("password", "Abc 123") == "Abc 123"


def test_dropped_marks_say_nothing() -> None:
    assert dropped().mark("email", "a@b.test") == "[REDACTED:email:00000000]"


def test_numbers_count_values_in_order_of_first_use() -> None:
    marker = Numbers().marker()
    marks = [marker.mark("secret", value) for value in ("one", "two", "one")]
    assert [mark[-9:-1] for mark in marks] == ["00000001", "00000002", "00000001"]


def test_numbers_in_the_text_are_not_used_again() -> None:
    numbers = Numbers()
    numbers.pass_over(
        "see [REDACTED:email:00000007] and [REDACTED:secret:deadbeef] and [REDACTED:x:98765432]"
    )
    assert numbers.marker().mark("secret", "one") == "[REDACTED:secret:00000008]"


def test_without_marks_keeps_the_length() -> None:
    text = b"a [REDACTED:email:0123abcd] b"
    blank = without_marks(text)
    assert len(blank) == len(text)
    assert b"email" not in blank
    assert blank.startswith(b"a \0")
    assert without_marks(b"a [REDACTED b") == b"a [REDACTED b"


def test_what_is_near_a_mark_are_the_lines_around_it() -> None:
    mark = "[REDACTED:email:0123abcd]"
    lines = [f"line {number}" for number in range(40)]
    lines[5] = f"a {mark} b {mark}"
    lines[8], lines[30] = mark, f"{mark} at the end"
    text = "\n".join(lines).encode()
    near = [text[start:end].decode().split("\n") for start, end in near_marks(text, 0, 3)]
    assert near == [lines[3:11], lines[28:33]]
    assert list(near_marks(b"no mark\n" * 9, 0, 3)) == []
    assert list(near_marks(mark.encode() * 9, 0, 3)) == [(0, 9 * len(mark))]


def test_marks_in_one_long_line_take_no_longer() -> None:
    mark = b"[REDACTED:email:0123abcd] "
    assert grows_no_faster(lambda size: list(near_marks(mark * size, 0, 3)), 20_000)
    assert grows_no_faster(lambda size: list(near_marks((mark + b"\n") * size, 0, 3)), 20_000)
