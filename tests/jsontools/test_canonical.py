"""RFC 8785 bytes: official vectors, own vectors, a second implementation, and the hashes of the
spec's example."""

import datetime
import enum
import hashlib
import json
import math
import struct
import uuid
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.minimal_example import DOCUMENT_HASH, EVENTS_HASH, MINIMAL
from open_token.jsontools.canonical import (
    MAX_INTEGER,
    CanonicalError,
    EventsHash,
    encode_canonical,
    encode_event,
    format_es6_number,
    hash_document,
    hash_events,
)

JCS = Path(__file__).parents[2].parent / "shared" / "corpus" / "jcs"
needs_jcs = pytest.mark.skipif(not JCS.is_dir(), reason="the official JCS vectors are not here")

EMPTY_HASH = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
EXAMPLE: dict[str, Any] = json.loads(MINIMAL)


def test_spec_example_hashes_to_the_golden_values() -> None:
    found = hash_events(EXAMPLE["events"])
    assert found == EVENTS_HASH
    assert hash_document(EXAMPLE, found) == DOCUMENT_HASH
    assert hash_document({**EXAMPLE, "integrity": {"events_hash": found}}, found) == DOCUMENT_HASH
    assert hash_document({**EXAMPLE, "exported_at": "2026-01-31T00:00:01Z"}, found) != DOCUMENT_HASH


def test_events_hash_is_the_hash_of_the_whole_array() -> None:
    running = EventsHash()
    assert (running.count, running.hexdigest()) == (0, EMPTY_HASH)
    for count, event in enumerate(EXAMPLE["events"], 1):
        running.add(encode_event(event))
        whole = rfc8785.dumps(EXAMPLE["events"][:count])
        assert running.hexdigest() == running.hexdigest() == hashlib.sha256(whole).hexdigest()
        assert running.count == count
    assert hash_events([]) == EMPTY_HASH
    assert hash_events(iter(EXAMPLE["events"])) == running.hexdigest()


NUMBERS = [
    (0.0, "0"),
    (-0.0, "0"),
    (1.0, "1"),
    (-1.0, "-1"),
    (1.5, "1.5"),
    (-0.25, "-0.25"),
    (5e-324, "5e-324"),
    (1e-7, "1e-7"),
    (1.25e-7, "1.25e-7"),
    (1e-6, "0.000001"),
    (1.5e-5, "0.000015"),
    (0.0001, "0.0001"),
    (0.00099, "0.00099"),
    (123456.789, "123456.789"),
    (1e15, "1000000000000000"),
    (9007199254740993.0, "9007199254740992"),
    (2.0**60, "1152921504606847000"),
    (1e16, "10000000000000000"),
    (123456789012345680000.0, "123456789012345680000"),
    (999999999999999900000.0, "999999999999999900000"),
    (1e21, "1e+21"),
    (1.5e21, "1.5e+21"),
    (-1.7976931348623157e308, "-1.7976931348623157e+308"),
    (333333333.33333329, "333333333.3333333"),
]


@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_numbers_have_their_ecmascript_form(number: float, text: str) -> None:
    assert format_es6_number(number) == text
    assert encode_canonical(number) == text.encode()
    assert encode_canonical({"a": [number, "x"]}) == b'{"a":[%s,"x"]}' % text.encode()
    event = {"id": "evt_000001", "usage": {"cost": number}, "ts": number}
    assert encode_event(event) == b'{"id":"evt_000001","ts":%s,"usage":{"cost":%s}}' % (
        (text.encode(),) * 2
    )


@needs_jcs
@pytest.mark.parametrize("name", ["es6testfile1000.txt", "es6testfile10000.txt"])
def test_official_number_file(name: str) -> None:
    lines = (JCS / name).read_text().split()
    for line in lines:
        bits, expected = line.split(",")
        (number,) = struct.unpack(">d", int(bits, 16).to_bytes(8))
        assert format_es6_number(number) == encode_canonical([number])[1:-1].decode() == expected, (
            bits
        )
    assert len(lines) >= 1000


@needs_jcs
@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_official_document(name: str) -> None:
    data = JCS / "testdata"
    value = orjson.loads((data / "input" / f"{name}.json").read_bytes())
    assert encode_canonical(value) == (data / "output" / f"{name}.json").read_bytes().rstrip(b"\n")
    assert encode_canonical(value) == bytes.fromhex((data / "outhex" / f"{name}.txt").read_text())


