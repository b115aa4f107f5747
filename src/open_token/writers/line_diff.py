"""Line differences between texts, in linear time, and parsing of patches.

Lines that occur exactly once on both sides are anchors (patience diff); what is between them is
compared recursively, and small remainders by longest common subsequence.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

_MAX_DEPTH = 12
_MAX_TABLE_CELLS = 2_500
_PATCH_FILE = re.compile(r"\*\*\* (Update|Add|Delete) File: (.*)")
_UNIFIED_FILE = re.compile(r"\+\+\+ (?:b/)?([^\t\n]*)")
_PATCH_VERBS = {"Add": "new", "Delete": "deleted"}


class Line(NamedTuple):
    """One line of a diff. `op` is a space, + or -, or @ for a note on lines that are left out."""

    op: str
    text: str


class FileChange(NamedTuple):
    """What was done to one file."""

    path: str
    lines: list[Line]
    verb: str = ""
    """new, deleted or written, where it is known."""

    @property
    def added(self) -> int:
        """The number of added lines."""
        return count_changes(self.lines)[0]

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return count_changes(self.lines)[1]


def diff_texts(path: str, old: str, new: str) -> FileChange:
    """Return the change of a file from one text to another."""
    return FileChange(path, diff_lines(old, new))


def parse_patch(text: str) -> list[FileChange]:
    """Parse an apply_patch text or a unified diff into one change per file."""
    changes: list[FileChange] = []
    lines: list[Line] = []
    for raw in text.replace("\r\n", "\n").split("\n"):
        header = _PATCH_FILE.match(raw)
        unified_header = _UNIFIED_FILE.match(raw)
        if header:
            lines = []
            verb = _PATCH_VERBS.get(header[1], "")
            changes.append(FileChange(header[2].strip(), lines, verb))
        elif unified_header:
            lines = []
            changes.append(FileChange(unified_header[1].strip(), lines))
        elif raw.startswith("@@"):
            lines.append(Line("@", raw.strip("@ ")))
        elif raw[:1] in ("+", "-", " ") and changes and not raw.startswith("--- "):
            lines.append(Line(raw[0], raw[1:]))
    return changes


def diff_lines(old: str, new: str) -> list[Line]:
    """Return all lines of both texts in order, with what was removed and added."""
    return list(_diff(_split_lines(old), _split_lines(new), 0))


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _diff(old: list[str], new: list[str], depth: int) -> Iterator[Line]:
    shortest = min(len(old), len(new))
    head = 0
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    for line in old[:head]:
        yield Line(" ", line)
    yield from _diff_middle(old[head : len(old) - tail], new[head : len(new) - tail], depth)
    for line in old[len(old) - tail :]:
        yield Line(" ", line)


def _diff_middle(old: list[str], new: list[str], depth: int) -> Iterator[Line]:
    anchors: list[tuple[int, int]] = []
    if old and new and depth < _MAX_DEPTH:
        anchors = _find_anchors(old, new)
    if not anchors and 0 < len(old) * len(new) <= _MAX_TABLE_CELLS:
        anchors = _find_common_lines(old, new)
        depth = _MAX_DEPTH
    if not anchors:
        for line in old:
            yield Line("-", line)
        for line in new:
            yield Line("+", line)
        return
    old_start = 0
    new_start = 0
    for old_index, new_index in anchors:
        yield from _diff(old[old_start:old_index], new[new_start:new_index], depth + 1)
        yield Line(" ", old[old_index])
        old_start = old_index + 1
        new_start = new_index + 1
    yield from _diff(old[old_start:], new[new_start:], depth + 1)


def _find_anchors(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return the lines that are unique on both sides, in their longest common order."""
    old_counts = Counter(old)
    new_counts = Counter(new)
    positions = {line: index for index, line in enumerate(new) if new_counts[line] == 1}
    pairs = [
        (index, positions[line])
        for index, line in enumerate(old)
        if old_counts[line] == 1 and line in positions
    ]
    return _find_longest_increasing(pairs)


def _find_longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs that increases on both sides (patience sorting)."""
    tops: list[int] = []
    last_on_pile: list[int] = []
    predecessors: list[int] = []
    for index, (_, new_index) in enumerate(pairs):
        pile = bisect_left(tops, new_index)
        predecessors.append(last_on_pile[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [new_index]
        last_on_pile[pile : pile + 1] = [index]
    chain: list[tuple[int, int]] = []
    index = last_on_pile[-1] if last_on_pile else -1
    while index >= 0:
        chain.append(pairs[index])
        index = predecessors[index]
    chain.reverse()
    return chain


def _find_common_lines(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """Return the longest common subsequence of two short texts, by dynamic programming."""
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            if old[i] == new[j]:
                table[i][j] = table[i + 1][j + 1] + 1
            else:
                table[i][j] = max(table[i + 1][j], table[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = 0
    j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            pairs.append((i, j))
            i += 1
            j += 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def count_changes(lines: list[Line]) -> tuple[int, int]:
    """Return the number of added and of removed lines."""
    counts = Counter(line.op for line in lines)
    return counts["+"], counts["-"]


def trim_context(lines: list[Line], context: int = 3) -> list[Line]:
    """Return the changed lines with some around them; @ lines count what is left out."""
    is_shown = [False] * len(lines)
    for order in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        remaining = 0
        for index in order:
            remaining = context + 1 if lines[index].op != " " else remaining - 1
            if remaining > 0:
                is_shown[index] = True
    trimmed: list[Line] = []
    hidden = 0
    for line, shown in zip(lines, is_shown, strict=True):
        if not shown:
            hidden += 1
            continue
        if hidden:
            trimmed.append(_count_hidden(hidden))
            hidden = 0
        trimmed.append(line)
    if hidden and trimmed:
        trimmed.append(_count_hidden(hidden))
    return trimmed


def _count_hidden(count: int) -> Line:
    text = f"{count:,} unchanged lines" if count > 1 else "1 unchanged line"
    return Line("@", text)


def count_common_ends(old: str, new: str) -> tuple[int, int]:
    """Return how many characters two lines share at their start and at their end."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail
