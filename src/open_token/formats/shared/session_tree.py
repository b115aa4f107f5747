"""The tree of sessions in a store, where a runtime keeps subagents as sessions of their own."""

from open_token.formats.shared.fields import JsonObject, get_text


class SessionTree:
    """The sessions of a store, by the session that started them."""

    def __init__(self, sessions: dict[str, JsonObject], parent: str = "parentID") -> None:
        self._parents: dict[str, str] = {}
        self._children: dict[str, list[str]] = {}
        for name, info in sessions.items():
            parent_name = get_text(info, parent)
            # A parent may have been deleted: what it started is then a session like any other.
            if parent_name is None or parent_name not in sessions or parent_name == name:
                continue
            self._parents[name] = parent_name
            self._children.setdefault(parent_name, []).append(name)
        self._roots: dict[str, str] = {}
        self.roots = [name for name in sessions if self.find_root(name) == name]
        """The sessions that a person started, in the order of the source."""

    def get_children(self, name: str) -> list[str]:
        """Return the sessions that one started."""
        return self._children.get(name, [])

    def find_root(self, name: str) -> str:
        """Return the first ancestor; of sessions in a cycle, the one that was asked about first."""
        path: list[str] = []
        seen: set[str] = set()
        current = name
        while current not in self._roots and current in self._parents and current not in seen:
            seen.add(current)
            path.append(current)
            current = self._parents[current]
        root = name if current in seen else self._roots.get(current, current)
        for step in path:
            self._roots[step] = root
        return root
