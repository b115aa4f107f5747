"""What a Source makes of bytes: shapes, records with their places, and every way in which input can
be bad."""

import gc
import gzip
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.growth import grows_linearly
from open_token.errors import InputError
from open_token.jsontools.repair import find_objects
from open_token.sources import origin
from open_token.sources.source import SAMPLE_RECORDS, IrregularLine, Source

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def of(data: bytes) -> Source:
    return Source("session", data=data)


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def error_of(source: Source) -> InputError:
    with pytest.raises(InputError) as caught:
        list(source.records())
    return caught.value


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        (b"", "empty"),
        (b" \n\t\n", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "binary"),
        (b"SQLite format 3\0", "sqlite"),
        (b"PK\x03\x04....", "zip"),
        (b'{\n"a": 1\n}\n{\n"b": 2\n}\n', "glued"),
        (b"hello\n", "text"),
        ('{"a": 1}'.encode("utf-16"), "text"),
        (b"12\n", "text"),
        (b'{"a": 1}', "lines"),
        (b'{"a": 1}\n{"b": 2}\n', "lines"),
        (b'\n\xef\xbb\xbf{"a": 1}\n', "text"),
        (b'\xef\xbb\xbf{"a": 1}\n{"b": 2}\n', "lines"),
        (b'\n\n{"a": 1}\n', "lines"),
        (b'{\n "a": 1\n}', "document"),
        (b'[{"a": 1}]', "document"),
        (b'[\n{"a": 1}\n]', "document"),
        (b'{"a": 1}\noops\n', "lines"),
        (b'oops"}\n{"a": 1}\n{"b": 2}\n', "lines"),
        (b'\0\0\0\0\n{"a": 1}\n{"b": 2}\n', "lines"),
        (b'{"a": \n{"b": 1}\n{"c": 2}\n', "lines"),
        (b'{"a": 1}\n\0\0\0\0\n', "lines"),
        (b'oops\n{"a": 1}\n', "text"),
        (b'[\n{"a": 1}\n', "document"),
        (b'event: start\ndata: {"a": 1}\n\n', "events"),
        (b': hello\n\ndata: {"a": 1}\n\n', "events"),
    ],
)
def test_the_shape_follows_from_the_bytes(data: bytes, shape: str) -> None:
    assert of(data).shape == shape


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1}\n\n  \n{"b":2}\n',
        b'\xef\xbb\xbf{"a":1}\r\n\r\n\r\n{"b":2}',
        b'{"a":1}\n\n\n{"b":2}',
    ],
)
def test_lines_keep_their_numbers(data: bytes) -> None:
    assert list(of(data).records()) == [(1, {"a": 1}), (4, {"b": 2})]


def test_a_document_is_its_items_or_itself() -> None:
    assert list(of(b'[{"a":1},\n {"b":2}]').records()) == [(1, {"a": 1}), (2, {"b": 2})]
    assert list(of(b'{\n"a":1}').records()) == [(1, {"a": 1})]
    assert of(b'[{"a":1},\n {"b":2}]').sample == [[{"a": 1}, {"b": 2}]]


def test_saved_events_are_records() -> None:
    data = b': ping\n\nevent: a\ndata: {"a":\ndata: 1}\n\nid: 7\ndata:{"b":2}\r\n\r\ndata: [DONE]\n\ndata: {"c":3}'
    assert list(of(data).records()) == [(4, {"a": 1}), (8, {"b": 2}), (12, {"c": 3})]


def test_the_sample_is_short_and_passes_over_a_torn_line() -> None:
    assert of(lines(*({"n": n} for n in range(200)))).sample == [
        {"n": n} for n in range(SAMPLE_RECORDS)
    ]
    assert of(b'{"a":1}\n{"b":\n{"c":3}\n').sample == [{"a": 1}, {"c": 3}]
    assert of(b"plain text").sample == []


def test_of_the_sample_no_more_is_parsed_than_is_asked_for() -> None:
    source = of(lines({"n": 0}, *({"n": n} for n in range(1, 200))))
    assert next(source.iter_sample()) == {"n": 0}
    assert "sample" not in vars(source)
    assert list(source.iter_sample()) == source.sample
    assert list(of(b"plain text").iter_sample()) == []
    assert list(of(b'{"a":1}\n{"b":\n{"c":3}\n').iter_sample()) == [{"a": 1}, {"c": 3}]


