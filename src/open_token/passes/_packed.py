"""Bytes that are written in letters, base64, base32, hexadecimal and numbers, and the text that is
packed in them."""

import base64
import binascii
import re
import zlib
from collections.abc import Iterator

from open_token.passes._late import late
from open_token.passes._way_back import CONTROL

# Four letters that stand for three bytes of plain text; base64 of anything else hardly ever has
# five in a row.
GROUP = "[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# Eight that stand for three letters of UTF-16, as PowerShell takes commands.
_WIDE = late(rb"(?:[I-Za-f][AQgw][AB][A-Za-z0-9+/]A[C-H][AEIMQUYcgkosw048]A){3,}")
_GROUPS = late(f"(?:{GROUP}){{5,}}".encode())
# How gzip, zlib, zip and PDF begin.
_PACKED = (b"H4sI", b"eJ", b"eAE", b"eNo", b"UEsD", b"JVBE")
_BREAKS = late(rb"(?:\\+[nr]|\s)+")
_LAST_LINE = late(rb"(?:\\+[nr]|\s)+[^\\\s]{1,75}$")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_STREAM = late(rb"PK\x03\x04.{22}(..)(..)|stream\r?\n", re.DOTALL)
_DUMP_LINE = late(
    rb"^[ \t]*([0-9A-Fa-f]{4,16})(:?)[ \t]+((?:(?:[0-9A-Fa-f]{2})+(?:[ \t]{1,3}|$))+)", re.MULTILINE
)
_DIGITS = late(rb"[0-9]+")
_NO_HEX = late(rb"0[xX]|[^0-9A-Fa-f]+")
# Text packs to a tenth; what packs better is made to fill memory.
_MOST_GROWTH, _LEAST_ROOM = 32, 1 << 14
_MOST_STREAMS = 64
_ODD_SHARE = 0.1
_PLAIN = bytes((9, 10, 13, *range(32, 127)))


def stretches(raw: bytes) -> tuple[bytes, ...]:
    """What may be one run of letters: all of it, and all without a last line, which may be
    something else."""
    found = _LAST_LINE.search(raw)
    return (raw, raw[: found.start()]) if found else (raw,)


def decoded_base64(run: bytes) -> bytes | None:
    """The text that base64 holds, from where it begins to be text; None where there is none."""
    letters = _BREAKS.sub(b"", run).rstrip(b"=")
    if (
        letters.startswith(_PACKED)
        and (packed := _from_base64(letters))
        and (text := unpacked(packed))
    ):
        return text.translate(CONTROL)
    wide = _WIDE.match(letters)
    found = wide or _GROUPS.search(letters)
    raw = _from_base64(letters[found.start() :]) if found else None
    return None if raw is None else raw.translate(CONTROL, b"\0" if wide else b"")


def _from_base64(letters: bytes) -> bytes | None:
    body = letters.translate(_STANDARD)
    try:
        return base64.b64decode(
            body[: len(body) - (len(body) % 4 == 1)] + b"=" * (-len(body) % 4 % 3)
        )
    except binascii.Error:
        return None


def unpacked(raw: bytes) -> bytes:
    """What gzip, zlib, a zip or a PDF holds, as far as it can be read; nothing where it is none."""
    if raw.startswith((b"PK", b"%PDF")):
        return b"\n".join(_streams(raw))
    return _inflated(raw, 47)


def _streams(raw: bytes) -> list[bytes]:
    room = _LEAST_ROOM + _MOST_GROWTH * len(raw)
    texts: list[bytes] = []
    for found in _STREAM.finditer(raw):
        if found[1]:
            skipped = int.from_bytes(found[1], "little") + int.from_bytes(found[2], "little")
            text = _inflated(raw[found.end() + skipped :], -15, room)
        else:
            text = _inflated(raw[found.end() :], 15, room)
        texts.append(text)
        room -= len(text)
        if len(texts) == _MOST_STREAMS or room <= 0:
            break
    return texts


def _inflated(raw: bytes, form: int, room: int | None = None) -> bytes:
    try:
        return zlib.decompressobj(form).decompress(
            raw, room or _LEAST_ROOM + _MOST_GROWTH * len(raw)
        )
    except zlib.error:
        return b""


def decoded_base32(run: bytes) -> bytes | None:
    """The text that base32 holds; None where it is none."""
    letters = run.rstrip(b"=")
    letters = (
        letters[: len(letters) - len(letters) % 8] if len(letters) % 8 in (1, 3, 6) else letters
    )
    return _plain(base64.b32decode(letters + b"=" * (-len(letters) % 8)))


def decoded_hex(run: bytes) -> bytes | None:
    """The text that hexadecimal digits say, one by one or as xxd, hexdump and their like write
    them."""
    lines = list(_DUMP_LINE.finditer(run))
    return _plain(b"".join(_dumped(lines)) if lines else _from_hex(run))


def _dumped(lines: list[re.Match[bytes]]) -> Iterator[bytes]:
    """What lines of a dump say, which xxd puts behind two spaces once more; a smaller address
    begins another dump."""
    last = -1
    for found in lines:
        address = int(found[1], 16)
        if address <= last:
            yield b"\n"
        yield _from_hex(found[3].partition(b"  ")[0] if found[2] else found[3])
        last = address


def _from_hex(said: bytes) -> bytes:
    digits = _NO_HEX.sub(b"", said)
    return bytes.fromhex(digits[: len(digits) & ~1].decode())


def decoded_numbers(run: bytes) -> bytes | None:
    """The text that a list of the numbers of its bytes says; None where one is no byte."""
    numbers = [int(digits) for digits in _DIGITS.findall(run)]
    return _plain(bytes(numbers)) if max(numbers) < 256 else None


def _plain(raw: bytes) -> bytes | None:
    is_text = len(raw.translate(None, _PLAIN)) <= _ODD_SHARE * len(raw)
    return raw.translate(CONTROL) if is_text and raw else None
