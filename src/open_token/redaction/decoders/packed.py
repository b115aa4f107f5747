"""Decode text from base64, base32, hexadecimal digits and lists of byte values."""

import base64
import binascii
import re
import zlib
from collections.abc import Iterator

from open_token.redaction.decoders.offset_map import SEPARATORS_TO_SPACES
from open_token.redaction.lazy_patterns import lazy_compile

# Four characters that encode three bytes of plain text; base64 of anything else hardly ever has
# five such groups in a row.
GROUP = "[CDI-Za-f][AC-HQS-Xgi-nwyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
# Eight that encode three ASCII characters in UTF-16, as in commands for PowerShell.
_WIDE = lazy_compile(rb"(?:[I-Za-f][AQgw][AB][A-Za-z0-9+/]A[C-H][AEIMQUYcgkosw048]A){3,}")
_GROUPS = lazy_compile(f"(?:{GROUP}){{5,}}".encode())
# How gzip, zlib, zip and PDF begin in base64.
_COMPRESSED_STARTS = (b"H4sI", b"eJ", b"eAE", b"eNo", b"UEsD", b"JVBE")
# How UTF-16 with a byte order mark begins in base64.
_UTF16_STARTS = (b"//4", b"//5", b"/v8")
# Each begins only where a run begins, so that no run is read from each of its characters.
_LINE_BREAKS = lazy_compile(rb"(?:(?<!\\)\\+[nr]|\s)+")
_LAST_LINE = lazy_compile(rb"(?<![\s\\])(?<!\\[nr])(?:\\+[nr]|\s)+[^\\\s]{1,75}$")
_URL_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_STREAM = lazy_compile(rb"PK\x03\x04.{22}(..)(..)|stream\r?\n", re.DOTALL)
_DUMP_LINE = lazy_compile(
    rb"^[ \t]*([0-9A-Fa-f]{4,16})(:?)[ \t]+((?:(?:[0-9A-Fa-f]{2})+(?:[ \t]{1,3}|$))+)", re.MULTILINE
)
# A command of PDF that shows strings, and the strings in it.
_PDF_STRING = lazy_compile(rb"\((?:[^()\\]|\\.)*\)", re.DOTALL)
_SHOW_TEXT = lazy_compile(
    rb"(?:\((?:[^()\\]|\\.)*\)[ \t\r\n]*(?:Tj|'|\")|\[(?:\((?:[^()\\]|\\.)*\)|[^\[\]()])*\][ \t\r\n]*TJ)",
    re.DOTALL,
)
_PDF_ESCAPE = lazy_compile(rb"\\([()\\])")
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\x1b") + b"\x7f"
_DIGITS = lazy_compile(rb"[0-9]+")
_NOT_HEX = lazy_compile(rb"0[xX]|[^0-9A-Fa-f]+")
# Text compresses to a tenth; what compresses much better is made to fill memory.
_MAX_GROWTH = 32
_MIN_OUTPUT_SIZE = 1 << 14
_MAX_STREAMS = 64
_MAX_BINARY_SHARE = 0.1
_PRINTABLE = bytes((9, 10, 13, *range(32, 127)))


def list_candidates(raw: bytes) -> tuple[bytes, ...]:
    """Return what may be encoded: all of it, and all but the last line, which may be unrelated."""
    match = _LAST_LINE.search(raw)
    return (raw, raw[: match.start()]) if match else (raw,)


def decode_base64(encoded: bytes) -> bytes | None:
    """Return the text in base64, from where it begins to be text; None where there is none."""
    characters = _LINE_BREAKS.sub(b"", encoded).rstrip(b"=")
    if characters.startswith(_COMPRESSED_STARTS):
        compressed = _decode_unpadded(characters)
        text = _decompress(compressed) if compressed else b""
        if text:
            return text.translate(SEPARATORS_TO_SPACES)
    if characters.startswith(_UTF16_STARTS):
        wide_raw = _decode_unpadded(characters) or b""
        text = wide_raw.decode("utf-16", "replace").encode("utf-8", "surrogatepass")
        return text.translate(SEPARATORS_TO_SPACES)
    wide = _WIDE.match(characters)
    start = wide or _GROUPS.search(characters)
    if start is None:
        return None
    raw = _decode_unpadded(characters[start.start() :])
    if raw is None:
        return None
    return raw.translate(SEPARATORS_TO_SPACES, b"\0" if wide else b"")


def _decode_unpadded(characters: bytes) -> bytes | None:
    body = characters.translate(_URL_TO_STANDARD)
    usable = len(body) - (len(body) % 4 == 1)
    try:
        return base64.b64decode(body[:usable] + b"=" * (-len(body) % 4 % 3))
    except binascii.Error:
        return None


