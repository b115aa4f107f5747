"""The pieces that rows are opened to: long texts, lists of keys and values, images, differences."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from open_token.pages._escaped import escaped
from open_token.pages._patches import Change
from open_token.pages.differences import Line, middle_of, near

_LONG, _FIRST, _LAST = 400, 60, 20
_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_KEYS = 500
_WIDEST_MIDDLE = 2_000


def folded(text: str, show: Callable[[str], str] = escaped, classes: str = "") -> str:
    """Text as it was written; of a long one the start and the end, with the rest one click away."""
    named = f' class="{classes}"' if classes else ""
    lines = text.split("\n")
    if len(lines) <= _LONG:
        return f"<pre{named}>{show(text)}</pre>"
    head, middle, tail = lines[:_FIRST], lines[_FIRST:-_LAST], lines[-_LAST:]
    first, rest, end = (
        f"<pre{named}>{show(chr(10).join(part))}</pre>" for part in (head, middle, tail)
    )
    return first + _more(len(middle), rest) + end


def _more(count: int, body: str) -> str:
    return f'<details class="more"><summary>show {count:,} more lines</summary>{body}</details>'


def pairs(value: Any) -> str:
    """A value as a list of keys and values."""
    if not isinstance(value, dict):
        return f"<pre>{escaped(as_text(value))}</pre>"
    if not value:
        return ""
    shown = "".join(
        f"<dt>{escaped(str(key))}</dt><dd>{_value(part)}</dd>" for key, part in _some(value)
    )
    more = f"<p>and {len(value) - _KEYS:,} more keys</p>" if len(value) > _KEYS else ""
    return f"<dl>{shown}</dl>{more}"


def _some(value: dict[Any, Any]) -> list[tuple[Any, Any]]:
    return list(value.items())[:_KEYS]


def _value(part: Any) -> str:
    if isinstance(part, str):
        return folded(part) if "\n" in part else escaped(part)
    if isinstance(part, dict) and "base64" in part:
        return media(part)
    return folded(as_text(part)) if isinstance(part, dict | list) else escaped(as_text(part))


def as_text(value: Any) -> str:
    """A value as a person can read it: text as it is, the rest as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return "(too deep to be shown here; the JSON export has it)"


def others(blocks: list[Any]) -> str:
    """What of a message or a result is no words."""
    return "".join(
        media(block) if isinstance(block, dict) and "base64" in block else pairs(block)
        for block in blocks
    )


def media(block: dict[str, Any]) -> str:
    """An image of a kind that browsers show without running anything; any other file by its
    name."""
    kind, raw, length = block.get("media_type"), block.get("base64"), block.get("bytes")
    size = f", {length:,} bytes" if type(length) is int else ""
    label = f"{escaped(str(kind)[:60])}{size}"
    if (
        isinstance(kind, str)
        and kind in _IMAGES
        and isinstance(raw, str)
        and _BASE64.fullmatch(raw)
    ):
        return f'<figure><img alt="{kind}{size}" src="data:{kind};base64,{raw}"><figcaption>{label}</figcaption></figure>'
    return f'<p class="facts">{label}: not shown here</p>'


def changes(items: list[Change]) -> str:
    """Differences, one for each file."""
    return "".join(_change(item, named=len(items) > 1) for item in items)


def _change(item: Change, *, named: bool) -> str:
    head = f'<p class="facts">{escaped(item.path)} {item.verb}</p>' if named else ""
    if item.verb == "written":
        return head + folded("\n".join(line.text for line in item.lines))
    lines = near(item.lines)
    body = _diff(lines[:_LONG])
    if len(lines) > _LONG:
        body += _more(len(lines) - _LONG, _diff(lines[_LONG:]))
    return head + body


def _diff(lines: list[Line]) -> str:
    made: list[str] = []
    place = 0
    while place < len(lines):
        gone = _run(lines, place, "-")
        come = _run(lines, place + gone, "+")
        if gone and gone == come:
            made += _paired(lines[place : place + gone], lines[place + gone : place + gone + come])
        else:
            made += [
                _line(line, escaped(line.text))
                for line in lines[place : place + max(1, gone + come)]
            ]
        place += max(1, gone + come)
    return f'<pre class="diff">{"".join(made)}</pre>'


def _run(lines: list[Line], place: int, mark: str) -> int:
    end = place
    while end < len(lines) and lines[end].mark == mark:
        end += 1
    return end - place


def _paired(gone: list[Line], come: list[Line]) -> list[str]:
    """Lines that were put in place of as many others: what differs in each stands out."""
    olds, news = [], []
    for old, new in zip(gone, come, strict=True):
        head, tail = middle_of(old.text[:_WIDEST_MIDDLE], new.text[:_WIDEST_MIDDLE])
        if (
            len(old.text) > _WIDEST_MIDDLE
            or len(new.text) > _WIDEST_MIDDLE
            or (head + tail) * 3 < len(new.text)
        ):
            head = tail = 0
        olds.append(_line(old, _stressed(old.text, head, tail)))
        news.append(_line(new, _stressed(new.text, head, tail)))
    return [*olds, *news]


def _stressed(text: str, head: int, tail: int) -> str:
    if not head and not tail:
        return escaped(text)
    middle, end = text[head : len(text) - tail], text[len(text) - tail :]
    inner = f"<b>{escaped(middle)}</b>" if middle else ""
    return f"{escaped(text[:head])}{inner}{escaped(end)}"


def _line(line: Line, words: str) -> str:
    if line.mark == "+":
        return f"<ins>+ {words}</ins>"
    if line.mark == "-":
        return f"<del>- {words}</del>"
    return f"<i>{words}</i>" if line.mark == "@" else f"  {words}\n"