@pytest.mark.parametrize("data", [b'{"a":[1]}', b'{"a":1}\n\n{"b":', b'data: {"a":1}\n\n'])
def test_an_input_no_longer_than_its_sample_is_parsed_once(data: bytes) -> None:
    source, afresh = Source("short", data=data), Source("short", data=data)
    assert [record for _, record in source.records()] == source.sample
    assert all(
        record is known for (_, record), known in zip(source.records(), source.sample, strict=True)
    )
    assert list(source.records()) == list(afresh.records())
    assert source.half_line == afresh.half_line
    assert [text for _, text in source.records(bytes.decode)] != source.sample


def test_a_longer_input_is_read_on_behind_its_sample() -> None:
    source = Source("long", data=b'{"a":1}\n' * SAMPLE_RECORDS)
    assert len(source.sample) == len(list(source.records())) == SAMPLE_RECORDS
    assert next(source.records())[1] is not source.sample[0]


def test_the_opening_has_the_records_that_begin_in_it() -> None:
    data = lines({"long": "x" * 1000}, {"n": 2}) + b"oops\n" + lines({"n": 4}, {"n": 5})
    assert of(data).read_opening(1) == [{"long": "x" * 1000}]
    assert of(data).read_opening(1_015) == [{"long": "x" * 1000}, {"n": 2}]
    assert of(data).read_opening(10**6)[1:] == [{"n": 2}, {"n": 4}, {"n": 5}]


@given(st.lists(JSON, max_size=5))
def test_what_was_written_is_read(records: list[Any]) -> None:
    data = lines({"first": True}, *({"value": record} for record in records))
    assert [record for _, record in of(data).records()][1:] == [
        {"value": record} for record in records
    ]


class TestBroken:
    """Input that cannot be read says what and where."""

    @pytest.mark.parametrize(
        ("data", "where"),
        [
            (b'[\n{"a": 1},\n{"b": oops}\n]', "session:3:7"),
            (b'{"a": 1', "session:1:8"),
            (b'{"a": oops}\n{"b": oops}\n', "session:1:7"),
        ],
    )
    def test_a_broken_document_is_named(self, data: bytes, where: str) -> None:
        problem = error_of(of(data))
        assert (problem.code, problem.where) == ("input.json", where)

    @pytest.mark.parametrize(
        ("data", "where"),
        [
            (b'{"b": "\xff"}\n', "session:1:8"),
            (b'{"b": "\xff"}\n{"b": "\xff"}', "session:1:8"),
            (b'{"b": "\xed\xa0\x80"}\n', "session:1:8"),
            (b'{\n "a": "\xc3\xa9\xff"\n}', "session:2:10"),
        ],
    )
    def test_bytes_that_are_not_utf8_are_placed(self, data: bytes, where: str) -> None:
        problem = error_of(of(data))
        assert (problem.code, problem.where) == ("input.utf8", where)
        assert "-f utf-8" in str(problem.help)

    def test_utf16_gets_its_own_remedy(self) -> None:
        problem = error_of(of('{"a": 1}\n'.encode("utf-16")))
        assert problem.code == "input.utf8"
        assert "-f utf-16" in str(problem.help)

    def test_text_is_not_called_a_broken_line(self) -> None:
        problem = error_of(of(b"name,age\nada,36\n"))
        assert (problem.code, problem.where) == ("input.unknown", "session")

    @pytest.mark.parametrize(
        "data", [b'{"a":1}\n{"b":' + b"[" * 50_000 + b"]" * 50_000 + b"}\n", b"[" * 10**6]
    )
    def test_deep_nesting_is_refused(self, data: bytes) -> None:
        assert error_of(of(data)).code == "input.deep"


