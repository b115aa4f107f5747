"""Bytes of a pipe: pieces of one size however they arrive, and a word when nothing comes."""

import io
import os
import threading
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from open_token.cli.shared import text_input as module
from open_token.cli.shared.text_input import PAUSE, read_chunks


@pytest.fixture
def pipe() -> Iterator[tuple[BinaryIO, int]]:
    end, start = os.pipe()
    with os.fdopen(end, "rb") as stream:
        yield stream, start


def test_a_stream_in_memory_never_pauses() -> None:
    data = bytes(range(256)) * 1000
    pieces = list(read_chunks(io.BytesIO(data)))
    assert b"".join(pieces) == data
    assert PAUSE not in pieces


def test_pieces_do_not_depend_on_how_bytes_arrive(
    pipe: tuple[BinaryIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK_SIZE", 10)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 60.0)
    stream, start = pipe
    for size in (3, 9, 1, 17, 5):
        os.write(start, b"x" * size)
    os.close(start)
    assert [len(piece) for piece in read_chunks(stream)] == [10, 10, 10, 5]


def test_what_is_there_comes_out_before_a_pause(
    pipe: tuple[BinaryIO, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)
    stream, start = pipe
    os.write(start, b"first\n")
    pieces = read_chunks(stream)
    assert (next(pieces), next(pieces)) == (b"first\n", PAUSE)
    writer = threading.Thread(target=lambda: (os.write(start, b"second\n"), os.close(start)))
    writer.start()
    assert b"".join(pieces) == b"second\n"
    writer.join(10)


def test_an_empty_stream_has_no_pieces(pipe: tuple[BinaryIO, int]) -> None:
    os.close(pipe[1])
    assert list(read_chunks(pipe[0])) == []


def test_a_closed_descriptor_is_read_as_it_is() -> None:
    class Odd(io.BytesIO):
        def fileno(self) -> int:
            raise OSError

    assert list(read_chunks(Odd(b"a"))) == [b"a"]
