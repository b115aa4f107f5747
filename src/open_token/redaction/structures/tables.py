"""Tables: a name in the first row names the values below it.

Columns are separated by commas, semicolons, tabs, bars, or two spaces and more.
"""

from collections.abc import Iterator

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.structures.names import Name, Pair, skip_quote_signs, strip_span

_SEPARATORS = (b"|", b"\t", b";", b",")
_MAX_CELLS = 64
_MAX_HEADER = 48
_MAX_ROWS = 100_000
_MAX_ABOVE = 2_048
_AROUND_CELL = b" \"'*`"
_HEADER_CELL = lazy_compile(rb"[A-Za-z_\x80-\xff\"'*`][^\r\n|\t;,:=(){}<>]{0,47}")
_RULE = lazy_compile(rb"[-+|:=\s\xe2\x94\x80-\xbf]*[-=\xe2][-+|:=\s\xe2\x94\x80-\xbf]*")
_QUOTED_CELL = lazy_compile(rb"\"(?:[^\"\n]|\"\")*\"|[^\"\n][^\n]*?|")
_GAP = lazy_compile(rb" {2,}|\t+")

Span = tuple[int, int]


def list_pairs(name: Name) -> list[Pair]:
    """Return the cells below a name in the first row of a table."""
    separator = _find_separator(name)
    if separator and name.text.count(separator, name.line_start, name.line_end) > _MAX_CELLS:
        return []
    if separator:
        return _list_separated(name, separator) or _list_of_row(name, separator)
    return _list_aligned(name) or _list_of_aligned_row(name)


def _find_separator(name: Name) -> bytes:
    """Return what separates a name from its neighbours; empty if it is no cell by itself."""
    text = name.text
    before = text[max(name.line_start, name.start - _MAX_HEADER) : name.start].rstrip(_AROUND_CELL)
    after = text[name.end : min(name.line_end, name.end + _MAX_HEADER)].lstrip(_AROUND_CELL)
    for separator in _SEPARATORS:
        if before.endswith(separator) and (not after or after.startswith(separator)):
            return separator
        if after.startswith(separator) and not before:
            return separator
    return b""


def _list_separated(name: Name, separator: bytes) -> list[Pair]:
    text = name.text
    header = _split_row(text, name.line_start, name.line_end, separator)
    if not 2 <= len(header) <= _MAX_CELLS or not _is_first_row(name, separator, len(header)):
        return []
    column = next(
        (number for number, cell in enumerate(header) if cell[0] <= name.start <= cell[1]), None
    )
    if column is None or not all(_is_header_cell(text, cell) for cell in header):
        return []
    pairs = []
    for start, end in _iter_rows(text, name.line_end):
        row = text[start:end]
        if _RULE.fullmatch(row):
            continue
        if separator not in row:
            break
        cells = _split_row(text, start, end, separator)
        if len(cells) != len(header):
            break
        span = strip_span(text, *cells[column])
        if span[0] < span[1]:
            pairs.append(Pair(name.word, *span))
    return pairs


def _list_of_row(name: Name, separator: bytes) -> list[Pair]:
    """Return the cell beside a name that begins its row, in a table of two or three columns."""
    if separator not in (b"|", b"\t"):
        return []
    cells = _split_row(name.text, name.line_start, name.line_end, separator)
    if not 2 <= len(cells) <= 3 or not cells[0][0] <= name.start <= cells[0][1]:
        return []
    return [Pair(name.word, *strip_span(name.text, *cells[1]))]


def _list_of_aligned_row(name: Name) -> list[Pair]:
    if name.text[name.line_start : name.start].strip():
        return []
    gap = _GAP.match(name.text, name.end, name.line_end)
    if gap is None:
        return []
    cells = _split_aligned(name.text, gap.end(), name.line_end)
    return [Pair(name.word, *cells[0])] if len(cells) <= 2 else []


def _is_first_row(name: Name, separator: bytes, count: int) -> bool:
    """Return whether the line above a name is no row of the same table."""
    text = name.text
    above_end = text.rfind(b"\n", max(0, name.line_start - _MAX_ABOVE), name.line_start)
    if above_end < 0:
        return name.line_start < _MAX_ABOVE
    above_start = text.rfind(b"\n", max(0, above_end - _MAX_ABOVE), above_end) + 1
    above_start = skip_quote_signs(text, above_start, above_end)
    above = text[above_start:above_end]
    if separator not in above or _RULE.fullmatch(above):
        return True
    return len(_split_row(text, above_start, above_end, separator)) != count


def _is_header_cell(text: bytes, cell: Span) -> bool:
    value = text[slice(*strip_span(text, *cell))]
    return not value or (len(value) <= _MAX_HEADER and bool(_HEADER_CELL.fullmatch(value)))


def _iter_rows(text: bytes, position: int) -> Iterator[Span]:
    """Yield the lines after a position until an empty one."""
    for _ in range(_MAX_ROWS):
        newline = text.find(b"\n", position)
        if newline < 0:
            return
        start = newline + 1
        position = text.find(b"\n", start)
        if position < 0:
            position = len(text)
        end = position - 1 if text[position - 1 : position] == b"\r" else position
        start = skip_quote_signs(text, start, end)
        if not text[start:end].strip():
            return
        yield start, end


def _split_row(text: bytes, start: int, end: int, separator: bytes) -> list[Span]:
    """Return the cells of a row; a separator within quotes separates nothing."""
    row = text[start:end]
    quoted = b'"' in row and separator != b"|"
    cells: list[Span] = []
    position = start
    while position <= end:
        cell_end = text.find(separator, position, end)
        if quoted and text[position : position + 1] == b'"':
            closing = text.find(b'"', position + 1, end)
            cell_end = text.find(separator, max(closing, position), end)
        if cell_end < 0:
            cell_end = end
        cells.append((position, cell_end))
        position = cell_end + 1
        if len(cells) > _MAX_CELLS + 2:
            break
    # Bars may also stand before the first cell and behind the last.
    if separator == b"|" and cells and not text[slice(*cells[0])].strip():
        cells = cells[1:]
    if separator == b"|" and cells and not text[slice(*cells[-1])].strip():
        cells = cells[:-1]
    return cells


def _list_aligned(name: Name) -> list[Pair]:
    """Return the words below a name in a table whose columns are aligned by spaces."""
    before = name.text[max(name.line_start, name.start - _MAX_HEADER) : name.start]
    after = name.text[name.end : min(name.line_end, name.end + _MAX_HEADER)]
    is_column = before.endswith(b"  ") or (not before.strip() and after.startswith(b"  "))
    if not is_column or (after.strip() and not after.startswith((b"  ", b"\t"))):
        return []
    text = name.text
    header = _split_aligned(text, name.line_start, name.line_end)
    if len(header) < 2 or not all(_is_header_cell(text, cell) for cell in header):
        return []
    if header[-1][1] < name.end:
        return []
    column = next(number for number, cell in enumerate(header) if cell[1] >= name.end)
    pairs = []
    for start, end in _iter_rows(text, name.line_end):
        if _RULE.fullmatch(text[start:end]):
            continue
        cells = _split_aligned(text, start, end)
        if len(cells) != len(header):
            break
        pairs.append(Pair(name.word, *cells[column]))
    return pairs


def _split_aligned(text: bytes, start: int, end: int) -> list[Span]:
    row = text[start:end]
    start += len(row) - len(row.lstrip())
    end -= len(row) - len(row.rstrip())
    cells = []
    for gap in _GAP.finditer(text, start, end):
        cells.append((start, gap.start()))
        start = gap.end()
    cells.append((start, end))
    return cells
