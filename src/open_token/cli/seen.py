"""`export --report`: what an export holds of its source, seen while it is written; loaded only when
asked for."""

from importlib import import_module
from typing import Any

from open_token.cli.console import Console
from open_token.model import Event, Note, Record
from open_token.sources.source import Source


class Seen:
    """A witness of the export."""

    def __init__(self) -> None:
        self._witness = import_module("open_token.fidelity").Witness()

    def meet(self, record: Record) -> None:
        """The facts about the whole."""
        self._witness.meet(record)

    def take(self, event: Event) -> None:
        """One event."""
        self._witness.take(event)

    def tell(
        self, source: Source, reader: str, notes: list[Note], console: Console
    ) -> dict[str, Any]:
        """Say it, and give it for scripts."""
        report = import_module("open_token.fidelity").judge(source, reader, self._witness, notes)
        for line in import_module("open_token.cli.fidelity").lines(report):
            if not line.startswith("skipped"):
                console.say(line)
        return dict(report.as_json())