def test_strings_are_escaped_as_little_as_possible() -> None:
    text = '\b\t\n\f\r"\\/ \x00\x1f\x7f\u2028\u20ac e\u0301 \U0001f600'
    expected = (
        '"\\b\\t\\n\\f\\r\\"\\\\/ \\u0000\\u001f\x7f\u2028\u20ac e\u0301 \U0001f600"'.encode()
    )
    assert encode_canonical(text) == expected
    assert encode_canonical("\u00e9") != encode_canonical("e\u0301")


def test_keys_sort_by_utf16_code_units() -> None:
    keys = ["\ufb33", "\U0001f600", "\u20ac", "\ue000", "a", "\U0010ffff", "\uffff", "", "B"]
    assert list(orjson.loads(encode_canonical(dict.fromkeys(keys, 1)))) == [
        "", "B", "a", "\u20ac", "\U0001f600", "\U0010ffff", "\ue000", "\ufb33", "\uffff",
    ]  # fmt: skip
    inside: dict[str, Any] = {"content": {"data": [[{"\uff0c": 1.0, "\U0001d11e": 2, "k": {}}]]}}
    assert (
        encode_event(inside)
        == '{"content":{"data":[[{"k":{},"\U0001d11e":2,"\uff0c":1}]]}}'.encode()
    )
    assert encode_canonical({"\U0001f1e6\uff0cb": 1, "\U0001f1e6\U0001f1e6": 2}) == rfc8785.dumps(
        {"\U0001f1e6\uff0cb": 1, "\U0001f1e6\U0001f1e6": 2}
    )


def test_astral_text_alone_changes_no_order() -> None:
    event: dict[str, Any] = {
        "text": "\U0001f389 \u2764\ufe0f",
        "\uff0c": 1,
        "a": {"b": "\U000e0067", "\ue000": None},
    }
    assert encode_event(event) == encode_canonical(event) == rfc8785.dumps(event)


class _Pair(NamedTuple):
    a: int
    b: int


class _Colour(enum.Enum):
    RED = "red"


class _Word(enum.StrEnum):
    RED = "red"


class _Level(enum.IntEnum):
    ONE = 1


class _Text(str):
    pass


class _Number(float):
    pass


REFUSED: dict[str, Any] = {
    "nan": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "2^53": MAX_INTEGER + 1,
    "-2^53": -MAX_INTEGER - 1,
    "10^30": 10**30,
    "lone surrogate": "a\ud800",
    "lone low surrogate": "\udc00a",
    "surrogate key": {"\udfff": 1},
    "tuple": (1, 2),
    "empty tuple": (),
    "named tuple": _Pair(1, 2),
    "set": {1},
    "bytes": b"a",
    "bytearray": bytearray(b"a"),
    "datetime": datetime.datetime(2026, 1, 31),
    "date": datetime.date(2026, 1, 31),
    "time": datetime.time(1),
    "uuid": uuid.UUID(int=1),
    "enum": _Colour.RED,
    "str enum": _Word.RED,
    "int enum": _Level.ONE,
    "str subclass": _Text("a"),
    "float subclass": _Number(1.5),
    "dict subclass": OrderedDict(a=1),
    "fragment": orjson.Fragment(b"1"),
    "object": object(),
    "int key": {1: 2},
    "none key": {None: 2},
    "subclass key": {_Text("a"): 1},
    "enum key": {_Word.RED: 1},
}


@pytest.mark.parametrize("name", REFUSED)
def test_outside_the_domain_is_refused_at_every_depth(name: str) -> None:
    value = REFUSED[name]
    for event in (
        {"ts": value},
        {"content": {"text": value}},
        {"id": "evt_000001", "content": {"data": value}},
        {"content": {"data": {"a": [1.5, {"b": value}]}}},
        {"content": [value]},
    ):
        with pytest.raises(CanonicalError):
            encode_canonical(event)
        with pytest.raises(CanonicalError):
            encode_event(event)
    with pytest.raises(CanonicalError):
        encode_canonical(value)


