"""What a tool reported beyond what the model saw of it.

The output that the model gets is truncated, and ends when a command runs on for longer than the
model waits. The event about the end of the call has more of it, or all.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.jsontools.walk import iter_strings, parse_embedded_json
from open_token.model.document import Event

_OUTPUT_HEADING = "Output:\n"
# Both bound the memory and the time per output; what is no longer known is exported twice.
_MAX_SHOWN = 32
_MAX_PENDING = 16


class _Report(NamedTuple):
    """What a tool reported about a call, in an annotation to be."""

    values: dict[str, Any]
    result: Event | None
    call_id: str | None
    ts: str | None


class UnseenOutputs:
    """Adds annotations with what tools reported and the model did not see."""

    def __init__(self, draft: Draft, span: str | None) -> None:
        self._draft = draft
        self._span = span
        self._shown: dict[str, Any] = {}
        """The latest outputs that the model saw, by call."""
        self._pending: list[_Report] = []
        """Output of commands that ran on: the model may still ask for it."""

    def add_shown(self, call_id: str | None, output: Any) -> None:
        """Remember an output that the model saw."""
        self._pending = [item for item in self._pending if _find_unseen(item.values, output)]
        if call_id is None:
            return
        self._shown[call_id] = output
        if len(self._shown) > _MAX_SHOWN:
            del self._shown[next(iter(self._shown))]

    def add_report(
        self,
        values: dict[str, Any],
        call_id: str | None,
        result: Event | None,
        ts: str | None,
        *,
        ran_on: bool = False,
    ) -> None:
        """Annotate a result with what its tool reported and the model did not see.

        For a command that ran on this waits until the turn ends.
        """
        unseen = _find_unseen(values, self._shown.get(call_id or ""))
        if not unseen:
            return
        self._pending.append(_Report(unseen, result, call_id, ts))
        if not ran_on:
            self._annotate(self._pending.pop())
        elif len(self._pending) > _MAX_PENDING:
            self._annotate(self._pending.pop(0))

    def flush(self) -> None:
        """Annotate what the model did not ask for before its turn ended."""
        for report in self._pending:
            self._annotate(report)
        self._pending.clear()

    def _annotate(self, report: _Report) -> None:
        data: dict[str, Any] = {"kind": "unseen_output"}
        if report.result is None and report.call_id:
            data["native_call_id"] = report.call_id
        self._draft.add_annotation(
            data | report.values, parent=report.result, ts=report.ts, span=self._span
        )


def _find_unseen(values: dict[str, Any], shown: Any) -> dict[str, Any]:
    """Return those of the values that an output does not hold."""
    return {name: value for name, value in values.items() if not _is_shown(value, shown)}


def _is_shown(value: Any, shown: Any) -> bool:
    """Return whether an output holds a value: as it is, or every part of it.

    The model gets the result of an MCP server as JSON, below a header and in another form.
    """
    if value is None or value == "":
        return True
    if isinstance(value, str) and any(value in text for text in iter_strings(shown)):
        return True
    return set(_iter_parts(value)) <= set(_iter_parts(shown))


def _iter_parts(value: Any) -> Iterator[str]:
    """Yield every text and number of a value, also of the JSON in its strings, without keys."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            body = item.partition(_OUTPUT_HEADING)[2] or item
            inner = parse_embedded_json(body)
            if inner is None:
                yield body
            else:
                stack.append(inner)
        elif isinstance(item, dict):
            # The types of content blocks are not part of what the tool returned.
            stack += [part for key, part in item.items() if key != "type"]
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, int | float):
            yield str(item)
