"""HTML of the parts inside an opened row: long texts, key-value lists, images, diffs."""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from open_token.redaction.markers import MARKER_PATTERN
from open_token.writers.escape import escape_html
from open_token.writers.line_diff import FileChange, Line, Run, diff_items, trim_context

MAX_LINES = 400
"""A text or diff with more lines is folded."""
_HEAD_LINES = 60
_TAIL_LINES = 20
_MAX_KEYS = 500
_MAX_HIGHLIGHTED = 2_000
"""Characters of a line in which the changed part is highlighted."""
# Types that a browser shows without running anything.
_SHOWN_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_WORD = re.compile(rf"{MARKER_PATTERN}|\w+|\s+|[^\w\s]")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#]{1,20}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def render_text(
    text: str, render: Callable[[str], str] = escape_html, classes: str = "", path: str = ""
) -> str:
    """Render preformatted text; of a long one the middle is folded.

    With the path of a file, the script of the page colours its syntax.
    """
    attributes = ""
    if classes:
        attributes += f' class="{classes}"'
    attributes += render_language(find_suffix(path))

    def render_lines(lines: list[str]) -> str:
        content = render("\n".join(lines))
        return f"<pre{attributes}>{content}</pre>"

    lines = text.split("\n")
    if len(lines) <= MAX_LINES:
        return render_lines(lines)
    # How a long output begins and how it ends says most about it.
    head = render_lines(lines[:_HEAD_LINES])
    middle = lines[_HEAD_LINES:-_TAIL_LINES]
    tail = render_lines(lines[-_TAIL_LINES:])
    return head + _render_more(len(middle), render_lines(middle)) + tail


def find_suffix(path: str) -> str:
    """Return what follows the last dot in a file name; empty without one."""
    name = path.rpartition("/")[2]
    if "." not in name:
        return ""
    return name.rpartition(".")[2]


def render_language(language: str) -> str:
    """Return the attribute that names the language of code, with a leading space."""
    if not _LANGUAGE.fullmatch(language):
        return ""
    return f' data-lang="{language.lower()}"'


def _render_more(count: int, body: str) -> str:
    return f'<details class="more"><summary>show {count:,} more lines</summary>{body}</details>'


def render_value(value: Any) -> str:
    """Render an object as a list of keys and values, any other value as text."""
    if not isinstance(value, dict):
        return f"<pre>{escape_html(format_value(value))}</pre>"
    if not value:
        return ""
    rows: list[str] = []
    for key, field in islice(value.items(), _MAX_KEYS):
        rows.append(f"<dt>{escape_html(str(key))}</dt><dd>{_render_field(field)}</dd>")
    rendered = f"<dl>{''.join(rows)}</dl>"
    more = len(value) - len(rows)
    if more:
        rendered += f"<p>and {more:,} more keys</p>"
    return rendered


def _render_field(value: Any) -> str:
    if isinstance(value, str):
        if "\n" in value:
            return render_text(value)
        return escape_html(value)
    if isinstance(value, dict) and "base64" in value:
        return render_media(value)
    if isinstance(value, dict | list):
        return render_text(format_value(value))
    return escape_html(format_value(value))


def format_value(value: Any) -> str:
    """Return a value as text: strings verbatim, anything else as indented JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return "(nested too deeply to show here; see the JSON export)"


def render_blocks(blocks: list[Any]) -> str:
    """Render the blocks of a message or a result that are not text."""
    parts: list[str] = []
    for block in blocks:
        is_media = isinstance(block, dict) and "base64" in block
        parts.append(render_media(block) if is_media else render_value(block))
    return "".join(parts)


def is_image(block: Any) -> bool:
    """Return whether a block is an image that a browser shows without running anything."""
    if not isinstance(block, dict) or block.get("media_type") not in _SHOWN_TYPES:
        return False
    encoded = block.get("base64")
    return isinstance(encoded, str) and _BASE64.fullmatch(encoded) is not None


def render_media(block: dict[str, Any]) -> str:
    """Render an image of a safe type; any other file by its type and size."""
    media_type = block.get("media_type")
    encoded = block.get("base64")
    length = block.get("bytes")
    size = ""
    if type(length) is int:
        size = f", {length:,} bytes"
    label = f"{escape_html(str(media_type)[:60])}{size}"
    if is_image(block):
        # Neither value needs to be escaped: the type is one of a list, the data is only base64.
        image = f'<img alt="{media_type}{size}" src="data:{media_type};base64,{encoded}">'
        return f"<figure>{image}<figcaption>{label}</figcaption></figure>"
    return f'<p class="facts">{label}: not shown here</p>'


def render_changes(changes: list[FileChange]) -> str:
    """Render diffs, one per file."""
    is_named = len(changes) > 1
    return "".join(_render_change(change, is_named=is_named) for change in changes)


def _render_change(change: FileChange, *, is_named: bool) -> str:
    head = ""
    if is_named:
        head = f'<p class="facts">{escape_html(change.path)} {change.verb}</p>'
    if change.verb == "written":
        text = "\n".join(line.text for line in change.lines)
        return head + render_text(text, path=change.path)
    lines = trim_context(change.lines)
    suffix = find_suffix(change.path)
    body = _render_diff(lines[:MAX_LINES], suffix)
    rest = lines[MAX_LINES:]
    if rest:
        body += _render_more(len(rest), _render_diff(rest, suffix))
    return head + body


def _render_diff(lines: list[Line], suffix: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(lines):
        removed = _count_run(lines, index, "-")
        added = _count_run(lines, index + removed, "+")
        # A line that is neither is shown by itself.
        end = index + max(1, removed + added)
        if removed and removed == added:
            middle = index + removed
            parts += _render_replacement(lines[index:middle], lines[middle:end])
        else:
            parts += _render_lines(lines[index:end])
        index = end
    language = render_language(suffix)
    return f'<pre class="diff"{language}>{"".join(parts)}</pre>'


def _render_lines(lines: list[Line]) -> list[str]:
    texts = [line.text for line in lines]
    escaped = escape_html("\n".join(texts)).split("\n")
    if len(escaped) != len(lines):
        # A carriage return in a line becomes the end of one.
        escaped = list(map(escape_html, texts))
    return list(map(_render_line, lines, escaped))


def _count_run(lines: list[Line], start: int, op: str) -> int:
    """Return how many lines from a start on were all removed, or all added."""
    end = start
    while end < len(lines) and lines[end].op == op:
        end += 1
    return end - start


def _render_replacement(removed: list[Line], added: list[Line]) -> list[str]:
    """Render lines that replace as many others, with what differs in each highlighted."""
    old_parts: list[str] = []
    new_parts: list[str] = []
    for old, new in zip(removed, added, strict=True):
        old_html, new_html = _highlight_words(old.text, new.text)
        old_parts.append(_render_line(old, old_html))
        new_parts.append(_render_line(new, new_html))
    return old_parts + new_parts


def _highlight_words(old: str, new: str) -> tuple[str, str]:
    """Return two lines as HTML, with the words highlighted in which they differ."""
    old_words = _WORD.findall(old[:_MAX_HIGHLIGHTED])
    new_words = _WORD.findall(new[:_MAX_HIGHLIGHTED])
    runs = diff_items(old_words, new_words)
    common = sum(count for op, count in runs if op == " ")
    is_long = max(len(old), len(new)) > _MAX_HIGHLIGHTED
    # Where less than a third is equal the highlight would be noise.
    if is_long or common * 3 < len(new_words):
        return escape_html(old), escape_html(new)
    return _highlight_runs(old_words, runs, "-"), _highlight_runs(new_words, runs, "+")


def _highlight_runs(words: list[str], runs: list[Run], op: str) -> str:
    """Return one side of a diff of words: `op` says which, and is what is highlighted."""
    parts: list[str] = []
    start = 0
    for run_op, count in runs:
        if run_op not in (" ", op):
            continue
        # Joined first and escaped then, so that a marker of redaction stays whole.
        html = escape_html("".join(words[start : start + count]))
        parts.append(f"<b>{html}</b>" if run_op == op else html)
        start += count
    return "".join(parts)


def _render_line(line: Line, html: str) -> str:
    if line.op == "+":
        return f"<ins>+ {html}</ins>"
    if line.op == "-":
        return f"<del>- {html}</del>"
    if line.op == "@":
        return f"<i>{html}</i>"
    return f"  {html}\n"