def decode_file(raw: bytes) -> bytes | None:
    """Return the text of a file: plain text in UTF-8 or UTF-16, gzip, zip or PDF; else None."""
    if raw.startswith((b"PK", b"%PDF", b"\x1f\x8b")):
        text = _decompress(raw)
        return text.translate(SEPARATORS_TO_SPACES) if text else None
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raw = raw.decode("utf-16", "replace").encode("utf-8", "surrogatepass")
    control_count = len(raw) - len(raw.translate(None, _CONTROL_BYTES))
    if control_count > len(raw) // 100:
        return None
    return raw.decode("utf-8", "replace").encode().translate(SEPARATORS_TO_SPACES)


def _decompress(raw: bytes) -> bytes:
    """Return the content of gzip, zlib, zip or PDF data as far as it can be read."""
    if raw.startswith((b"PK", b"%PDF")):
        return b"\n".join(_decompress_streams(raw))
    return _inflate(raw, 47, _MIN_OUTPUT_SIZE + _MAX_GROWTH * len(raw))


def _decompress_streams(raw: bytes) -> list[bytes]:
    max_size = _MIN_OUTPUT_SIZE + _MAX_GROWTH * len(raw)
    texts: list[bytes] = []
    for match in _STREAM.finditer(raw):
        if match[1]:
            # The header of a zip entry ends with the lengths of its name and its extra field.
            skipped = int.from_bytes(match[1], "little") + int.from_bytes(match[2], "little")
            text = _inflate(raw[match.end() + skipped :], -15, max_size)
        else:
            text = _read_pdf_stream(raw, match.end(), max_size)
        texts.append(text)
        max_size -= len(text)
        if len(texts) == _MAX_STREAMS or max_size <= 0:
            break
    return texts


def _read_pdf_stream(raw: bytes, start: int, max_size: int) -> bytes:
    """Return a stream of a PDF; of the text on its pages without the commands between letters."""
    content = _inflate(raw[start : start + max_size], 15, max_size)
    if not content:
        end = raw.find(b"endstream", start, start + max_size)
        content = raw[start:end] if end >= 0 else b""
    if b"BT" not in content:
        return content
    lines = []
    for command in _SHOW_TEXT.finditer(content):
        parts = [part[1:-1] for part in _PDF_STRING.findall(command[0])]
        lines.append(_PDF_ESCAPE.sub(rb"\1", b"".join(parts)))
    return b"\n".join(lines)


def _inflate(raw: bytes, window_bits: int, max_size: int) -> bytes:
    try:
        return zlib.decompressobj(window_bits).decompress(raw, max_size)
    except zlib.error:
        return b""


def decode_base32(encoded: bytes) -> bytes | None:
    """Return the text in base32; None where there is none."""
    characters = encoded.rstrip(b"=")
    if len(characters) % 8 in (1, 3, 6):  # no such rest encodes whole bytes
        characters = characters[: len(characters) - len(characters) % 8]
    return _check_text(base64.b32decode(characters + b"=" * (-len(characters) % 8)))


def decode_hex(encoded: bytes) -> bytes | None:
    """Return the text in hexadecimal digits, also in dumps of xxd, hexdump and the like."""
    lines = list(_DUMP_LINE.finditer(encoded))
    if lines:
        return _check_text(b"".join(_iter_dump_bytes(lines)))
    return _check_text(_parse_hex(encoded))


def _iter_dump_bytes(lines: list[re.Match[bytes]]) -> Iterator[bytes]:
    """Yield the bytes of the lines of a dump; a smaller address begins another dump."""
    last_address = -1
    for line in lines:
        address = int(line[1], 16)
        if address <= last_address:
            yield b"\n"
        # xxd writes a colon after the address, and the text once more after two spaces.
        yield _parse_hex(line[3].partition(b"  ")[0] if line[2] else line[3])
        last_address = address


def _parse_hex(text: bytes) -> bytes:
    digits = _NOT_HEX.sub(b"", text)
    return bytes.fromhex(digits[: len(digits) & ~1].decode())


def decode_numbers(encoded: bytes) -> bytes | None:
    """Return the text in a list of byte values; None where one is no byte."""
    numbers = [int(digits) for digits in _DIGITS.findall(encoded)]
    return _check_text(bytes(numbers)) if max(numbers) < 256 else None


def _check_text(raw: bytes) -> bytes | None:
    """Return bytes that are mostly printable ASCII; None for others."""
    binary_size = len(raw.translate(None, _PRINTABLE))
    if not raw or binary_size > _MAX_BINARY_SHARE * len(raw):
        return None
    return raw.translate(SEPARATORS_TO_SPACES)
