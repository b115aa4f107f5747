"""Which session was started by which, where a runtime keeps subagents as sessions of their own."""

from open_token.formats.shared.fields import Record, word_in


class Lineage:
    """The sessions of a store, as trees."""

    def __init__(self, sessions: dict[str, Record], parent: str = "parentID") -> None:
        self._parents = {
            name: above
            for name, info in sessions.items()
            if (above := word_in(info, parent)) and above in sessions and above != name
        }
        self._children: dict[str, list[str]] = {}
        for child, above in self._parents.items():
            self._children.setdefault(above, []).append(child)
        self._roots: dict[str, str] = {}
        self.roots = [name for name in sessions if self.root_of(name) == name]
        """The sessions that a person started, in the order of the source."""

    def children(self, name: str) -> list[str]:
        """The sessions that one started."""
        return self._children.get(name, [])

    def root_of(self, name: str) -> str:
        """The session at the beginning; of sessions in a ring, the one that was asked about
        first."""
        path: list[str] = []
        seen: set[str] = set()
        here = name
        while here not in self._roots and here in self._parents and here not in seen:
            seen.add(here)
            path.append(here)
            here = self._parents[here]
        root = name if here in seen else self._roots.get(here, here)
        for step in path:
            self._roots[step] = root
        return root
