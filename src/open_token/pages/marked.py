"""Markdown of a message as HTML: paragraphs, headings, lists, quotes, tables and code, made in one
walk over lines."""

import re
from collections.abc import Callable

from open_token.pages._escaped import escaped, plain
from open_token.pages._inline import inline

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]?){3,}|(?:\*[ \t]?){3,}|(?:_[ \t]?){3,})\s*")
_QUOTE = re.compile(r" {0,3}> ?(.*)", re.DOTALL)
_POINT = re.compile(r"( {0,40})(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)", re.DOTALL)
_DASHES = re.compile(r" {0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|){1,60}(?:[ \t]*:?-+:?)?[ \t]*\|?")
_DEPTH = 5
_WIDEST = 40


def marked(text: str) -> str:
    """The whole message."""
    return _Blocks(plain(text).split("\n"), 0).made()


class _Blocks:
    """One walk over lines; quotes and lists give their own lines to another walk, up to a depth."""

    def __init__(self, lines: list[str], depth: int) -> None:
        self._lines = lines
        self._depth = depth
        self._out: list[str] = []
        self._paragraph: list[str] = []
        self._place = 0

    def made(self) -> str:
        """The HTML."""
        parts: tuple[Callable[[str], bool], ...] = (
            self._blank,
            self._code,
            self._heading,
            self._table,
        )
        nested: tuple[Callable[[str], bool], ...] = (
            (self._quote, self._list) if self._depth < _DEPTH else ()
        )
        while self._place < len(self._lines):
            line = self._lines[self._place]
            if not any(part(line) for part in (*parts, *nested)):
                self._paragraph.append(line)
                self._place += 1
        self._end()
        return "".join(self._out)

    def _end(self) -> None:
        if self._paragraph:
            words = inline("\n".join(line.strip() for line in self._paragraph)).replace(
                "\n", "<br>"
            )
            self._out.append(f"<p>{words}</p>")
            self._paragraph = []

    def _blank(self, line: str) -> bool:
        if line.strip():
            return False
        self._end()
        self._place += 1
        return True

    def _code(self, line: str) -> bool:
        opened = _FENCE.match(line)
        if not opened or "`" in line[opened.end(1) :]:
            return False
        self._end()
        fence, begin = opened[1], self._place + 1
        end = begin
        while end < len(self._lines) and not _closes(self._lines[end], fence):
            end += 1
        self._out.append(f"<pre>{escaped(chr(10).join(self._lines[begin:end]))}</pre>")
        self._place = end + 1
        return True

    def _heading(self, line: str) -> bool:
        found = _HEADING.fullmatch(line)
        if found:
            self._end()
            # The page has one h1, and prompts are h2: what a message calls a heading stands below
            # them.
            level = min(6, len(found[1]) + 2)
            self._out.append(f"<h{level}>{inline(found[2].rstrip('# '))}</h{level}>")
        elif _RULE.fullmatch(line):
            self._end()
            self._out.append("<hr>")
        else:
            return False
        self._place += 1
        return True

    def _quote(self, line: str) -> bool:
        if not _QUOTE.match(line):
            return False
        self._end()
        inner: list[str] = []
        while self._place < len(self._lines) and (found := _QUOTE.match(self._lines[self._place])):
            inner.append(found[1])
            self._place += 1
        self._out.append(f"<blockquote>{_Blocks(inner, self._depth + 1).made()}</blockquote>")
        return True

    def _list(self, line: str) -> bool:
        first = _POINT.match(line)
        if not first or (self._paragraph and first[2] not in (None, "1")):
            return False
        self._end()
        points: list[list[str]] = []
        while self._place < len(self._lines):
            line = self._lines[self._place]
            found = _POINT.match(line)
            if found and len(found[1]) <= len(first[1]) + 1:
                if (found[2] is None) != (first[2] is None):
                    break
                points.append([found[3]])
            elif not points or not self._goes_on(line, len(first[1])):
                break
            else:
                points[-1].append(_dedented(line, len(first[1]) + 2))
            self._place += 1
        tag = "ul" if first[2] is None else "ol"
        start = f' start="{int(first[2])}"' if first[2] not in (None, "1") else ""
        items = "".join(
            f"<li>{_tight(_Blocks(lines, self._depth + 1).made())}</li>" for lines in points
        )
        self._out.append(f"<{tag}{start}>{items}</{tag}>")
        return True

    def _goes_on(self, line: str, indent: int) -> bool:
        """Whether a line belongs to the point above it: it is set in, or blank with such a line
        behind it."""
        if line.strip():
            return line.startswith((" " * (indent + 2), "\t")) or not self._stops(line)
        after = self._lines[self._place + 1] if self._place + 1 < len(self._lines) else ""
        return after.startswith(" " * (indent + 2)) or bool(_POINT.match(after))

    def _stops(self, line: str) -> bool:
        before = self._lines[self._place - 1]
        return not before.strip() or bool(
            _FENCE.match(line) or _HEADING.fullmatch(line) or _QUOTE.match(line)
        )

    def _table(self, line: str) -> bool:
        under = self._lines[self._place + 1].rstrip() if self._place + 1 < len(self._lines) else ""
        if "|" not in line or len(under) > 2000 or not _DASHES.fullmatch(under):
            return False
        self._end()
        heads = "".join(f"<th>{inline(cell)}</th>" for cell in _cells(line))
        self._place += 2
        rows: list[str] = []
        while self._place < len(self._lines) and "|" in self._lines[self._place]:
            cells = "".join(f"<td>{inline(cell)}</td>" for cell in _cells(self._lines[self._place]))
            rows.append(f"<tr>{cells}</tr>")
            self._place += 1
        self._out.append(f'<div class="wide"><table><tr>{heads}</tr>{"".join(rows)}</table></div>')
        return True


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and bare == fence[0] * len(bare)


def _dedented(line: str, indent: int) -> str:
    """The line without the indent of the list it stands in."""
    line = line.replace("\t", "    ", 1) if line.startswith("\t") else line
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _tight(made: str) -> str:
    """A point of one paragraph needs none around it."""
    inner = made.removeprefix("<p>").removesuffix("</p>")
    return (
        inner if "<p>" not in inner and made.startswith("<p>") and made.endswith("</p>") else made
    )


def _cells(line: str) -> list[str]:
    bare = line.strip().removeprefix("|").removesuffix("|")
    # A bar that is part of a cell waits as a character that no text has any more here.
    return [
        cell.strip().replace("\0", "|") for cell in bare.replace("\\|", "\0").split("|")[:_WIDEST]
    ]
