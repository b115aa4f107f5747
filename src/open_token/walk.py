"""The only traversal: reaches every string of a value, also keys, and rebuilds only what
changed."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from open_token.nesting import afresh

MAX_DEPTH = 100
_LONE = re.compile("[\ud800-\udfff]")
_SAFE = 2**53 - 1


def strings(value: Any) -> Iterator[str]:
    """Every string in a value, keys included, in order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                stack.append(part)
                stack.append(key)
        elif isinstance(item, list):
            stack.extend(reversed(item))


def rewrite(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """The value with every string, keys included, put through change; parts that stay the same are
    not copied."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, list | dict):
        return value
    if depth > MAX_DEPTH:
        return _rewrite_deep(value, change)
    return _rewritten(value, change, lambda item: rewrite(item, change, depth + 1))


def _rewritten(value: Any, change: Callable[[str], str], inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        new = [inner(item) for item in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    pairs = [(change(key), inner(item)) for key, item in value.items()]
    if all(k is key and v is value[key] for (k, v), key in zip(pairs, value, strict=True)):
        return value
    return _without_clashes(pairs)


def _rewrite_deep(value: Any, change: Callable[[str], str]) -> Any:
    """The same from the inside out, for what is nested deeper than one should recurse."""
    held, left = [], [value]
    while left:
        item = left.pop()
        if isinstance(item, list | dict):
            held.append(item)
            left += item.values() if isinstance(item, dict) else item
    made: dict[int, Any] = {}

    def inner(item: Any) -> Any:
        return change(item) if isinstance(item, str) else made.get(id(item), item)

    for item in reversed(held):
        made[id(item)] = _rewritten(item, change, inner)
    return made[id(value)]


def _without_clashes(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keys that became the same get a number, so that nothing is lost."""
    made: dict[str, Any] = {}
    for key, item in pairs:
        name, number = key, 2
        while name in made:
            name, number = f"{key}#{number}", number + 1
        made[name] = item
    return made


def without_lone_surrogates(value: Any) -> Any:
    """Each lone surrogate becomes U+FFFD: no UTF-8 can carry it."""
    return rewrite(value, _mend)


def _mend(text: str) -> str:
    return _LONE.sub("\ufffd", text) if _LONE.search(text) else text


def survey(value: Any, depth: int = 0) -> int:
    """About what JSON data costs in memory, in bytes; below 0 when something in it must be settled
    first."""
    if depth >= MAX_DEPTH:
        return -1
    kind = type(value)
    if kind is dict:
        total, items = 64 + 100 * len(value), value.values()
    elif kind is list:
        total, items = 56 + 8 * len(value), value
    else:
        total, items = 0, (value,)
    for item in items:
        kind = type(item)
        if kind is str:
            total += item.__sizeof__()
        elif kind is dict or kind is list:
            inner = survey(item, depth + 1)
            if inner < 0:
                return -1
            total += inner
        elif (kind is int and not -_SAFE <= item <= _SAFE) or (kind is float and item - item != 0):
            return -1
    return total


def settle(value: Any, found: Callable[[str, str], None], pointer: str = "", depth: int = 0) -> Any:
    """JSON that all implementations read alike: big integers and such become text, told by pointer
    and kind."""
    if isinstance(value, dict):
        if depth >= MAX_DEPTH:
            found(pointer, "nesting")
            return _as_text(value)
        new = None
        for key, item in value.items():
            kind = type(item)
            if (
                kind is str
                or kind is bool
                or item is None
                or (kind is int and -_SAFE <= item <= _SAFE)
            ):
                continue
            settled = settle(item, found, f"{pointer}/{_escape(key)}", depth + 1)
            if settled is not item:
                new = dict(value) if new is None else new
                new[key] = settled
        return value if new is None else new
    if isinstance(value, list):
        if depth >= MAX_DEPTH:
            found(pointer, "nesting")
            return _as_text(value)
        items = [settle(item, found, f"{pointer}/{n}", depth + 1) for n, item in enumerate(value)]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return _settle_number(value, found, pointer)


def _as_text(value: Any) -> str:
    """Data that is nested too deep to stay data, as the JSON that it is."""
    return afresh(msgspec.json.encode, value).decode()


def _settle_number(value: Any, found: Callable[[str, str], None], pointer: str) -> Any:
    kind = type(value)
    if kind is int and not -_SAFE <= value <= _SAFE:
        found(pointer, "integer")
        return str(value)
    if kind is float and (value != value or value in (float("inf"), float("-inf"))):
        found(pointer, "number")
        return str(value)
    return value


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def pointed(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Every string of a value that is no key, with the JSON pointer to it."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from pointed(item, f"{pointer}/{_escape(key)}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from pointed(item, f"{pointer}/{number}")


def weight(value: Any) -> int:
    """About what a value costs in memory, in bytes."""
    total = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            total += item.__sizeof__()
        elif isinstance(item, dict):
            total += 64 + 100 * len(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            total += 56 + 8 * len(item)
            stack.extend(item)
        else:
            total += 28
    return total


# How a key and the value under it are searched: the value behind its key; neither; the key as well;
# a value that looks like an id as an id; the value unless its neighbours say that it is a file.
PLAIN, KEPT, ODD, ID, BYTES = range(5)
NAME_END = "\x01"
ID_NAME = "\x02"
MAX_UNFOLDED = 1 << 20
MAX_FOLDS = 4
_ID_SHAPE = re.compile(r"[A-Za-z0-9_:.|/-]{1,200}")
_HEADER_SHAPE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{2,63}")


def named(name: str, text: str) -> str:
    """A string as it is searched: behind the name of its place, if it has one."""
    if name:
        return f"{name.replace(NAME_END, ' ')}{NAME_END}{text}"
    return NAME_END + text if NAME_END in text else text


def named_strings(
    value: Any,
    keys: Mapping[str, int],
    out: list[str],
    name: str = "",
    eager: bool = False,
    folds: int = 0,
) -> None:
    """Every string and every long number of a value behind the name of its place, also inside JSON
    that a string holds and as a list of its bytes.

    JSON without escapes reads the same in its string, so it is taken apart only if eager."""
    kind = type(value)
    if kind is dict:
        pair = _pair_name(value) if "value" in value else ""
        for key, item in value.items():
            kind = type(item)
            if keys[key] or pair:
                if keys[key] != KEPT or kind is not str or " " in item:
                    _odd_strings(value, key, pair, keys, out, eager, folds)
            elif kind is str:
                if item[:1] not in _OPENING:
                    out.append(f"{key}\x01{item}")
                elif item:
                    named_strings(item, keys, out, key, eager, folds)
            elif kind in _SEARCHED and item:
                named_strings(item, keys, out, key, eager, folds)
    elif kind is list:
        if len(value) >= _MANY and (said := _said_in_bytes(value)):
            out.append(named(name, said))
            return
        for number, item in enumerate(value):
            if type(item) in _SEARCHED and item:
                named_strings(item, keys, out, _item_name(value, number, name), eager, folds)
    elif kind is str:
        inner = (
            unfold(value)
            if value[:1] in _OPENING and folds < MAX_FOLDS and (eager or "\\" in value)
            else None
        )
        if inner is not None:
            named_strings(inner, keys, out, name, eager, folds + 1)
        elif value:
            out.append(named(name, value))
    elif kind is int and value > _SHORT_NUMBER:
        out.append(named(name, str(value)))


_OPENING = ("", "{", "[")
_SEARCHED = frozenset((str, dict, list, int))
_SHORT_NUMBER = 9_999_999
_MANY, _FIRST_LETTER = 12, 9


def _said_in_bytes(items: list[Any]) -> str:
    """The text whose bytes a list holds as numbers, as Node writes a buffer; nothing where it is no
    text."""
    if type(items[0]) is not int:
        return ""
    try:
        raw = bytes(items)
    except (TypeError, ValueError):
        return ""
    return raw.decode() if raw.isascii() and min(raw) >= _FIRST_LETTER else ""


def _odd_strings(
    holder: dict[str, Any],
    key: str,
    pair: str,
    keys: Mapping[str, int],
    out: list[str],
    eager: bool,
    folds: int,
) -> None:
    if keys[key] == ODD:
        out.append(named("", key))
    if not _is_kept(keys[key], holder, holder[key]):
        named_strings(holder[key], keys, out, _name_of(holder, key, pair, keys), eager, folds)


def rewrite_named(
    value: Any,
    keys: Mapping[str, int],
    change: Callable[[str, str], str],
    name: str = "",
    folds: int = 0,
) -> Any:
    """The value with all that named_strings tells put through change; what stays the same is not
    copied."""
    if isinstance(value, str):
        inner = unfold(value) if value and folds < MAX_FOLDS else None
        if inner is None:
            return change(name, value) if value else value
        new = rewrite_named(inner, keys, change, name, folds + 1)
        return value if new is inner else fold(new, value)
    if type(value) is int and value > _SHORT_NUMBER:
        text = str(value)
        changed = change(name, text)
        return value if changed == text else changed
    if isinstance(value, list):
        if len(value) >= _MANY and (said := _said_in_bytes(value)):
            changed = change(name, said)
            return value if changed == said else changed
        items = [
            rewrite_named(item, keys, change, _item_name(value, number, name), folds)
            for number, item in enumerate(value)
        ]
        return value if all(map(operator.is_, items, value)) else items
    if isinstance(value, dict):
        pair = _pair_name(value) if "value" in value else ""
        pairs, is_same = [], True
        for key, item in value.items():
            treatment = keys[key]
            new_key, new = key, item
            if type(item) in _SEARCHED and (not treatment or not _is_kept(treatment, value, item)):
                new = rewrite_named(item, keys, change, _name_of(value, key, pair, keys), folds)
            if treatment == ODD:
                new_key = change("", key)
            is_same = is_same and new is item and new_key is key
            pairs.append((new_key, new))
        return value if is_same else _without_clashes(pairs)
    return value


def _is_kept(treatment: int, holder: dict[str, Any], item: Any) -> bool:
    if (
        treatment == KEPT
    ):  # what is sealed is one run of letters; words, and values with parts, only bear the name
        return not isinstance(item, dict | list) and not (isinstance(item, str) and " " in item)
    if treatment == ID:
        return isinstance(item, int)
    if treatment == BYTES:
        return isinstance(item, str) and (
            holder.get("type") == "base64"
            or "media_type" in holder
            or "mimeType" in holder
            or "mime_type" in holder
        )
    return False


def _name_of(holder: dict[str, Any], key: str, pair: str, keys: Mapping[str, int]) -> str:
    """What the value under a key is called: by the key, by the name in a pair, or only an id."""
    item = holder[key]
    if keys[key] == ID and isinstance(item, str) and _ID_SHAPE.fullmatch(item):
        return ID_NAME
    return pair if pair and key == "value" else key


def _pair_name(holder: dict[str, Any]) -> str:
    """What {"name": "X", "value": "..."} calls its value."""
    name = holder.get("name") or holder.get("key") or holder.get("header")
    return name if isinstance(name, str) and len(name) <= 64 else ""


def _item_name(items: list[Any], number: int, name: str) -> str:
    """An item of a list is named by the flag before it, by the first of a pair, or as the list
    is."""
    if number and isinstance(items[number], str) and isinstance(before := items[number - 1], str):
        if before[:1] == "-" and len(before) <= 64:
            return before
        if len(items) == 2 and _HEADER_SHAPE.fullmatch(before):
            return before
    return name


def unfold(text: str) -> Any:
    """The object or array that a string holds as JSON; None when it holds none."""
    if text[:1] not in ("{", "[") or text[-1] not in "}]" or not 8 <= len(text) <= MAX_UNFOLDED:
        return None
    try:
        inner = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return inner if isinstance(inner, dict | list) and inner and _is_shallow(inner) else None


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            for item in (holder.values() if isinstance(holder, dict) else holder)
            if isinstance(item, dict | list)
        ]
        if not level:
            return True
    return False


def fold(value: Any, before: str) -> str:
    """A value as JSON text, indented if it was so before."""
    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=2) if before[1:2] in "\r\n" else text).decode()
