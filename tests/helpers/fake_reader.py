"""Readers for tests: formats that do not exist, registered beside the real ones."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from open_token import registry
from open_token.formats.definition import Format

_IN_DETECT = ("sniff", "peek", "peek_tail", "companion_file")
_IN_READER = ("read", "list_conversations", "find_owner", "parse_documents")


class FakeReader(registry.Reader):
    """A reader made of functions instead of modules."""

    def __init__(
        self, name: str, functions: dict[str, Callable[..., Any]], **definition: Any
    ) -> None:
        super().__init__(f"fake.{name}")
        facts: dict[str, Any] = {"title": name, "checked": "", "includes": "", "omits": ""}
        facts["holds_several"] = "list_conversations" in functions
        facts |= definition
        # They are cached properties: what stands in __dict__ is never imported.
        self.__dict__["definition"] = Format(name=name, **facts)
        self.__dict__["_detect"] = _take(functions, _IN_DETECT)
        self.__dict__["_reader"] = _take(functions, _IN_READER)


def _take(functions: dict[str, Callable[..., Any]], names: tuple[str, ...]) -> SimpleNamespace:
    return SimpleNamespace(**{name: functions[name] for name in names if name in functions})


def add_reader(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    places: tuple[str, ...] = (),
    title: str = "",
    **functions: Callable[..., Any],
) -> None:
    """Register one more reader, beside those that are there."""
    functions = {"sniff": lambda source: True, **functions}
    reader = FakeReader(name, functions, title=title or name, places=places)
    replace_readers(monkeypatch, {**registry.READERS, name: reader})


def replace_readers(monkeypatch: pytest.MonkeyPatch, readers: dict[str, registry.Reader]) -> None:
    """Register these readers and no others, in every module that imported the table."""
    for name, module in list(sys.modules.items()):
        if name.startswith("open_token.") and hasattr(module, "READERS"):
            monkeypatch.setattr(module, "READERS", readers)
