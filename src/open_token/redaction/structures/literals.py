"""Strings in programs: a name, a sign, and a quoted value."""

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair

_ASSIGNED = lazy_compile(
    rb"\\{0,3}[\"'`]?[\])]?[ \t]*(?::[ \t]*str(?:ing)?[ \t]*)?(?:=>|:=|[:=,])[ \t]*"
    rb"(?:\"([^\"\\\r\n]{4,128})\"|'([^'\\\r\n]{4,128})')[ \t]*(?:[,;)}\]]|$|[ \t]\w|#|//)"
)
_STRING_BEFORE = lazy_compile(rb"[\"']$")
_CALL_BEFORE = lazy_compile(rb"\([ \t]*[\"']$")


def list_pairs(name: Name) -> list[Pair]:
    """Return the string that a program gives to a name."""
    assigned = _ASSIGNED.match(name.text, name.end, name.line_end)
    if assigned is None:
        return []
    value = assigned.span(1 if assigned[1] is not None else 2)
    if b"," not in name.text[name.end : value[0]]:
        return [Pair(name.word, *value)]
    if not _STRING_BEFORE.search(name.before[-4:]):
        return []
    # The string behind a name in a list is perhaps another name.
    is_argument = _CALL_BEFORE.search(name.before[-4:]) is not None
    return [Pair(name.word, *value, b"" if is_argument else b"list")]
