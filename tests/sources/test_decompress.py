"""Gzip data streams without end, but one line or one document of it has a limit."""

import gzip
import io
from pathlib import Path

import pytest

from open_token.errors import InputError
from open_token.sources import decompress
from open_token.sources.decompress import GzipReader, TooLargeError
from open_token.sources.source import Source


def packed(data: bytes) -> GzipReader:
    return GzipReader(io.BytesIO(gzip.compress(data)))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MAX_UNPACKED_BYTES", 1000)


def test_many_lines_are_read_however_many_they_are() -> None:
    data = b"".join(b"%d\n" % number for number in range(2000))
    assert b"".join(packed(data)) == data


@pytest.mark.parametrize("length", [999, 1000])
def test_what_is_within_the_limit_is_read(length: int) -> None:
    line = b"x" * (length - 1) + b"\n"
    assert list(packed(line * 3)) == [line] * 3
    assert packed(line).read() == line
    assert packed(line * 3).read(2 * length) == line * 2


def test_a_line_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLargeError):
        list(packed(b"{}\n" + b"x" * 1001))


def test_a_document_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLargeError):
        packed(b"x\n" * 501).read()


@pytest.mark.parametrize(
    "data", [b"{}\n" * 5 + b'{"a":"' + b"x" * 2000, b"[" + b"1," * 2000, b'{"a":"' + b"x" * 2000]
)
def test_the_error_names_the_file_and_the_way_out(data: bytes) -> None:
    source = Source("talk.gz", data=gzip.compress(data))
    with pytest.raises(InputError) as caught:
        list(source.records())
    assert (caught.value.code, caught.value.where) == ("input.gzip-large", "talk.gz")
    assert "gzip -d" in str(caught.value)


def test_the_file_below_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a\n"))
    with path.open("rb") as below:
        GzipReader(below).close()
        assert below.closed
