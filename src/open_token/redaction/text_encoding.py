"""Convert between str and UTF-8 bytes without shifting a position."""

import codecs
from typing import cast

_SAME_LENGTH = "open_token.same_length"


def encode_all(texts: list[str]) -> list[bytes]:
    """Encode texts; lone surrogates are kept."""
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return list(map(encode_text, texts))


def encode_text(text: str) -> bytes:
    """Encode a text; lone surrogates are kept."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def decode_padded(data: bytes) -> str:
    """Decode bytes that may be cut within a character; the result encodes to as many bytes."""
    return data.decode("utf-8", _SAME_LENGTH)


def _pad_invalid_bytes(problem: UnicodeError) -> tuple[str, int]:
    """Replace each invalid byte with one ASCII character, so that all positions stay the same."""
    error = cast(UnicodeDecodeError, problem)
    return "\x1a" * (error.end - error.start), error.end


codecs.register_error(_SAME_LENGTH, _pad_invalid_bytes)