def test_refusals_do_not_show_the_value() -> None:
    for value in (
        {"hidden words": ("hidden words",)},
        ["hidden words\ud800"],
        {"hidden words\ud800": 1},
    ):
        with pytest.raises(CanonicalError) as caught:
            encode_canonical(value)
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_es6_refuses_what_is_not_finite(value: float) -> None:
    with pytest.raises(CanonicalError):
        format_es6_number(value)


def _nest(depth: int, *leaves: Any) -> Any:
    value: Any = [*leaves]
    for level in range(depth - 1):
        value = [value] if level % 2 else {"a": value}
    return value


def test_depth_limit_is_the_same_on_both_ways() -> None:
    assert encode_canonical(_nest(250)) == rfc8785.dumps(_nest(250))
    rewritten = _nest(250, 1.0, 1e21)
    assert encode_canonical(rewritten) == rfc8785.dumps(rewritten)
    reordered = _nest(249, 1.0, {"\uff0c": 1, "\U0001d11e": 2})
    assert encode_canonical(reordered) == rfc8785.dumps(reordered)
    with pytest.raises(CanonicalError):
        encode_canonical(_nest(251))
    for wrap in (lambda inner: {"content": {"data": inner}}, lambda inner: {"id": [inner]}):
        assert encode_event(wrap(_nest(248))) == encode_canonical(wrap(_nest(248)))
        for depth in (249, 252, 253, 300):
            with pytest.raises(CanonicalError):
                encode_event(wrap(_nest(depth)))
    circle: dict[str, Any] = {}
    circle["content"] = {"data": circle}
    with pytest.raises(CanonicalError):
        encode_event(circle)


def test_event_bytes_refuses_what_looks_like_a_dict() -> None:
    for value in (OrderedDict(id="evt_000001"), (), object()):
        with pytest.raises(CanonicalError):
            encode_event(value)  # type: ignore[arg-type]


_odd_characters = st.sampled_from(
    'aB0"\\\n\x00\x1f\x7f\u00e9\u20ac\ud7ff\ue000\ufb33\uff0c\uffff\U00010000\U0001f600\U0010ffff'
)
_text = st.text(_odd_characters, max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
_integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
_floats = (
    st.floats(allow_nan=False, allow_infinity=False)
    | _integers.map(float)
    | st.sampled_from([n for n, _ in NUMBERS])
)
_leaves = st.none() | st.booleans() | _integers | _floats | _text
_values = st.recursive(
    _leaves,
    lambda v: st.lists(v, max_size=4) | st.dictionaries(_text, v, max_size=4),
    max_leaves=12,
)
_contents = st.fixed_dictionaries({}, optional={"mime": _text, "text": _text, "data": _values})
_events = st.fixed_dictionaries(
    {"id": _text, "seq": _integers | _floats, "content": _contents},
    optional={
        "ts": _text | _floats,
        "links": st.dictionaries(_text, _text, max_size=3),
        "usage": st.dictionaries(_text, _integers | _floats, max_size=3),
        "x": _values,
    },
)
_wild_leaves = _leaves | st.sampled_from([*REFUSED.values()]) | st.text(max_size=3) | st.integers()
_wild = st.recursive(
    _wild_leaves,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(_text, v, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(_values)
def test_values_agree_with_an_independent_implementation(value: object) -> None:
    assert encode_canonical(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(_events)
def test_events_agree_with_an_independent_implementation(event: dict[str, Any]) -> None:
    before = repr(event)
    assert encode_event(event) == encode_canonical(event) == rfc8785.dumps(event)
    assert repr(event) == before


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(_text, _wild, max_size=4))
def test_both_ways_refuse_the_same_events(event: dict[str, Any]) -> None:
    try:
        expected = encode_canonical(event)
    except CanonicalError:
        with pytest.raises(CanonicalError):
            encode_event(event)
    else:
        assert encode_event(event) == expected


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_es6_reads_back_as_the_same_number(number: float) -> None:
    assert float(format_es6_number(number)) == number


@settings(max_examples=50, deadline=None)
@given(st.lists(_events, max_size=4))
def test_incremental_hash_agrees_with_the_array(events: list[dict[str, Any]]) -> None:
    assert hash_events(events) == hashlib.sha256(rfc8785.dumps(events)).hexdigest()
