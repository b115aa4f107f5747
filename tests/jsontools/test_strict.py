"""Strict parsing: every fault with its place, every non-JSON input refused with a line and a
column, never a crash."""

import contextlib
import json
import math
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.growth import grows_linearly
from open_token.jsontools import strict
from open_token.jsontools.strict import MAX_FAULTS, Fault, StrictError, parse_strict

SUITE = Path(__file__).parents[2].parent / "shared" / "corpus" / "jsontestsuite" / "test_parsing"
needs_suite = pytest.mark.skipif(not SUITE.is_dir(), reason="JSONTestSuite is not here")
NOT_A_NUMBER = {"n_number_NaN.json", "n_number_infinity.json", "n_number_minus_infinity.json"}


def _found(raw: bytes) -> list[tuple[str, str]]:
    return [(fault.code, fault.path) for fault in parse_strict(raw)[1]]


FAULTLESS: list[tuple[bytes, object]] = [
    (b"null", None),
    (
        b' {"a": [1, -0, 2.5, true, false, "x\\ny", {}, []]} \r\n\t',
        {"a": [1, 0, 2.5, True, False, "x\ny", {}, []]},
    ),
    (b'"\\u0022\\ud83d\\ude00"', '"\U0001f600'),
    (b'{"\\u0061":"\\"","b":{"a":1}}', {"a": '"', "b": {"a": 1}}),
    (b"[9007199254740991,-9007199254740991]", [2**53 - 1, 1 - 2**53]),
    (
        b"[0.00012345678901234567,1e20,12345678901234567890.5]",
        [0.00012345678901234567, 1e20, 12345678901234567890.5],
    ),
    (b'["1234567890123456789012", 1]', ["1234567890123456789012", 1]),
    (b'["see 1234567890123456789012, then"]', ["see 1234567890123456789012, then"]),
    (b"1e-400", 0.0),
    (b"[" * 128 + b"]" * 128, json.loads("[" * 128 + "]" * 128)),
]


@pytest.mark.parametrize(("raw", "expected"), FAULTLESS)
def test_faultless_documents(raw: bytes, expected: object) -> None:
    assert parse_strict(raw) == (expected, [])


FAULTS: list[tuple[bytes, list[tuple[str, str]]]] = [
    (b'{"a":1,"a":2}', [("duplicate-key", "a")]),
    (b'{"a":1,"\\u0061":1}', [("duplicate-key", "a")]),
    (b'{"a":{"x":"\\u0022"},"a":{"x":"\\u0022"}}', [("duplicate-key", "a")]),
    (b'{"":0,"":1}', [("duplicate-key", "[key]")]),
    (b'{"a":{"b":1,"b":NaN},"a":{"b":[1e999]}}', [
        ("duplicate-key", "a.b"), ("not-a-number", "a.b"), ("duplicate-key", "a"), ("number-range", "a.b[0]"),
    ]),
    (b'{"events":[{},{"content":{"data":{"n":9007199254740992}}}]}', [("big-integer", "events[1].content.data.n")]),
    (b"-9007199254740992", [("big-integer", "")]),
    (b"[1,\n -9223372036854775809 ]", [("big-integer", "[1]")]),
    (b"[18446744073709551616]", [("big-integer", "[0]")]),
    (b"[NaN, Infinity, -Infinity]", [("not-a-number", f"[{i}]") for i in range(3)]),
    (b'{"a":[-1e400]}', [("number-range", "a[0]")]),
    (b"1" * 400, [("number-range", "")]),
    (b"1" * 6000, [("number-range", "")]),
    (b'{"a":"\\ud800"}', [("lone-surrogate", "a")]),
    (b'["ok","\\ude00\\ud83d"]', [("lone-surrogate", "[1]")]),
    (b'{"\\udfff":{"b":NaN}}', [("lone-surrogate", "[key]"), ("not-a-number", "[key].b")]),
    (b'{"a":[{"has space":{"k":NaN}}]}', [("not-a-number", "a[0][key].k")]),
    (b'{"%s":{"%s":NaN}}' % (b"k" * 64, b"k" * 65), [("not-a-number", "k" * 64 + "[key]")]),
    (b'{"a\\n":NaN}', [("not-a-number", "[key]")]),
    (b'{"a-b_C.9":NaN}', [("not-a-number", "a-b_C.9")]),
    (b"\xef\xbb\xbf{}", [("bom", "")]),
    (b'\xef\xbb\xbf{"a":NaN}', [("bom", ""), ("not-a-number", "a")]),
    (b"[" * 129 + b"]" * 129, [("too-deep", "[0]" * 128)]),
    (b'{"a":' * 300 + b"NaN" + b"}" * 300, [("too-deep", ".".join("a" * 128)), ("not-a-number", ".".join("a" * 300))]),
    (b"[" * 1024 + b"]" * 1024, [("too-deep", "[0]" * 128)]),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), FAULTS)
