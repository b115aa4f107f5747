"""Between letters and bytes, both ways, without loss of a place."""

import codecs
from typing import cast

_AS_LONG = "open_token.as_long"


def all_encoded(texts: list[str]) -> list[bytes]:
    try:
        return list(map(str.encode, texts))
    except UnicodeEncodeError:
        return list(map(encoded, texts))


def encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Text of bytes that may begin or end within a letter or hold what is none; it is as long in
    bytes again."""
    return data.decode("utf-8", _AS_LONG)


def _as_long(problem: UnicodeError) -> tuple[str, int]:
    """A sign for each byte that is no letter, so that all others stand where they stood."""
    start, end = cast(UnicodeDecodeError, problem).start, cast(UnicodeDecodeError, problem).end
    return "\x1a" * (end - start), end


codecs.register_error(_AS_LONG, _as_long)
