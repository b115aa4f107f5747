"""Traversal of JSON values: every string, keys included; rewriting copies only what changes."""

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from open_token.jsontools.nesting import run_with_fresh_stack
from open_token.jsontools.objects import escape_pointer
from open_token.jsontools.splice import splice_json

MAX_DEPTH = 100
MAX_EMBEDDED_JSON = 1 << 20
MAX_EMBEDDING_DEPTH = 4

# How a key and its value are searched: see `collect_named_strings`.
SEARCH_VALUE, SKIP_VALUE, SEARCH_KEY, ID_VALUE, FILE_BYTES, SEARCH_KEY_OF_ID = range(6)
SEARCHED_KEYS = frozenset((SEARCH_KEY, SEARCH_KEY_OF_ID))
_ID_VALUES = frozenset((ID_VALUE, SEARCH_KEY_OF_ID))

MEDIA_TYPE_KEYS = frozenset(("media_type", "mimeType", "mime_type"))

# A string is searched together with the name of its position: `name NAME_END text`.
NAME_END = "\x01"
# The name of values that look like ids.
ID_NAME = "\x02"

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_INTEGER = 2**53 - 1
# Brackets are those of markers: an id of which a part is masked is an id still.
_ID_SHAPE = re.compile(r"[A-Za-z0-9_:.|/\[\]-]{1,200}")
_HEADER_SHAPE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{2,63}")
_BASE64_DATA = re.compile(r"[A-Za-z0-9+/_\r\n-]+={0,2}\s*")
_TEXT_TYPE = re.compile(r"text|json|xml|yaml|csv|script|toml|pem|pgp", re.IGNORECASE)
_MIN_FILE = 64
# How PDF, zip and gzip begin in base64.
_READABLE_STARTS = ("JVBERi0", "UEsDB", "H4sI")
_MAX_NAME = 64
_JSON_START = ("", "{", "[")
_MIN_EMBEDDED_JSON = 8
_KEY_END = re.compile(r'"\s*:')
_SEARCHED_TYPES = frozenset((str, dict, list, int))
# Shorter numbers are counts and sizes, not phone numbers or the like.
_MAX_SHORT_NUMBER = 9_999_999
_MIN_BYTE_LIST = 12
_FIRST_TEXT_BYTE = 9

ReportCoercion = Callable[[str, str], None]
"""Takes the JSON pointer and the kind of a value that had to become text."""