class TestTornLines:
    """A line that is not JSON costs that line, and never the session."""

    @pytest.mark.parametrize(
        "bad",
        [
            *(b"{'a': 1}", b'{"a": NaN}', b'{"a": 1,}', b'{"a": 01}', b'{"a": "\x01"}', b"oops"),
            *(b'{"a": {"b": 1}', b'"half', b'{"a": "\xe2\x82', b"\0" * 100),
            # An object inside a torn one is no record.
            *(
                b'{"a": [{"b": 1}',
                b'{"a": [{"b": 1}, oops',
                b'age": {"role": "user"}}',
                b'1}}{"b":',
            ),
        ],
    )
    @pytest.mark.parametrize("ending", [b"\n", b"\n" + lines({"n": 18})])
    def test_it_is_left_out_and_counted(self, bad: bytes, ending: bytes) -> None:
        source = of(lines(*({"n": n} for n in range(16))) + bad + ending)
        numbers = [*range(16), 18] if len(ending) > 1 else [*range(16)]
        assert [record for _, record in source.records()] == [{"n": n} for n in numbers]
        assert source.torn == {17: len(bad)}

    @pytest.mark.parametrize(
        ("line", "records", "lost"),
        [
            (b'{"a":1}{"b":2}', [{"a": 1}, {"b": 2}], 0),
            (b'{"a":1} {"b":{"c":[2]}}\t{"d":3}', [{"a": 1}, {"b": {"c": [2]}}, {"d": 3}], 0),
            (b'{"a":1}{"b":', [{"a": 1}], 5),
            (b'{"a":1}oops', [{"a": 1}], 4),
            (b'{"type":"as{"type":"user","x":{"y":1}}', [{"type": "user", "x": {"y": 1}}], 11),
            (b'{"a":1,{"b":2}', [{"b": 2}], 7),
            (b'{"a":{"x":1},"c{"b":[{"d":2}]}', [{"b": [{"d": 2}]}], 15),
            (b'{"type":1,"c":{"type":2,"d":{"e":3}}', [{"type": 2, "d": {"e": 3}}], 14),
            (b'{"a":"half \\{"b":2}', [{"b": 2}], 12),
            (b'{"a":"\xe2\x82{"b":2}', [{"b": 2}], 8),
            (b'\0\0\0\0{"b":2}', [{"b": 2}], 4),
            (b'{"a":"x\0\0\0{"b":2}', [{"b": 2}], 10),
        ],
    )
    def test_whole_objects_in_it_are_read(self, line: bytes, records: list[Any], lost: int) -> None:
        source = of(lines({"n": 1}) + line + b"\n" + lines({"n": 3}))
        assert list(source.records()) == [(1, {"n": 1}), *((2, r) for r in records), (3, {"n": 3})]
        assert source.torn == ({2: lost} if lost else {})
        assert list(source.lines())[1] == (2, IrregularLine(line + b"\n", records))

    def test_bytes_that_are_not_utf8_are_replaced(self) -> None:
        source = of(b'{"a": 1}\n{"b": "\xff"}\n')
        assert list(source.records()) == [(1, {"a": 1}), (2, {"b": "\ufffd"})]
        assert (list(source.repaired), source.torn) == ([2], {})

    @pytest.mark.parametrize(
        ("text", "replaced"), [(b"\xff", "\ufffd"), (b"\\ud800", "\ufffd"), (b"\xe2\x82", "\ufffd")]
    )
    def test_an_object_of_a_torn_line_is_repaired(self, text: bytes, replaced: str) -> None:
        source = of(b'{"a":1}\n{"b":"\xff{"c":"' + text + b'"}{"d":4}\n')
        assert list(source.records()) == [(1, {"a": 1}), (2, {"c": replaced}), (2, {"d": 4})]
        assert (list(source.repaired), source.torn) == ([2], {2: 7})

    def test_saved_events_may_be_torn_too(self) -> None:
        source = of(b'data: {"a":1}\n\ndata: {"b":\n\ndata: {"c":3}\n\n')
        assert list(source.records()) == [(1, {"a": 1}), (5, {"c": 3})]
        assert source.torn == {3: 5}

    def test_an_input_of_torn_lines_is_refused(self) -> None:
        problem = error_of(of(b'{"a":1}\n' + b'{"b": oops\n' * 10_001))
        assert (problem.code, problem.where) == ("input.json", "session:2:7")
        assert "oops" not in str(problem)

    @pytest.mark.parametrize(
        "unit", [b"{", b'{"', b'{"a":', b'{"a":{"a":1},', b'{"a":1},', b'"{', b"{}x", b"\0"]
    )
    def test_hostile_lines_take_linear_time(self, unit: bytes) -> None:
        assert grows_linearly(lambda size: find_objects(unit * (size // len(unit))), 100_000)


class TestHalfLine:
    """The last line of a session that is still being written."""

    @given(JSON, st.data())
    def test_every_beginning_of_a_line_is_half(self, value: Any, data: st.DataObject) -> None:
        whole = json.dumps({"value": value}, ensure_ascii=False).encode("utf-8", "surrogatepass")
        half = whole[: data.draw(st.integers(1, len(whole) - 1))]
        source = of(b'{"a": 1}\n' + half)
        assert list(source.records()) == [(1, {"a": 1})]
        assert source.half_line == 2

    @pytest.mark.parametrize("half", [b'{"a": 1', b'{"a": 1\n', b"["])
    def test_the_only_line_must_be_whole(self, half: bytes) -> None:
        assert error_of(of(half)).code == "input.json"

    def test_a_whole_last_line_needs_no_newline(self) -> None:
        source = of(b'{"a": 1}\n{"b": 2}')
        assert len(list(source.records())) == 2
        assert source.half_line is None


class TestSurrogates:
    """Half a surrogate pair, as JavaScript writes it, is replaced."""

    def test_each_is_replaced_and_reported_once(self) -> None:
        source = of(b'{"a": "x\\ud83d"}\n{"b": "\\ud83d\\ude00"}\n{"\\udc00": 3}\n')
        assert [record for _, record in source.records()] == [
            {"a": "x\ufffd"},
            {"b": "😀"},
            {"\ufffd": 3},
        ]
        assert source.sample[0] == {"a": "x\ufffd"}
        assert list(source.repaired) == [1, 3]

    def test_in_a_document_too(self) -> None:
        source = of(b'[\n{"a": "\\ud83d"}]')
        assert source.document == [{"a": "\ufffd"}]
        assert list(source.repaired) == [1]


class TestGzip:
    """Packed input is read as if it were not."""

    DATA = lines(*({"n": n, "text": str(n) * 50} for n in range(3000)))

    def test_compressed_source_is_unpacked(self, tmp_path: Path) -> None:
        (tmp_path / "a.jsonl").write_bytes(gzip.compress(self.DATA))
        for source in (of(gzip.compress(self.DATA)), Source.of(tmp_path / "a.jsonl")):
            assert sum(1 for _ in source.records()) == 3000

    @pytest.mark.parametrize(
        "data",
        [
            DATA,
            b'{\n"a": [' + DATA.replace(b"\n", b",\n") + b"1]}",
            b'{"a":"' + os.urandom(10**5).hex().encode() + b'"}',
        ],
    )
    @pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
    def test_cut_off_is_reported(self, data: bytes, share: float) -> None:
        packed = gzip.compress(data)
        problem = error_of(of(packed[: int(len(packed) * share)]))
        assert (problem.code, problem.where) == ("input.compressed", "session")

    def test_damaged_is_reported(self) -> None:
        packed = bytearray(gzip.compress(self.DATA))
        packed[-6] ^= 0xFF
        assert error_of(of(bytes(packed))).code == "input.compressed"
        assert error_of(of(b"\x1f\x8b" + b"x" * 100)).code == "input.compressed"


class TestOf:
    """What a path can be."""

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError) as caught:
            Source.of(tmp_path / "a.jsonl", "a.jsonl")
        assert caught.value.what == "cannot read the input: No such file or directory"
        assert caught.value.where == "a.jsonl"

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="folder"):
            Source.of(tmp_path)

    def test_a_pipe_is_read_once(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        writer = threading.Thread(target=lambda: path.write_bytes(lines({"a": 1}, {"b": 2})))
        writer.start()
        source = Source.of(path)
        writer.join()
        assert source.sample == [record for _, record in source.records()] == [{"a": 1}, {"b": 2}]

    @pytest.mark.skipif(os.geteuid() == 0, reason="the super-user may read anything")
    def test_a_file_that_may_not_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"{}")
        (tmp_path / "a").chmod(0)
        with pytest.raises(InputError, match="Permission denied"):
            Source.of(tmp_path / "a")

    def test_a_file_that_goes_away(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"{}")
        source = Source.of(tmp_path / "a")
        (tmp_path / "a").unlink()
        assert "No such file" in error_of(source).what


class TestStream:
    """Standard input, which can be read only once."""

    def test_a_small_one_stays_in_memory(self) -> None:
        source = Source.of_stream(io.BytesIO(b'{"a": 1}\n'), "<stdin>")
        assert (source.name, source.path, source.size) == ("<stdin>", None, 9)
        assert source.open_sibling("x") is None
        assert source.find_siblings("*") == []

    def test_a_large_one_goes_through_a_file_that_is_removed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(origin, "_MAX_IN_MEMORY", 1000)
        data = lines(*({"n": n} for n in range(500)))
        source = Source.of_stream(io.BytesIO(data), "<stdin>")
        path = source.path
        assert path is not None
        assert source.size == len(data)
        assert len(list(source.records())) == 500
        assert source.sha256 == Source("same", data=data).sha256
        del source
        gc.collect()
        assert not path.exists()


def test_neighbours_are_files_beside_it_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "session.jsonl"):
        (tmp_path / name).write_bytes(b"{}")
    (tmp_path / "c.jsonl").mkdir()
    source = Source.of(tmp_path / "session.jsonl")
    assert [Path(found.name).name for found in source.find_siblings("*.jsonl")] == [
        "a.jsonl",
        "b.jsonl",
        "session.jsonl",
    ]
    assert source.open_sibling("a.jsonl") is not None
    assert source.open_sibling("c.jsonl") is None
    assert source.open_sibling("x" * 5000) is None


