"""The tree of messages in the export of a chat product: the active line and abandoned branches."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import JsonObject, as_text

NODE = "node"
BEGIN = "begin"
END = "end"


def walk_tree(
    parents: Mapping[str, str | None], leaf: str | None, rank: Mapping[str, int] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield every node once, after its parent, as (step, key).

    A step is NODE, or BEGIN and END around an abandoned branch. `parents` is in source order. The
    line that ends in `leaf` is the active one; without a leaf it follows the last child
    everywhere. Branches come where they fork off, before the line continues. `rank` orders
    siblings.
    """
    parent_of = _break_cycles(parents)
    children: dict[str | None, list[str]] = {}
    for key, parent in parent_of.items():
        children.setdefault(parent, []).append(key)
    if rank:
        for siblings in children.values():
            siblings.sort(key=lambda key: rank.get(key, len(parent_of)))
    active = set()
    node = leaf if leaf in parent_of else None
    while node is not None:
        active.add(node)
        node = parent_of[node]
    # An explicit stack: conversations are deeper than Python recurses.
    stack = _plan_fork(children.get(None, []), active)
    while stack:
        step, key = stack.pop()
        yield step, key
        if step == NODE:
            stack += _plan_fork(children.get(key, []), active)


def _plan_fork(siblings: list[str], active: set[str]) -> list[tuple[str, str]]:
    """Return the steps for siblings, in the order of a stack: abandoned branches come off first."""
    if not siblings:
        return []
    chosen = next((key for key in siblings if key in active), siblings[-1])
    steps = [(NODE, chosen)]
    for key in reversed(siblings):
        if key != chosen:
            steps += [(END, key), (NODE, key), (BEGIN, key)]
    return steps


def _break_cycles(parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return parents that exist and lead to a root; a node that is its own ancestor becomes one."""
    parent_of = {key: parent if parent in parents else None for key, parent in parents.items()}
    done: set[str] = set()
    for start in parent_of:
        path: dict[str, None] = {}
        key: str | None = start
        while key is not None and key not in done and key not in path:
            path[key] = None
            key = parent_of[key]
        if key is not None and key in path:
            parent_of[next(reversed(path))] = None
        done.update(path)
    return parent_of


class BranchRecorder:
    """Records where branches begin and end, and drops them at the end, outer before inner."""

    def __init__(self, draft: Draft, detail: str) -> None:
        self._draft = draft
        self._data: dict[str, Any] = {"kind": "abandoned_branch", "detail": detail}
        self._open: list[int] = []
        self._branches: list[tuple[int, int]] = []

    def begin(self) -> None:
        """Begin a branch with the next event."""
        self._open.append(self._draft.count)

    def end(self) -> None:
        """End the branch that began last."""
        first = self._open.pop()
        if first < self._draft.count:
            self._branches.append((first, self._draft.count))

    def close(self) -> None:
        """Drop the branches from the draft."""
        if not self._branches:
            return
        actor = self._draft.get_actor("system", "runtime")
        branches = sorted(set(self._branches), key=lambda places: (places[0], -places[1]))
        for first, end in branches:
            self._draft.drop_branch(first, end, dict(self._data), actor)


class MessageTree:
    """The messages of a conversation that name their parents, in the order of the source.

    `id_fields` and `parent_fields` are the names under which versions of the format give the id of
    a message and of its parent. Where no message names a parent that is there, each message
    follows the one before it: an unknown name of a field must not tear a conversation apart.
    """

    def __init__(
        self, draft: Draft, id_fields: tuple[str, ...], parent_fields: tuple[str, ...]
    ) -> None:
        self._draft = draft
        self._id_fields = id_fields
        self._parent_fields = parent_fields
        self._messages: dict[str, tuple[JsonObject, str]] = {}
        """Messages by id, each with its position."""

    def add(self, message: Any, place: str) -> None:
        """Add the next message."""
        if not isinstance(message, dict):
            self._draft.note_omission("unknown-record", place, "a message that is not an object")
            return
        message_id = _get_first(message, self._id_fields)
        if not message_id or message_id in self._messages:
            message_id = f"\0{len(self._messages)}"
        self._messages[message_id] = (message, place)

    def read(self, leaf: str | None, read_message: Callable[[JsonObject, str], None]) -> None:
        """Read every message after its parent; the line that ends in `leaf` is the active one.

        Without a known leaf it is the line of the last message.
        """
        if leaf not in self._messages:
            leaf = next(reversed(self._messages), None)
        branches = BranchRecorder(self._draft, "another message took its place")
        for step, key in walk_tree(self._find_parents(), leaf):
            if step == NODE:
                read_message(*self._messages[key])
            elif step == BEGIN:
                branches.begin()
            else:
                branches.end()
        branches.close()

    def _find_parents(self) -> dict[str, str | None]:
        """Return the parent of every message; without one, it follows the message before it."""
        named: dict[str, str | None] = {}
        for key, (message, _) in self._messages.items():
            named[key] = _get_first(message, self._parent_fields)
        # Exports that lost the other messages name parents that nobody has: a list, no tree.
        is_tree = any(parent in self._messages for parent in named.values())
        parents: dict[str, str | None] = {}
        previous: str | None = None
        for key, (message, _) in self._messages.items():
            # A field that is null names the root; a missing one says nothing.
            has_field = any(name in message for name in self._parent_fields)
            if is_tree and has_field:
                parents[key] = named[key]
            else:
                parents[key] = previous
            previous = key
        return parents


def _get_first(message: JsonObject, names: tuple[str, ...]) -> str | None:
    for name in names:
        value = as_text(message.get(name))
        if value:
            return value
    return None
