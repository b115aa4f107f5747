"""Whole exports of files with one or many conversations: shared by the tests over chat exports and
recordings."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from open_token.context import Context
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format, list_conversations
from open_token.sources.source import Source
from open_token.validation.validate import validate

ALL = {
    "include": "include-internal",
    "internal": "full",
    "branches": "all",
    "redact": "none",
    "exported_at": "omit",
    "pretty": "false",
}


def documents(source: Source, **words: str) -> Iterator[dict[str, Any]]:
    """Every conversation of a source as a document that breaks no rule."""
    reader = detect_format(source)
    found = list_conversations(source, reader)
    for item in found or [None]:
        source.conversation = item.id if item and len(found) > 1 else None
        out = io.BytesIO()
        export(source, out, Context(ExportOptions.of(ALL | words)), reader)
        made = json.loads(out.getvalue())
        assert [problem for problem in validate(made) if problem.severity == "error"] == []
        yield made


def everything(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """The reader that claims a file, and all its conversations."""
    return detect_format(Source.of(path)), list(documents(Source.of(path)))


def join_texts(made: list[dict[str, Any]]) -> str:
    """Everything that exports say, one string after another."""
    return "\n".join(words(made))


def words(value: Any) -> Iterator[str]:
    """Every string of a value, without keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from words(item)
    elif isinstance(value, list):
        for item in value:
            yield from words(item)