def test_faults_have_their_places(raw: bytes, expected: list[tuple[str, str]]) -> None:
    assert _found(raw) == expected
    assert all(fault.detail for fault in parse_strict(raw)[1])


def test_the_value_is_kept_beside_the_fault() -> None:
    assert parse_strict(b'{"a":1,"b":2,"a":3}')[0] == {"a": 3, "b": 2}
    assert parse_strict(b"[123456789012345678901]")[0] == [123456789012345678901]
    assert parse_strict(b'"\\ud800"')[0] == "\ud800"
    value: Any = parse_strict(b"[NaN,-Infinity,1e400]")[0]
    assert math.isnan(value[0])
    assert value[1:] == [-math.inf, math.inf]


def test_faults_are_bounded_and_do_not_show_content() -> None:
    raw = b'{"hidden words":["hidden \\ud800"%s]}' % (b",NaN" * (MAX_FAULTS + 5))
    faults = parse_strict(raw)[1]
    assert len(faults) == MAX_FAULTS
    assert "hidden" not in repr(faults)
    assert faults[0] == Fault("lone-surrogate", "[key][0]", faults[0].detail)


NOT_JSON = [
    (b"", "no value in the document", 1, 1),
    (b" \n ", "no value in the document", 2, 2),
    (b"\xef\xbb\xbf", "no value in the document", 1, 1),
    (b"[1,\n 2,,3]", "expected a value", 2, 4),
    (b"[1,]", "expected a value", 1, 4),
    (b"[1", "unexpected end of the document", 1, 3),
    (b'{"a":1,}', "expected a key in double quotes", 1, 8),
    (b"{a:1}", "unexpected character", 1, 2),
    (b'{"a" 1}', "expected a colon after a key", 1, 6),
    (b'{"a":1 "b":2}', "expected a comma or a closing bracket", 1, 8),
    (b"[1}", "expected a comma or a closing bracket", 1, 3),
    (b"{} {}", "text after the document", 1, 4),
    (b"01", "text after the document", 1, 2),
    (b"[1.]", "unexpected character", 1, 3),
    (b"[+1]", "unexpected character", 1, 2),
    (b"[tru]", "unexpected character", 1, 2),
    (b"['a']", "unexpected character", 1, 2),
    (b"[\x0b1]", "unexpected character", 1, 2),
    (b'"abc', "string is not closed", 1, 1),
    (b'["a\nb"]', "control character in a string", 1, 4),
    (b'["a\\x"]', "invalid escape in a string", 1, 4),
    (b'["\\u12g4"]', "invalid escape in a string", 1, 4),
    (b'{"\xe4\xbd\xa0":\n"\xe4\xbd\xa0",\xff}', "invalid UTF-8", 2, 5),
    (b'"\xed\xa0\x80"', "invalid UTF-8", 1, 2),
    (b'"\xe4\xbd"', "invalid UTF-8", 1, 2),
    ('{"a":1}'.encode("utf-16"), "invalid UTF-8", 1, 1),
    (b"[" * 1025 + b"]" * 1025, "nested more than 1024 deep", 1, 1025),
    (b"[" * 100_000, "nested more than 1024 deep", 1, 1025),
    (b'[{"":' * 50_000, "nested more than 1024 deep", 1, 512 * 5 + 1),
    (b'[NaN,{"a":' * 50_000, "nested more than 1024 deep", 1, 512 * 10 + 1),
]


