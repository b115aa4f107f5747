"""Names and values in one line: connection strings, forms and cookies."""

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair, strip_span

_VALUE = lazy_compile(rb"[ \t]*=[ \t]*(\"[^\"\r\n]*\"|'[^'\r\n]*'|[^;&\s\"'<>`\\]+)")
_KEY_BEFORE = lazy_compile(rb"[;&?][ \t]*$")
# In a connection string of libpq, spaces separate the pairs.
_SPACED_KEYS = lazy_compile(
    rb"(?i)\b(?:host|hostaddr|user|dbname|port|server|uid|username|login|database)=[^\s=]"
)
_COOKIE = lazy_compile(rb"(?i)(?:set-?)?cookies?$")
_COOKIE_START = lazy_compile(rb"[\"']?[ \t]*[:=][ \t]*\\{0,3}[\"'`]?")
_COOKIE_PAIR = lazy_compile(rb"[ \t]*([\w.%-]{1,80})=([^;\s\"'\\,]{0,4096})(?:;|(?=[\s\"'\\,])|$)")
_MAX_COOKIES = 64
_REACH = 256


def list_pairs(name: Name) -> list[Pair]:
    """Return the value of a name in a connection string or a form, or all cookies of a header."""
    if _COOKIE.search(name.word):
        return _list_cookies(name)
    value = _VALUE.match(name.text, name.end, name.line_end)
    if value is None:
        return []
    following = name.text[value.end(1) : value.end(1) + 1]
    is_joined = following in (b";", b"&") or _KEY_BEFORE.search(name.before[-8:])
    quote = name.text[name.start - 1 : name.start]
    is_quoted = quote in (b'"', b"'") and following == quote
    if not (is_joined or is_quoted) and not _has_spaced_keys(name, value.end(1)):
        return []
    return [Pair(name.word, *strip_span(name.text, *value.span(1)))]


def _has_spaced_keys(name: Name, end: int) -> bool:
    """Return whether other pairs of a connection string stand on the line."""
    if name.before[-1:] not in (b" ", b'"', b"'", b""):
        return False
    around = name.before[-_REACH:] + b" " + name.text[end : min(end + _REACH, name.line_end)]
    return len(_SPACED_KEYS.findall(around)) >= 2


def _list_cookies(name: Name) -> list[Pair]:
    start = _COOKIE_START.match(name.text, name.end, name.line_end)
    if start is None:
        return []
    pairs: list[Pair] = []
    position = start.end()
    while len(pairs) < _MAX_COOKIES:
        cookie = _COOKIE_PAIR.match(name.text, position, name.line_end)
        if cookie is None:
            break
        pairs.append(Pair(cookie[1], *cookie.span(2), b"cookie"))
        position = cookie.end()
    return pairs