def iter_strings(value: Any, *, keys: bool = True) -> Iterator[str]:
    """Yield every string in a value in order, with or without the keys of its objects."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            for key, part in reversed(item.items()):
                stack.append(part)
                if keys:
                    stack.append(key)
        elif isinstance(item, list):
            stack.extend(reversed(item))


def iter_string_pointers(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield every string of a value except keys, with its JSON pointer."""
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from iter_string_pointers(item, f"{pointer}/{escape_pointer(key)}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from iter_string_pointers(item, f"{pointer}/{index}")


def map_strings(value: Any, change: Callable[[str], str], depth: int = 0) -> Any:
    """Return the value with every string, keys included, put through `change`."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, list | dict):
        return value
    if depth > MAX_DEPTH:
        return _map_strings_deep(value, change)
    return _map_container(value, change, lambda item: map_strings(item, change, depth + 1))


def _map_container(
    value: Any, change_key: Callable[[str], str], change_item: Callable[[Any], Any]
) -> Any:
    if isinstance(value, list):
        items = [change_item(item) for item in value]
        if all(map(operator.is_, items, value)):
            return value
        return items
    pairs = []
    is_same = True
    for key, item in value.items():
        new_key = change_key(key)
        new_item = change_item(item)
        is_same = is_same and new_key is key and new_item is item
        pairs.append((new_key, new_item))
    return value if is_same else _build_dict(pairs)


def _map_strings_deep(value: Any, change: Callable[[str], str]) -> Any:
    """Map from the inside out, for values nested deeper than one should recurse."""
    containers = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list | dict):
            containers.append(item)
            stack += item.values() if isinstance(item, dict) else item
    mapped: dict[int, Any] = {}

    def change_item(item: Any) -> Any:
        if isinstance(item, str):
            return change(item)
        return mapped.get(id(item), item)

    for container in reversed(containers):
        mapped[id(container)] = _map_container(container, change, change_item)
    return mapped[id(value)]


def _build_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; keys that became equal get a number, so that nothing is lost."""
    result: dict[str, Any] = {}
    for key, item in pairs:
        name = key
        number = 2
        while name in result:
            name = f"{key}#{number}"
            number += 1
        result[name] = item
    return result


def replace_lone_surrogates(value: Any) -> Any:
    """Return the value with U+FFFD for each lone surrogate, which UTF-8 cannot encode."""
    return map_strings(value, _replace_surrogates)


def _replace_surrogates(text: str) -> str:
    if _LONE_SURROGATE.search(text):
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text


def estimate_memory(value: Any) -> int:
    """Return roughly how many bytes of memory a value takes."""
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


def measure_normalized(value: Any, depth: int = 0) -> int:
    """Return roughly the memory that a value takes; -1 if it must be normalized first.

    It runs over every value of every event, so that both questions are answered in one walk.
    """
    if depth >= MAX_DEPTH:
        return -1
    kind = type(value)
    if kind is dict:
        total = 64 + 100 * len(value)
        items = value.values()
    elif kind is list:
        total = 56 + 8 * len(value)
        items = value
    else:
        total = 0
        items = (value,)
    for item in items:
        kind = type(item)
        if kind is str:
            total += item.__sizeof__()
        elif kind is dict or kind is list:
            inner = measure_normalized(item, depth + 1)
            if inner < 0:
                return -1
            total += inner
        elif kind is int:
            if not -_MAX_INTEGER <= item <= _MAX_INTEGER:
                return -1
        elif kind is float and item - item != 0:  # infinite or not a number
            return -1
    return total


def normalize_json_values(
    value: Any, report: ReportCoercion, pointer: str = "", depth: int = 0
) -> Any:
    """Return JSON that all implementations parse alike.

    Large integers, numbers that are not finite, and deeply nested containers become text, and are
    reported with their JSON pointer.
    """
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        report(pointer, "nesting")
        return run_with_fresh_stack(msgspec.json.encode, value).decode()
    if isinstance(value, dict):
        changed = None
        for key, item in value.items():
            kind = type(item)
            # Most values need no call.
            if kind is str or kind is bool or item is None:
                continue
            if kind is int and -_MAX_INTEGER <= item <= _MAX_INTEGER:
                continue
            inner_pointer = f"{pointer}/{escape_pointer(key)}"
            normalized = normalize_json_values(item, report, inner_pointer, depth + 1)
            if normalized is not item:
                if changed is None:
                    changed = dict(value)
                changed[key] = normalized
        return value if changed is None else changed
    if isinstance(value, list):
        items = [
            normalize_json_values(item, report, f"{pointer}/{index}", depth + 1)
            for index, item in enumerate(value)
        ]
        if all(map(operator.is_, items, value)):
            return value
        return items
    return _normalize_number(value, report, pointer)


def _normalize_number(value: Any, report: ReportCoercion, pointer: str) -> Any:
    kind = type(value)
    if kind is int and not -_MAX_INTEGER <= value <= _MAX_INTEGER:
        report(pointer, "integer")
        return str(value)
    if kind is float and value - value != 0:
        report(pointer, "number")
        return str(value)
    return value


def prefix_name(name: str, text: str) -> str:
    """Return a string as it is searched: after the name of its position, if it has one."""
    if name:
        return f"{name.replace(NAME_END, ' ')}{NAME_END}{text}"
    if NAME_END in text:
        return NAME_END + text
    return text


def collect_named_strings(
    value: Any,
    keys: Mapping[str, int],
    out: list[str],
    name: str = "",
    embedded: int = 0,
) -> None:
    """Append every string and long number of a value to `out`, after the name of its position.

    `keys` says how each key is treated: SEARCH_VALUE searches the value, SKIP_VALUE neither key nor
    value, SEARCH_KEY the key as well, ID_VALUE an id as an id, SEARCH_KEY_OF_ID an id and its key,
    FILE_BYTES the value unless it is the content of a file. JSON inside strings, and text written
    as a list of its bytes, are searched, too.
    """
    kind = type(value)
    if kind is dict:
        _collect_from_object(value, keys, out, embedded)
    elif kind is list:
        text = _decode_byte_list(value)
        if text:
            out.append(prefix_name(name, text))
            return
        for index, item in enumerate(value):
            if type(item) in _SEARCHED_TYPES and item:
                item_name = _name_list_item(value, index, name)
                collect_named_strings(item, keys, out, item_name, embedded)
    elif kind is str:
        # The cheap conditions come first: nearly all strings fail the first one.
        inner = None
        if value[:1] in _JSON_START and embedded < MAX_EMBEDDING_DEPTH:
            inner = parse_embedded_json(value)
        if inner is not None:
            collect_named_strings(inner, keys, out, name, embedded + 1)
        elif value:
            out.append(prefix_name(name, value))
    elif kind is int and value > _MAX_SHORT_NUMBER:
        out.append(prefix_name(name, str(value)))


def _collect_from_object(
    value: dict[str, Any], keys: Mapping[str, int], out: list[str], embedded: int
) -> None:
    # The hot loop of redaction: plain strings under plain keys are appended without a call.
    pair_name = _find_pair_name(value) if "value" in value else ""
    for key, item in value.items():
        treatment = keys[key]
        kind = type(item)
        if treatment or pair_name:
            if treatment == SKIP_VALUE and not embedded and kind is str and " " not in item:
                continue
            if treatment in SEARCHED_KEYS:
                out.append(prefix_name("", key))
            if not _is_skipped(treatment, value, item, embedded):
                name = _name_value(value, key, pair_name, treatment)
                collect_named_strings(item, keys, out, name, embedded)
        elif kind is str:
            if item[:1] not in _JSON_START:
                out.append(f"{key}\x01{item}")
            elif item:
                collect_named_strings(item, keys, out, key, embedded)
        elif kind in _SEARCHED_TYPES and item:
            collect_named_strings(item, keys, out, key, embedded)


def rewrite_named_strings(
    value: Any,
    keys: Mapping[str, int],
    change: Callable[[str, str], str],
    name: str = "",
    embedded: int = 0,
) -> Any:
    """Return the value with all that `collect_named_strings` finds put through `change`.

    `change` takes the name and the text. What stays the same is not copied.
    """
    kind = type(value)
    if kind is dict:
        return _rewrite_object(value, keys, change, embedded)
    if kind is list:
        return _rewrite_list(value, keys, change, name, embedded)
    if kind is str and value:
        inner = parse_embedded_json(value) if embedded < MAX_EMBEDDING_DEPTH else None
        if inner is None:
            return change(name, value)
        new = rewrite_named_strings(inner, keys, change, name, embedded + 1)
        return value if new is inner else render_embedded_json(value, inner, new)
    if kind is int and value > _MAX_SHORT_NUMBER:
        text = str(value)
        changed = change(name, text)
        return value if changed == text else changed
    return value


def _rewrite_list(
    value: list[Any],
    keys: Mapping[str, int],
    change: Callable[[str, str], str],
    name: str,
    embedded: int,
) -> Any:
    text = _decode_byte_list(value)
    if text:
        changed = change(name, text)
        return value if changed == text else changed
    items = []
    for index, item in enumerate(value):
        item_name = _name_list_item(value, index, name)
        items.append(rewrite_named_strings(item, keys, change, item_name, embedded))
    if all(map(operator.is_, items, value)):
        return value
    return items


def _rewrite_object(
    value: dict[str, Any],
    keys: Mapping[str, int],
    change: Callable[[str, str], str],
    embedded: int,
) -> Any:
    pair_name = _find_pair_name(value) if "value" in value else ""
    pairs = []
    is_same = True
    for key, item in value.items():
        treatment = keys[key]
        new_item = item
        if type(item) in _SEARCHED_TYPES and not _is_skipped(treatment, value, item, embedded):
            name = _name_value(value, key, pair_name, treatment)
            new_item = rewrite_named_strings(item, keys, change, name, embedded)
        new_key = change("", key) if treatment in SEARCHED_KEYS else key
        is_same = is_same and new_item is item and new_key is key
        pairs.append((new_key, new_item))
    return value if is_same else _build_dict(pairs)


def _is_skipped(treatment: int, parent: dict[str, Any], item: Any, embedded: int) -> bool:
    """Return whether a value is not searched.

    In JSON that is somebody's text, a key does not say that a value is opaque.
    """
    if treatment == SKIP_VALUE and embedded and isinstance(item, str):
        return False
    if treatment == SKIP_VALUE:
        # Signatures and hashes are one word; text and nested values only share the key.
        if isinstance(item, dict | list):
            return False
        return not (isinstance(item, str) and " " in item)
    if treatment in _ID_VALUES:
        return isinstance(item, int)
    if treatment == FILE_BYTES:
        return isinstance(item, str) and is_binary_file(parent, item)
    return False


def is_binary_file(parent: dict[str, Any], data: str) -> bool:
    """Return whether `data` is the base64 of a file in which no text can be found: an image,
    audio or video."""
    if not any(key in parent for key in MEDIA_TYPE_KEYS) and parent.get("type") != "base64":
        return False
    if len(data) < _MIN_FILE or data.startswith(_READABLE_STARTS):
        return False
    if not _BASE64_DATA.fullmatch(data):
        return False
    media_types = [parent.get(key) for key in MEDIA_TYPE_KEYS]
    return not any(isinstance(item, str) and _TEXT_TYPE.search(item) for item in media_types)


def _name_value(parent: dict[str, Any], key: str, pair_name: str, treatment: int) -> str:
    """Return the name of the value under a key: the key, the name of a pair, or that of ids."""
    if treatment in _ID_VALUES or treatment == SKIP_VALUE:
        item = parent[key]
        if isinstance(item, str) and _ID_SHAPE.fullmatch(item):
            return ID_NAME
    if pair_name and key == "value":
        return pair_name
    return key


def _find_pair_name(parent: dict[str, Any]) -> str:
    """Return what {"name": "X", "value": "..."} calls its value."""
    name = parent.get("name") or parent.get("key") or parent.get("header")
    if isinstance(name, str) and len(name) <= _MAX_NAME:
        return name
    return ""


def _name_list_item(items: list[Any], index: int, name: str) -> str:
    """Name an item by the flag before it, by the first of a pair, or like its list."""
    if not index or not isinstance(items[index], str):
        return name
    previous = items[index - 1]
    if not isinstance(previous, str):
        return name
    is_flag = previous[:1] == "-" and len(previous) <= _MAX_NAME
    is_header = len(items) == 2 and _HEADER_SHAPE.fullmatch(previous) is not None
    return previous if is_flag or is_header else name


def _decode_byte_list(items: list[Any]) -> str:
    """Return the text whose bytes a list holds, as Node writes a buffer; empty if it is no text."""
    if len(items) < _MIN_BYTE_LIST or type(items[0]) is not int:
        return ""
    try:
        raw = bytes(items)
    except (TypeError, ValueError):
        return ""
    if raw.isascii() and min(raw) >= _FIRST_TEXT_BYTE:
        return raw.decode()
    return ""


def parse_embedded_json(text: str) -> Any:
    """Return the object or array that a string holds as JSON; None if it holds none."""
    if text[:1] not in ("{", "[") or text[-1] not in "}]":
        return None
    if not _MIN_EMBEDDED_JSON <= len(text) <= MAX_EMBEDDED_JSON:
        return None
    try:
        inner = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if not isinstance(inner, dict | list) or not inner:
        return None
    key_count = _count_keys(inner)
    # A key that occurs twice hides the first of its values; such text is no object.
    if key_count < 0 or (len(_KEY_END.findall(text)) > key_count and _has_equal_keys(text)):
        return None
    return inner


def _count_keys(value: Any) -> int:
    """Return how many keys the objects of a value have; -1 if it is nested too deep."""
    total = 0
    level = [value]
    for _ in range(MAX_DEPTH):
        below = []
        for container in level:
            if isinstance(container, dict):
                total += len(container)
                items = container.values()
            else:
                items = container
            below += [item for item in items if isinstance(item, dict | list)]
        if not below:
            return total
        level = below
    return -1


def _has_equal_keys(text: str) -> bool:
    """Return whether an object of a JSON text has a key twice."""
    has_equal = False

    def compare(pairs: list[tuple[str, Any]]) -> None:
        nonlocal has_equal
        has_equal = has_equal or len(dict(pairs)) < len(pairs)

    json.loads(text, object_pairs_hook=compare, strict=False)
    return has_equal


def render_embedded_json(text: str, inner: Any, new: Any) -> str:
    """Return JSON text with the changes from `inner` to `new`; its layout stays as it is."""
    spliced = splice_json(text, inner, new)
    return msgspec.json.encode(new).decode() if spliced is None else spliced