@pytest.mark.parametrize(("raw", "reason", "line", "column"), NOT_JSON)
def test_what_is_not_json_is_refused_with_its_place(
    raw: bytes, reason: str, line: int, column: int
) -> None:
    with pytest.raises(StrictError) as caught:
        parse_strict(raw)
    assert (caught.value.reason, caught.value.line, caught.value.column) == (reason, line, column)


@needs_suite
def test_json_test_suite() -> None:
    files = sorted(SUITE.glob("*.json"))
    assert len(files) == 318
    for file in files:
        try:
            codes: list[str] | None = [fault.code for fault in parse_strict(file.read_bytes())[1]]
        except StrictError:
            codes = None
        if file.name.startswith("y_"):
            assert codes == (["duplicate-key"] if "duplicated_key" in file.name else []), file.name
        elif file.name.startswith("n_"):
            assert codes == (["not-a-number"] if file.name in NOT_A_NUMBER else None), file.name


_text = st.text(st.sampled_from('a "\\\n\u00e9\uff0c\U0001f600\ud800'), max_size=4)
_leaves = st.none() | st.booleans() | st.integers() | st.floats() | _text
_values = st.recursive(
    _leaves,
    lambda v: st.lists(v, max_size=4) | st.dictionaries(_text, v, max_size=4),
    max_leaves=12,
)


def _alone(raw: bytes) -> tuple[object, list[Fault]]:
    faults: list[Fault] = []
    return strict._LocatingParser(raw.decode(), faults).parse(), faults


@settings(max_examples=200, deadline=None)
@given(_values, st.sampled_from([None, 1]))
def test_the_quick_way_agrees_with_the_placed_way(value: object, indent: int | None) -> None:
    raw = json.dumps(value, indent=indent).encode()
    assert repr(parse_strict(raw)) == repr(_alone(raw))
    assert repr(parse_strict(raw)[0]) == repr(json.loads(raw))


_words = """[ ] { } , : " \\ \n "a": "a" 1 - 0 .5 e9 1e400 9007199254740992 99999999999999999999 true null NaN -Infinity
    \\ud83d \\ude00 \\u0022 é {"a": ["a",""".split()
_pieces = st.sampled_from([*_words, " ", "\n", "\x00", "\ufeff"])


@settings(max_examples=300, deadline=None)
@given(st.lists(_pieces, max_size=14).map("".join))
def test_broken_text_is_judged_as_two_other_parsers_do(text: str) -> None:
    raw = text.encode()
    try:
        value, faults = parse_strict(raw)
    except StrictError:
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(raw)
        with pytest.raises(json.JSONDecodeError):
            json.loads(text.removeprefix("\ufeff"))
        return
    assert repr(value) == repr(json.loads(text.removeprefix("\ufeff")))
    if not faults:
        assert repr(value) == repr(orjson.loads(raw))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_parsed_or_refused(raw: bytes) -> None:
    try:
        parse_strict(raw)
    except StrictError as error:
        place = (error.line, error.column)
    else:
        place = (1, 1)
    assert min(place) >= 1


def test_time_grows_with_size_only() -> None:
    def work(size: int) -> None:
        for raw in (
            b'["' + b"\\" * size,
            b'["' + b"\\" * (size + 1),
            b'"' + b'\\"' * size,
            b"-" * size,
            b"9" * size,
        ):
            with contextlib.suppress(StrictError):
                parse_strict(raw)

    assert grows_linearly(work, 50_000)
