"""The calls that started a subagent and wait for it: finds the one that a subagent belongs to,
however many wait."""

from collections import deque

import msgspec

from open_token.readers._claude_records import Record, text_in


class Spawn(msgspec.Struct):
    """A call that starts a subagent and has no result yet."""

    key: str
    arguments: Record
    actor: str
    uuid: str | None
    number: int = 0
    """Its place among all of them."""
    taken: bool = False

    @property
    def kind(self) -> str | None:
        return text_in(self.arguments, "subagent_type")


class Spawns:
    """Those calls by what a subagent may know of its own: the prompt, the kind, nothing."""

    def __init__(self) -> None:
        self._open: dict[str, Spawn] = {}
        self._waiting: dict[tuple[str, str | None], deque[Spawn]] = {}
        self._count = 0

    def __contains__(self, key: object) -> bool:
        return key in self._open

    def add(self, spawn: Spawn) -> None:
        """One more call; the same one told again takes the place of the first."""
        self.answer(spawn.key)
        self._count += 1
        spawn.number = self._count
        self._open[spawn.key] = spawn
        for name in (
            ("prompt", text_in(spawn.arguments, "prompt")),
            ("kind", spawn.kind),
            ("any", None),
        ):
            self._waiting.setdefault(name, deque()).append(spawn)

    def answer(self, key: str) -> Spawn | None:
        """The call gets its result: no subagent can be its own any more."""
        spawn = self._open.pop(key, None)
        if spawn:
            spawn.taken = True
        return spawn

    def take(self, prompt: object, kind: str | None) -> Spawn | None:
        """The call that started a subagent: the one with its prompt, else the first of its kind
        that has none."""
        found = self._first(("prompt", prompt)) if isinstance(prompt, str) else None
        if found is None:
            names = [("any", None)] if kind is None else [("kind", kind), ("kind", None)]
            alike = [spawn for name in names if (spawn := self._first(name))]
            found = min(alike, key=lambda spawn: spawn.number, default=None)
        if found:
            found.taken = True
        return found

    def _first(self, name: tuple[str, str | None]) -> Spawn | None:
        waiting = self._waiting.get(name)
        while waiting and waiting[0].taken:
            waiting.popleft()
        return waiting[0] if waiting else None
