"""URLs: parameters of the query and of the fragment, and parts of the path that let people in."""

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair

_PARAMETER = lazy_compile(rb"=([^\s&#;\"'<>`\\)\]]+)")
_SEGMENT = lazy_compile(rb"[/-]([^\s/?&#;\"'<>`\\)\](]+)")
_REACH = 512
_URL_BEFORE = lazy_compile(rb"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'<>`\\]*$")
_PATH = lazy_compile(rb"[\w.:-]{1,100}(?:/[\w.~-]{1,200}){0,8}?/([\w.~-]{12,200})(?![\w.~/-])")


def list_pairs(name: Name) -> list[Pair]:
    """Return the parameter of a name in a URL, or the part of the path behind it."""
    text = name.text
    previous = text[name.start - 1 : name.start]
    if previous in (b"?", b"&", b"#", b";"):
        value = _PARAMETER.match(text, name.end, name.line_end)
        if value and previous != b";":
            return [Pair(name.word, *value.span(1), b"link")]
        return []
    if previous != b"/" or not _URL_BEFORE.search(text[max(0, name.start - _REACH) : name.start]):
        return []
    if text[name.end : name.end + 1] == b".":
        return _list_last_segment(name)
    segment = _SEGMENT.match(text, name.end, name.line_end)
    return [Pair(name.word, *segment.span(1), b"path")] if segment else []


def _list_last_segment(name: Name) -> list[Pair]:
    """Return the last part of the path of a host whose name says what its paths are."""
    path = _PATH.match(name.text, name.end, name.line_end)
    return [Pair(name.word, *path.span(1), b"path")] if path else []
