"""Markdown of a message as HTML: a small, linear-time renderer with a fixed set of tags."""

import re

from open_token.writers.escape import escape_attribute, escape_html, make_visible
from open_token.writers.html.blocks import render_language

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]?){3,}|(?:\*[ \t]?){3,}|(?:_[ \t]?){3,})\s*")
_QUOTE = re.compile(r" {0,3}> ?(.*)", re.DOTALL)
_LIST_ITEM = re.compile(r"( {0,40})(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)", re.DOTALL)
_TABLE_RULE = re.compile(r" {0,3}\|?(?:[ \t]*:?-+:?[ \t]*\|){1,60}(?:[ \t]*:?-+:?)?[ \t]*\|?")
_MAX_DEPTH = 5
_MAX_COLUMNS = 40
_MAX_TABLE_RULE = 2000

# No alternative may step over its own end, so that the search stays linear on any input.
_URL = r"https?://[!#$%&'*+,./0-9:;=?@A-Z_a-z~-]{1,1000}"
_TOKEN = re.compile(
    r"(?<!`)``(?!`)(?P<wide>(?:[^`]|`(?!`)){1,2000})(?<!`)``(?!`)"
    r"|(?<!`)`(?P<code>[^`]{1,2000})`(?!`)"
    r"|!?\[(?P<label>[^\[\]\n]{1,300})\]\((?P<to>"
    + _URL
    + r")(?:\([!-'*-~]{0,80}\))?(?: \"[^\"\n]{0,200}\")?\)"
    r"|(?P<bare>" + _URL + r")"
    r"|\*\*(?=[^\s*])(?P<bold>(?:[^*]|\*(?!\*)){1,1000})\*\*"
    r"|(?<![\w_])__(?=[^\s_])(?P<bold2>(?:[^_]|_(?!_)){1,1000})__(?![\w_])"
    r"|(?<![\w*])\*(?=[^\s*])(?P<slant>[^*\n]{1,500})(?<!\s)\*(?![\w*])"
    r"|(?<![\w_])_(?=[^\s_])(?P<slant2>[^_\n]{1,500})(?<!\s)_(?![\w_])"
    r"|~~(?=[^\s~])(?P<struck>[^~\n]{1,500})~~"
    r"|\\(?P<literal>[!-/:-@\[-`{-~])"
)
_TOKEN_START = re.compile(r"[`!\[*_~\\]|https?://")
"""Where a token can begin: each alternative of `_TOKEN` begins with one of these."""
_TAGS = {"bold": "strong", "bold2": "strong", "slant": "em", "slant2": "em", "struck": "del"}
_MAX_INLINE_DEPTH = 3
_TRAILING_PUNCTUATION = ".,;:!?'*_~"
_AFTER_HOST = re.compile(r"[/?#\\]")


def render_markdown(text: str) -> str:
    """Render a message."""
    return _BlockRenderer(make_visible(text).split("\n"), 0).render()


