"""Rebuild a session from its log: each line sets, extends or deletes one field."""

from typing import Any

from open_token.agents.vscode_copilot.detect import DELETE, INITIAL, PUSH, is_patch
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import get_text
from open_token.sources.source import Source

Session = dict[str, Any]
_MAX_DEPTH = 64
_REQUESTS = ["requests"]


class PatchLog:
    """The state of a session after each patch, and the requests that patches removed."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.session: Session = {}
        self.removed: dict[int, list[Any]] = {}
        """Requests that were undone, by the number of the request that replaced the first."""
        self._owned: dict[int, Any] = {}
        """Containers that may be changed, by identity: records of the source stay as they are."""

    def read(self, source: Source) -> None:
        """Apply every patch; one that does not fit the state is noted and left out."""
        for number, record in source.records():
            if not is_patch(record):
                self._draft.note_omission("skipped-record", f"line {number}", "line is not a patch")
            elif not self._apply(record):
                self._draft.note_omission(
                    "broken-patch", f"line {number}", "a patch of something that is not there"
                )

    def _apply(self, patch: dict[str, Any]) -> bool:
        kind = patch["kind"]
        value = patch.get("v")
        if kind == INITIAL:
            if isinstance(value, dict):
                self.session = self._own(value)
            return isinstance(value, dict)
        path = patch.get("k")
        if not isinstance(path, list) or not 0 < len(path) <= _MAX_DEPTH:
            return False
        target: Any = self.session
        for step in path[:-1]:
            if not _has(target, step):
                return False
            if isinstance(target[step], dict | list):
                target[step] = self._own(target[step])
            target = target[step]
        if kind == PUSH:
            return self._push(target, path, value, patch.get("i"))
        if kind == DELETE:
            value = None
        return _assign(target, path[-1], value)

    def _own(self, container: Any) -> Any:
        """Return a container that may be changed: itself, or a copy at the first change."""
        if id(container) in self._owned:
            return container
        copy = container.copy()
        self._owned[id(copy)] = copy
        return copy

    def _push(self, target: Any, path: list[Any], values: Any, start: Any) -> bool:
        """Append values to a list, after everything from `start` on was removed."""
        items = target[path[-1]] if _has(target, path[-1]) else None
        if items is None:
            items = []
            if not _assign(target, path[-1], self._own(items)):
                return False
            items = target[path[-1]]
        if not isinstance(items, list) or not isinstance(values, list | None):
            return False
        added = values or []
        items = target[path[-1]] = self._own(items)
        if type(start) is int and 0 <= start < len(items):
            if path == _REQUESTS:
                self._keep_removed(start, items[start:], added)
            del items[start:]
        items.extend(added)
        return True

    def _keep_removed(self, start: int, removed: list[Any], added: list[Any]) -> None:
        ids = {get_text(request, "requestId") for request in added}
        undone = [request for request in removed if get_text(request, "requestId") not in ids]
        if undone:
            self.removed.setdefault(start, []).extend(undone)


def _has(target: Any, step: Any) -> bool:
    if isinstance(target, dict):
        return isinstance(step, str) and step in target
    return isinstance(target, list) and type(step) is int and 0 <= step < len(target)


def _assign(target: Any, step: Any, value: Any) -> bool:
    if isinstance(target, dict) and isinstance(step, str):
        target[step] = value
        return True
    if isinstance(target, list) and type(step) is int and 0 <= step <= len(target):
        target[step : step + 1] = [value]
        return True
    return False