def test_a_link_that_leads_elsewhere_is_no_neighbour(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    (home / "session").mkdir(parents=True)
    other.mkdir()
    for path in (home / "session.jsonl", home / "own.jsonl", other / "foreign.jsonl"):
        path.write_bytes(b"{}")
    (home / "inside.jsonl").symlink_to(home / "own.jsonl")
    (home / "outside.jsonl").symlink_to(other / "foreign.jsonl")
    (home / "session" / "subagents").symlink_to(other)
    source = Source.of(home / "session.jsonl")
    names = [Path(found.name).name for found in source.find_siblings("*.jsonl")]
    assert names == ["inside.jsonl", "own.jsonl", "session.jsonl"]
    assert source.find_siblings("session/subagents/*.jsonl") == []
    assert source.open_sibling("outside.jsonl") is None
    assert source.open_sibling("inside.jsonl") is not None


def test_progress_reports_the_bytes_read() -> None:
    result: list[int] = []
    source = of(lines(*({"text": "x" * 40_000} for _ in range(100))))
    source.progress = result.append
    assert source.sample
    assert result == []
    list(source.records())
    assert len(result) == 4
    assert result == sorted(result)
    assert result[-1] == source.size


def test_progress_of_what_was_parsed_already_is_reported_at_its_end() -> None:
    result: list[int] = []
    source = of(lines({"a": 1}, {"b": 2}))
    source.progress = result.append
    assert source.sample
    assert result == []
    list(source.records())
    assert result == [source.size]


def test_progress_of_packed_input_is_measured_against_its_size() -> None:
    result: list[int] = []
    source = of(gzip.compress(lines(*({"text": os.urandom(50_000).hex()} for _ in range(40)))))
    source.progress = result.append
    list(source.records())
    assert result
    assert result[-1] <= source.size


@pytest.mark.parametrize(
    "data",
    [
        b'{"n":1}\n{"n":2}\n\n{"n":3}',
        b'\xef\xbb\xbf{"n":1}\n{"n":2}\n',
        b'[{"n":1},{"n":2}]',
        b'{\n"n":1}\n{\n"n":2}\n',
    ],
    ids=["lines", "byte order mark", "list", "glued"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_one_record_by_its_number(data: bytes, packed: bool) -> None:
    source = Source("x", data=gzip.compress(data) if packed else data)
    assert [source.record_at(number) for number, _ in source.records()] == [
        record for _, record in source.records()
    ]


def test_one_record_that_is_repaired() -> None:
    source = Source("x", data=b'{"n":1}\n{"n":"\\ud800"}\n')
    assert source.record_at(2) == {"n": "\ufffd"}
    assert list(source.repaired) == [2]


@pytest.mark.parametrize("levels", [1000, 1500, 100_000])
def test_what_is_nested_too_deep_is_said_to_be(levels: int) -> None:
    deep = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    for data in (deep, b'{"b":1}\n' + deep + b"\n", deep + b'\n{"b":1}\n'):
        with pytest.raises(InputError) as caught:
            list(Source("session", data=data).records())
        assert caught.value.code == "input.deep"
