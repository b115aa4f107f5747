"""XML, HTML and property lists: names of elements and of attributes, and names within them."""

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair, strip_span

_MAX_TAG = 512
_MAX_CONTENT = 4_096
_MAX_CHILDREN = 64
_OPENING = lazy_compile(rb"<(?:[\w.-]{1,32}:)?$")
_ASSIGNED = lazy_compile(rb"[ \t]*=[ \t]*(?:\"([^\"<>]*)\"|'([^'<>]*)')")
_VALUE_ATTRIBUTE = lazy_compile(
    rb"\b(?:value|content|default|string|text)[ \t]*=[ \t]*(?:\"([^\"<>]*)\"|'([^'<>]*)')"
)
# Elements whose content is the name of the element behind them, as in property lists.
_NAME_ELEMENT = lazy_compile(rb"<(?:key|name|[\w-]{1,24}-name|id)\b[^<>]{0,64}>[ \t]*$")
_CDATA = lazy_compile(rb"\s*<!\[CDATA\[(.*?)\]\]>", 16)
_CHILD = lazy_compile(rb"\s*<([A-Za-z][\w.:-]{0,63})[^<>]{0,256}>([^<>]{1,1024})</[^<>]{1,96}>")
_PLURAL = lazy_compile(rb"(?i)(?:secrets|tokens|passwords|passwds|keys|credentials)$")
_QUOTES = (b'"', b"'")


def list_pairs(name: Name) -> list[Pair]:
    """Return the pairs of a name in markup."""
    text, start, end = name.text, name.start, name.end
    previous = text[start - 1 : start]
    near = text[max(0, start - 40) : start]
    if previous in (b"<", b":") and _OPENING.search(near):
        return _list_of_element(name)
    if previous == b">" and text.startswith(b"</", end):
        return _list_of_sibling(name)
    tag_start = text.rfind(b"<", max(0, start - _MAX_TAG), start)
    if tag_start < 0 or not text[tag_start + 1 : tag_start + 2].isalpha():
        return []
    if text.find(b">", tag_start, start) >= 0:
        return []
    assigned = _ASSIGNED.match(text, end, end + _MAX_CONTENT)
    if assigned and previous.isspace():
        group = 1 if assigned[1] is not None else 2
        return [Pair(name.word, *assigned.span(group))]
    if previous in _QUOTES and text[end : end + 1] == previous:
        return _list_of_named_tag(name, tag_start)
    return []


def _list_of_element(name: Name) -> list[Pair]:
    """Return the content of an element, or of its children if it contains several secrets."""
    text = name.text
    tag_end = text.find(b">", name.end, name.end + _MAX_TAG)
    if tag_end < 0:
        return []
    value = _VALUE_ATTRIBUTE.search(text, name.end, tag_end)
    if value:
        return [Pair(name.word, *value.span(1 if value[1] is not None else 2))]
    if text[tag_end - 1 : tag_end] == b"/":
        return []
    pairs = _list_content(name.word, text, tag_end + 1)
    return pairs or _list_children(name.word, text, tag_end + 1)


def _list_of_sibling(name: Name) -> list[Pair]:
    """Return the content of the element behind one that is a name."""
    text = name.text
    if _NAME_ELEMENT.search(text[max(0, name.start - 100) : name.start]) is None:
        return []
    closing = text.find(b">", name.end, name.end + _MAX_TAG)
    child = _CHILD.match(text, closing + 1, closing + _MAX_CONTENT) if closing > 0 else None
    return [Pair(name.word, *strip_span(text, *child.span(2)))] if child else []


def _list_of_named_tag(name: Name, tag_start: int) -> list[Pair]:
    """Return the value of a tag that has a name as an attribute."""
    text = name.text
    tag_end = text.find(b">", name.end, name.end + _MAX_TAG)
    if tag_end < 0:
        return []
    value = _VALUE_ATTRIBUTE.search(text, tag_start, tag_end)
    if value:
        return [Pair(name.word, *value.span(1 if value[1] is not None else 2))]
    if text[tag_end - 1 : tag_end] == b"/":
        return []
    return _list_content(name.word, text, tag_end + 1)


def _list_content(word: bytes, text: bytes, start: int) -> list[Pair]:
    """Return the text of an element, or that of the one element in it."""
    data = _CDATA.match(text, start, start + _MAX_CONTENT)
    if data:
        return [Pair(word, *data.span(1))]
    end = text.find(b"<", start, start + _MAX_CONTENT)
    if end < 0:
        return []
    span = strip_span(text, start, end)
    if text.startswith(b"</", end):
        return [Pair(word, *span)] if span[0] < span[1] else []
    child = _CHILD.match(text, start, start + _MAX_CONTENT)
    if child and child[1] in (b"value", b"string", b"text"):
        return [Pair(word, *strip_span(text, *child.span(2)))]
    return []


def _list_children(word: bytes, text: bytes, start: int) -> list[Pair]:
    """Return the elements of a list of secrets."""
    pairs: list[Pair] = []
    if _PLURAL.search(word) is None:
        return pairs
    last = start + _MAX_CONTENT
    child = _CHILD.match(text, start, last)
    while child and len(pairs) < _MAX_CHILDREN:
        pairs.append(Pair(child[1], *strip_span(text, *child.span(2)), word))
        child = _CHILD.match(text, child.end(), last)
    return pairs
