"""Line differences between texts, in linear time, and parsing of patches.

Lines that occur exactly once on both sides are anchors (patience diff); what is between them is
compared recursively, and small remainders by longest common subsequence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from open_token.jsontools.anchors import Pair, find_anchors

_MAX_DEPTH = 12
_MAX_TABLE_CELLS = 2_500
_PATCH_FILE = re.compile(r"\*\*\* (Update|Add|Delete) File: (.*)")
_UNIFIED_FILE = re.compile(r"\+\+\+ (?:b/)?([^\t\n]*)")
_PATCH_VERBS = {"Add": "new", "Delete": "deleted"}

Run = tuple[str, int]
"""So many lines in a row that are equal (a space), removed (-) or added (+)."""


class Line(NamedTuple):
    """One line of a diff. `op` is a space, + or -, or @ for a note on lines that are left out."""

    op: str
    text: str


@dataclass
class FileChange:
    """What was done to one file: from one text to another, or by a patch.

    Lines are built when they are asked for; counting does without them."""

    path: str
    old: str = ""
    new: str = ""
    patch: list[Line] | None = None
    verb: str = ""
    """new, deleted or written, where it is known."""

    @cached_property
    def runs(self) -> list[Run]:
        """How many lines in a row are equal, removed and added."""
        if self.patch is not None:
            return [(line.op, 1) for line in self.patch]
        return diff_runs(self.old, self.new)

    @cached_property
    def lines(self) -> list[Line]:
        """All lines in order."""
        if self.patch is not None:
            return self.patch
        return diff_lines(self.old, self.new, self.runs)

    @property
    def added(self) -> int:
        """The number of added lines."""
        return sum(count for op, count in self.runs if op == "+")

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return sum(count for op, count in self.runs if op == "-")


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
            changes.append(FileChange(header[2].strip(), patch=lines, verb=verb))
        elif unified_header:
            lines = []
            changes.append(FileChange(unified_header[1].strip(), patch=lines))
        elif raw.startswith("@@"):
            lines.append(Line("@", raw.strip("@ ")))
        elif raw.startswith("--- "):
            # The old name of a file in a unified diff; the new one follows in `+++`.
            continue
        elif changes and raw.startswith(("+", "-", " ")):
            lines.append(Line(raw[0], raw[1:]))
    return changes


def diff_lines(old: str, new: str, runs: list[Run] | None = None) -> list[Line]:
    """Return all lines of both texts in order, with what was removed and added.

    `runs` is what `diff_runs` returned for the same texts, where that is known already.
    """
    remaining_old = iter(_split_lines(old))
    remaining_new = iter(_split_lines(new))
    lines: list[Line] = []
    for op, count in diff_runs(old, new) if runs is None else runs:
        if op == "+":
            texts = islice(remaining_new, count)
        else:
            texts = islice(remaining_old, count)
        lines += [Line(op, text) for text in texts]
        if op == " ":
            # An equal line is taken from the old text: skip it in the new one.
            next(islice(remaining_new, count, count), None)
    return lines


def diff_runs(old: str, new: str) -> list[Run]:
    """Return what was removed and added between two texts, as runs of lines."""
    return diff_items(_split_lines(old), _split_lines(new))


def diff_items(old: list[str], new: list[str]) -> list[Run]:
    """Return what was removed and added between two lists of lines or words."""
    runs: list[Run] = []
    _add_diff(runs, old, new, 0)
    return runs


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _add_diff(runs: list[Run], old: list[str], new: list[str], depth: int) -> None:
    """Add the equal lines at both ends, and the difference of what is between them."""
    head, tail = count_common_ends(old, new)
    if head:
        runs.append((" ", head))
    _add_middle(runs, old[head : len(old) - tail], new[head : len(new) - tail], depth)
    if tail:
        runs.append((" ", tail))


def _add_middle(runs: list[Run], old: list[str], new: list[str], depth: int) -> None:
    """Add the difference of lines that begin and end differently, split at common lines."""
    anchors: list[Pair] = []
    # A hostile text could have as many nested anchors as lines, hence the limit.
    if old and new and depth < _MAX_DEPTH:
        anchors = find_anchors(old, new)
    cells = len(old) * len(new)
    if not anchors and 0 < cells <= _MAX_TABLE_CELLS:
        anchors = _find_common_lines(old, new)
        # The table found every common line: what is between them has none.
        depth = _MAX_DEPTH
    old_start = 0
    new_start = 0
    for old_index, new_index in anchors:
        if old_start < old_index or new_start < new_index:
            _add_diff(runs, old[old_start:old_index], new[new_start:new_index], depth + 1)
        runs.append((" ", 1))
        old_start = old_index + 1
        new_start = new_index + 1
    if anchors:
        _add_diff(runs, old[old_start:], new[new_start:], depth + 1)
        return
    if old:
        runs.append(("-", len(old)))
    if new:
        runs.append(("+", len(new)))


def _find_common_lines(old: list[str], new: list[str]) -> list[Pair]:
    """Return the longest common subsequence of two short texts, by dynamic programming."""
    # table[i][j] is its length for the lines from i of the old and from j of the new text.
    table = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        row = table[i]
        row_below = table[i + 1]
        for j in reversed(range(len(new))):
            if old[i] == new[j]:
                row[j] = row_below[j + 1] + 1
            else:
                row[j] = max(row_below[j], row[j + 1])

    pairs: list[Pair] = []
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


def trim_context(lines: list[Line], context: int = 3) -> list[Line]:
    """Return the changed lines with some around them; @ lines count what is left out."""
    is_shown = [False] * len(lines)
    # Forward for the lines after a change, backward for those before it: linear for any context.
    forward = range(len(lines))
    for order in (forward, reversed(forward)):
        remaining = 0
        for index in order:
            if lines[index].op == " ":
                remaining -= 1
            else:
                remaining = context + 1
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


def count_common_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines, or characters of a line, are equal at the start and at the end."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    limit -= head
    tail = 0
    while tail < limit and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail
