"""Compressed data streams without end, but one line or one document of it has a limit."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from open_token.errors import InputError
from open_token.sources import decompress
from open_token.sources.decompress import DecompressingReader, TooLargeError, open_compressed
from open_token.sources.source import Source

zstd = decompress.load_zstd()
COMPRESSIONS = {"gzip": gzip.compress, "zstd": zstd.compress}


@pytest.fixture(params=COMPRESSIONS)
def compression(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def packed(compression: str) -> Callable[[bytes], DecompressingReader]:
    def pack(data: bytes) -> DecompressingReader:
        reader = open_compressed(io.BytesIO(COMPRESSIONS[compression](data)))
        assert reader is not None
        return reader

    return pack


Pack = Callable[[bytes], DecompressingReader]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "MAX_UNPACKED_BYTES", 1000)


def test_many_lines_are_read_however_many_they_are(packed: Pack) -> None:
    data = b"".join(b"%d\n" % number for number in range(2000))
    assert b"".join(packed(data)) == data


@pytest.mark.parametrize("length", [999, 1000])
def test_what_is_within_the_limit_is_read(packed: Pack, length: int) -> None:
    line = b"x" * (length - 1) + b"\n"
    assert list(packed(line * 3)) == [line] * 3
    assert packed(line).read() == line
    assert packed(line * 3).read(2 * length) == line * 2


def test_a_line_over_the_limit_is_refused(packed: Pack) -> None:
    with pytest.raises(TooLargeError):
        list(packed(b"{}\n" + b"x" * 1001))


def test_a_document_over_the_limit_is_refused(packed: Pack) -> None:
    with pytest.raises(TooLargeError):
        packed(b"x\n" * 501).read()


@pytest.mark.parametrize(
    "data", [b"{}\n" * 5 + b'{"a":"' + b"x" * 2000, b"[" + b"1," * 2000, b'{"a":"' + b"x" * 2000]
)
def test_the_error_names_the_file_and_the_way_out(data: bytes, compression: str) -> None:
    source = Source("session", data=COMPRESSIONS[compression](data))
    with pytest.raises(InputError) as caught:
        list(source.records())
    assert (caught.value.code, caught.value.where) == ("input.compressed-large", "session")
    assert f"{compression} -d" in str(caught.value)


def test_the_file_below_is_closed(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "packed"
    path.write_bytes(COMPRESSIONS[compression](b"a\n"))
    with path.open("rb") as below:
        reader = open_compressed(below)
        assert reader is not None
        reader.close()
        assert below.closed


def test_data_that_is_cut_off_or_damaged(compression: str) -> None:
    data = COMPRESSIONS[compression](b"".join(b'{"n":%d}\n' % n for n in range(90)))
    broken = data[:20] + bytes(20) + data[40:]
    for damaged in (data[:-12], broken):
        with pytest.raises(InputError) as caught:
            list(Source("session", data=damaged).records())
        assert caught.value.code == "input.compressed"


def test_zstd_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "load_zstd", lambda: None)
    with pytest.raises(InputError) as caught:
        _ = Source("session.jsonl.zst", data=zstd.compress(b"{}\n")).shape
    assert caught.value.code == "input.zstd"
    assert "backports.zstd" in str(caught.value)