class _BlockRenderer:
    """Renders lines in one pass; quotes and list items are rendered recursively, up to a depth."""

    def __init__(self, lines: list[str], depth: int) -> None:
        self._lines = lines
        self._depth = depth
        self._parts: list[str] = []
        self._paragraph: list[str] = []
        self._index = 0

    def render(self) -> str:
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if not self._render_block(line):
                self._paragraph.append(line)
                self._index += 1
        self._end_paragraph()
        return "".join(self._parts)

    def _render_block(self, line: str) -> bool:
        """Render the block that begins at this line; False where it is part of a paragraph."""
        stripped = line.lstrip()
        if not stripped:
            self._end_paragraph()
            self._index += 1
            return True
        # Most lines are prose: every other block begins with a sign or a number, or is a table.
        if stripped[0].isalpha() and "|" not in line:
            return False
        if self._render_code(line) or self._render_heading(line) or self._render_table(line):
            return True
        if self._depth >= _MAX_DEPTH:
            return False
        return self._render_quote(line) or self._render_list(line)

    def _end_paragraph(self) -> None:
        if not self._paragraph:
            return
        text = "\n".join(line.strip() for line in self._paragraph)
        html = render_inline(text).replace("\n", "<br>")
        self._parts.append(f"<p>{html}</p>")
        self._paragraph = []

    def _render_code(self, line: str) -> bool:
        opening = _FENCE.match(line)
        if not opening or "`" in line[opening.end(1) :]:
            return False
        self._end_paragraph()
        start = self._index + 1
        end = start
        while end < len(self._lines) and not _is_closing_fence(self._lines[end], opening[1]):
            end += 1
        code = "\n".join(self._lines[start:end])
        language = render_language(opening[2])
        self._parts.append(f"<pre{language}>{escape_html(code)}</pre>")
        self._index = end + 1
        return True

    def _render_heading(self, line: str) -> bool:
        heading = _HEADING.fullmatch(line)
        if heading:
            self._end_paragraph()
            # The page has one h1, and prompts are h2: headings of a message are below them.
            level = min(6, len(heading[1]) + 2)
            html = render_inline(heading[2].rstrip("# "))
            self._parts.append(f"<h{level}>{html}</h{level}>")
        elif _RULE.fullmatch(line):
            self._end_paragraph()
            self._parts.append("<hr>")
        else:
            return False
        self._index += 1
        return True

    def _render_quote(self, line: str) -> bool:
        quote = _QUOTE.match(line)
        if not quote:
            return False
        self._end_paragraph()
        inner: list[str] = []
        while quote:
            inner.append(quote[1])
            self._index += 1
            quote = None
            if self._index < len(self._lines):
                quote = _QUOTE.match(self._lines[self._index])
        html = _BlockRenderer(inner, self._depth + 1).render()
        self._parts.append(f"<blockquote>{html}</blockquote>")
        return True

    def _render_list(self, line: str) -> bool:
        first = _LIST_ITEM.match(line)
        if not first:
            return False
        number = first[2]
        # Inside a paragraph only a list that begins with 1 is a list, not a line such as "2026. ".
        if self._paragraph and number not in (None, "1"):
            return False
        self._end_paragraph()
        tag = "ul" if number is None else "ol"
        start = f' start="{int(number)}"' if number not in (None, "1") else ""
        items = "".join(
            f"<li>{self._render_list_item(lines)}</li>" for lines in self._collect_items(first)
        )
        self._parts.append(f"<{tag}{start}>{items}</{tag}>")
        return True

    def _render_list_item(self, lines: list[str]) -> str:
        first = lines[0]
        if len(lines) == 1 and first[:1].isalpha() and "|" not in first:
            return render_inline(first.strip())
        return _unwrap_paragraph(_BlockRenderer(lines, self._depth + 1).render())

    def _collect_items(self, first: re.Match[str]) -> list[list[str]]:
        """Return the lines of each item of a list, and move behind the list."""
        indent = len(first[1])
        is_ordered = first[2] is not None
        items: list[list[str]] = []
        while self._index < len(self._lines):
            line = self._lines[self._index]
            item = _LIST_ITEM.match(line)
            if item and len(item[1]) <= indent + 1:
                if (item[2] is not None) != is_ordered:
                    break
                items.append([item[3]])
            elif not items or not self._continues_item(line, indent):
                break
            else:
                items[-1].append(_dedent(line, indent + 2))
            self._index += 1
        return items

    def _continues_item(self, line: str, indent: int) -> bool:
        """Return whether a line belongs to the list item above it."""
        indentation = " " * (indent + 2)
        if line.strip():
            if line.startswith((indentation, "\t")):
                return True
            return not self._interrupts_item(line)
        next_index = self._index + 1
        next_line = self._lines[next_index] if next_index < len(self._lines) else ""
        return next_line.startswith(indentation) or bool(_LIST_ITEM.match(next_line))

    def _interrupts_item(self, line: str) -> bool:
        """Return whether a line that is not indented ends a list item."""
        if not self._lines[self._index - 1].strip():
            return True
        # Any other line continues the paragraph of the item (a lazy continuation in CommonMark).
        match = _FENCE.match(line) or _HEADING.fullmatch(line) or _QUOTE.match(line)
        return match is not None

    def _render_table(self, line: str) -> bool:
        if "|" not in line or self._index + 1 >= len(self._lines):
            return False
        rule = self._lines[self._index + 1].rstrip()
        if len(rule) > _MAX_TABLE_RULE or not _TABLE_RULE.fullmatch(rule):
            return False
        self._end_paragraph()
        rows = [_render_table_row(line, "th")]
        self._index += 2
        while self._index < len(self._lines) and "|" in self._lines[self._index]:
            rows.append(_render_table_row(self._lines[self._index], "td"))
            self._index += 1
        self._parts.append(f'<div class="wide"><table>{"".join(rows)}</table></div>')
        return True


def _is_closing_fence(line: str, fence: str) -> bool:
    stripped = line.strip()
    return len(stripped) >= len(fence) and stripped == fence[0] * len(stripped)


def _dedent(line: str, indent: int) -> str:
    if line.startswith("\t"):
        line = line.replace("\t", "    ", 1)
    spaces = len(line) - len(line.lstrip(" "))
    return line[min(indent, spaces) :]


def _unwrap_paragraph(html: str) -> str:
    """Return the HTML of a list item without the tags of its only paragraph."""
    if not html.startswith("<p>") or not html.endswith("</p>"):
        return html
    inner = html.removeprefix("<p>").removesuffix("</p>")
    return html if "<p>" in inner else inner


def _render_table_row(line: str, tag: str) -> str:
    stripped = line.strip().removeprefix("|").removesuffix("|")
    # Visible text has no NUL, so it can stand for an escaped bar while the row is split.
    cells = stripped.replace("\\|", "\0").split("|")[:_MAX_COLUMNS]
    html = "".join(
        f"<{tag}>{render_inline(cell.strip().replace(chr(0), '|'))}</{tag}>" for cell in cells
    )
    return f"<tr>{html}</tr>"


def render_inline(text: str, depth: int = 0) -> str:
    """Render the text of one paragraph: code, emphasis and links."""
    if _TOKEN_START.search(text) is None:
        return escape_html(text)
    parts: list[str] = []
    end = 0
    for start in _TOKEN_START.finditer(text):
        if start.start() < end:
            continue
        match = _TOKEN.match(text, start.start())
        if match is None:
            continue
        parts.append(escape_html(text[end : match.start()]))
        parts.append(_render_token(match, depth))
        end = match.end()
    parts.append(escape_html(text[end:]))
    return "".join(parts)


def _render_token(match: re.Match[str], depth: int) -> str:
    kind = match.lastgroup or ""
    if kind in ("wide", "code"):
        return f"<code>{escape_html(match[kind].strip() or match[kind])}</code>"
    if kind == "to":
        return render_link(match["to"], match["label"])
    if kind == "bare":
        url = match["bare"].rstrip(_TRAILING_PUNCTUATION)
        return render_link(url, "") + escape_html(match["bare"][len(url) :])
    if kind == "literal":
        return escape_html(match["literal"])
    inner = match[kind]
    if depth < _MAX_INLINE_DEPTH:
        html = render_inline(inner, depth + 1)
    else:
        html = escape_html(inner)
    return f"<{_TAGS[kind]}>{html}</{_TAGS[kind]}>"


def is_http_url(value: object) -> bool:
    """Return whether a value is an http or https address in plain ASCII."""
    return isinstance(value, str) and re.fullmatch(_URL, value) is not None


def render_link(url: str, label: str) -> str:
    """Render a link that shows its host and sends no referrer."""
    start = f'<a href="{escape_attribute(url)}" rel="noreferrer noopener">'
    if not label or label == url:
        return f"{start}{escape_html(url)}</a>"
    authority = _AFTER_HOST.split(url.partition("://")[2], maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    return f"{start}{escape_html(label)}</a> <small>({escape_html(host)})</small>"
