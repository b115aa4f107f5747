"""The tree of messages in a chat product's export: the line that was shown last, and the branches
that were left."""

from collections.abc import Iterator, Mapping
from typing import Any

from open_token.builder.draft import Draft

NODE, BEGIN, END = "node", "begin", "end"


def walk(
    parents: Mapping[str, str | None], leaf: str | None, rank: Mapping[str, int] | None = None
) -> Iterator[tuple[str, str]]:
    """Every node once, each behind its parent: what to do (NODE, or BEGIN and END of a branch), and
    the node's key.

    `parents` is in source order. The line that ends in `leaf` is the one that counts; where there
    is no leaf it follows the last child everywhere. Branches stand where they fork off, before the
    line goes on. `rank` orders siblings."""
    above = _without_circles(parents)
    children: dict[str | None, list[str]] = {}
    for key, parent in above.items():
        children.setdefault(parent, []).append(key)
    if rank:
        for siblings in children.values():
            siblings.sort(key=lambda key: rank.get(key, len(above)))
    line = set()
    node = leaf if leaf in above else None
    while node is not None:
        line.add(node)
        node = above[node]
    stack = _fork(children.get(None, []), line)
    while stack:
        what, key = stack.pop()
        yield what, key
        if what == NODE:
            stack += _fork(children.get(key, []), line)


def _fork(siblings: list[str], line: set[str]) -> list[tuple[str, str]]:
    """What a stack takes for these siblings: the branches that were left come off it first."""
    if not siblings:
        return []
    chosen = next((key for key in siblings if key in line), siblings[-1])
    steps = [(NODE, chosen)]
    for key in reversed(siblings):
        if key != chosen:
            steps += [(END, key), (NODE, key), (BEGIN, key)]
    return steps


def _without_circles(parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Parents that are there and lead to a root; a node that would be its own ancestor becomes
    one."""
    above = {key: parent if parent in parents else None for key, parent in parents.items()}
    done: set[str] = set()
    for start in above:
        trail: dict[str, None] = {}
        key: str | None = start
        while key is not None and key not in done and key not in trail:
            trail[key] = None
            key = above[key]
        if key is not None and key in trail:
            above[next(reversed(trail))] = None
        done.update(trail)
    return above


class Branches:
    """Where branches begin and end among the events; told to the draft at the end, the outer before
    the inner."""

    def __init__(self, draft: Draft, detail: str) -> None:
        self._draft = draft
        self._data: dict[str, Any] = {"kind": "abandoned_branch", "detail": detail}
        self._open: list[int] = []
        self._found: list[tuple[int, int]] = []

    def begin(self) -> None:
        """What is told next belongs to a branch."""
        self._open.append(self._draft.count)

    def end(self) -> None:
        """The branch that began last is over."""
        first = self._open.pop()
        if first < self._draft.count:
            self._found.append((first, self._draft.count))

    def close(self) -> None:
        """Tell the draft which events are branches."""
        if not self._found:
            return
        actor = self._draft.get_actor("system", "runtime")
        for first, end in sorted(set(self._found), key=lambda places: (places[0], -places[1])):
            self._draft.drop_branch(first, end, dict(self._data), actor)
