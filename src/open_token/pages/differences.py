"""Which lines differ between two texts, found in linear time: lines that occur once on both sides
hold the rest."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_DEPTH = 12
_CELLS = 2_500


class Line(NamedTuple):
    """One line of a difference: its mark (a space, + or -), its text."""

    mark: str
    text: str


def differences(old: str, new: str) -> list[Line]:
    """All lines of both texts in order."""
    before, after = _lines(old), _lines(new)
    return list(_between(before, after, 0))


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _between(old: list[str], new: list[str], depth: int) -> Iterator[Line]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    yield from (Line(" ", line) for line in old[:head])
    yield from _middle(old[head : len(old) - tail], new[head : len(new) - tail], depth)
    yield from (Line(" ", line) for line in old[len(old) - tail :])


def _middle(old: list[str], new: list[str], depth: int) -> Iterator[Line]:
    anchors = _anchors(old, new) if old and new and depth < _DEPTH else []
    if not anchors and 0 < len(old) * len(new) <= _CELLS:
        anchors = _common(old, new)
        depth = _DEPTH
    if not anchors:
        yield from (Line("-", line) for line in old)
        yield from (Line("+", line) for line in new)
        return
    here, there = 0, 0
    for i, j in anchors:
        yield from _between(old[here:i], new[there:j], depth + 1)
        yield Line(" ", old[i])
        here, there = i + 1, j + 1
    yield from _between(old[here:], new[there:], depth + 1)


def _anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Lines that occur once on both sides, in the longest run that has the same order on both."""
    olds, news = Counter(old), Counter(new)
    places = {line: place for place, line in enumerate(new) if news[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(old) if olds[line] == 1 and line in places]
    return _rising(pairs)


def _rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    from bisect import bisect_left

    tops: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for place, (_, j) in enumerate(pairs):
        pile = bisect_left(tops, j)
        before.append(last[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [j]
        last[pile : pile + 1] = [place]
    chain: list[tuple[int, int]] = []
    place = last[-1] if last else -1
    while place >= 0:
        chain.append(pairs[place])
        place = before[place]
    return chain[::-1]


def _common(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """The longest common lines of two short texts, by the table that everybody knows."""
    width = len(new) + 1
    table = [[0] * width for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            table[i][j] = (
                table[i + 1][j + 1] + 1
                if old[i] == new[j]
                else max(table[i + 1][j], table[i][j + 1])
            )
    i = j = 0
    found = []
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def counted(lines: list[Line]) -> tuple[int, int]:
    """How many lines came and went."""
    marks = Counter(line.mark for line in lines)
    return marks["+"], marks["-"]


def near(lines: list[Line], context: int = 3) -> list[Line]:
    """The changed lines with some around them; a line marked @ stands for those that are left
    out."""
    keep = [False] * (len(lines) + 1)
    for order in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        left = 0
        for place in order:
            left = context + 1 if lines[place].mark != " " else left - 1
            keep[place] |= left > 0
    made: list[Line] = []
    hidden = 0
    for place, line in enumerate(lines):
        if keep[place]:
            if hidden:
                made.append(
                    Line(
                        "@", f"{hidden:,} lines as they were" if hidden > 1 else "1 line as it was"
                    )
                )
            made.append(line)
            hidden = 0
        else:
            hidden += 1
    if hidden and made:
        made.append(
            Line("@", f"{hidden:,} lines as they were" if hidden > 1 else "1 line as it was")
        )
    return made


def middle_of(old: str, new: str) -> tuple[int, int]:
    """How many letters two lines share at their start and at their end."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail
