"""Joins the AIMessageChunks of a stream: texts end to end, calls by index, counts summed."""

from typing import Any

from open_token.model import Usage
from open_token.readers._langchain_messages import message_of, usage_of
from open_token.readers._said import Body, Said
from open_token.readers._wire_responses_content import word
from open_token.readers._wire_voice import counts

_SPREAD = frozenset(
    ("text", "thinking", "reasoning", "reasoning_content", "signature", "partial_json", "args")
)
_HALVES = ("input_json_delta", "tool_call_chunk", "tool_use")
_WEIGHTY = ("content", "tool_calls", "tool_call_chunks", "usage_metadata")
_COUNTS = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
)


class Chunks:
    """The chunks of one message."""

    def __init__(self) -> None:
        self._held: list[Body] = []

    def takes(self, fields: Body) -> bool:
        """Whether a chunk goes on with the message under way."""
        if not self._held:
            return True
        before = self._held[-1]
        same = before.get("id") == fields.get("id") or not (before.get("id") and fields.get("id"))
        # The Responses API: the first chunk has the id of the response and nothing else, the others
        # that of the run.
        opened = len(self._held) == 1 and not any(before.get(name) for name in _WEIGHTY)
        return (same or opened) and before.get("chunk_position") != "last"

    def add(self, fields: Body) -> None:
        """Take a chunk."""
        self._held.append(fields)

    def end(self) -> Said | None:
        """The message under way, when there is one."""
        held, self._held = self._held, []
        if not held:
            return None
        calls = _calls(held)
        joined: Body = {
            "content": _content([chunk.get("content") for chunk in held], bool(calls)),
            "tool_calls": calls,
            "name": next((chunk["name"] for chunk in held if word(chunk.get("name"))), None),
        }
        for name in ("additional_kwargs", "response_metadata"):
            joined[name] = _joined(
                [part for chunk in held if isinstance(part := chunk.get(name), dict)]
            )
        made = message_of("assistant", joined)
        counted = [usage for chunk in held if (usage := usage_of(chunk.get("usage_metadata")))]
        sums = {name: _sum(name, counted) for name in _COUNTS}
        made.usage = counts(**sums) or made.usage
        return made


def _sum(name: str, counted: list[Usage]) -> int | None:
    known = [count for usage in counted if type(count := usage.get(name)) is int]
    return sum(known) if known else None


def _joined(pieces: list[Body]) -> Body:
    """One value of many pieces: texts that are spread over them end to end, of anything else the
    last word."""
    spread: dict[str, list[str]] = {}
    made: Body = {}
    listed: list[Any] = []
    for piece in pieces:
        for name, item in piece.items():
            if name in _SPREAD and isinstance(item, str):
                spread.setdefault(name, []).append(item)
                made.setdefault(name, "")
            elif name == "summary" and isinstance(item, list):
                listed += item
            elif item is not None and (name != "type" or name not in made):
                made[name] = item
    if listed:
        made["summary"] = listed
    return made | {name: "".join(texts) for name, texts in spread.items()}


def _content(values: list[Any], without_calls: bool) -> Any:
    if all(isinstance(value, str | None) for value in values):
        return "".join(value or "" for value in values)
    blocks = _indexed(values)
    for block in blocks:
        if isinstance(block, dict) and isinstance(block.get("summary"), list):
            block["summary"] = _indexed([block["summary"]])
    # The pieces of a call's arguments stand in the tool_call_chunks too.
    return [
        block
        for block in blocks
        if not (without_calls and isinstance(block, dict) and block.get("type") in _HALVES)
    ]


def _indexed(values: list[Any]) -> list[Any]:
    """The blocks of all lists; those of one index are pieces of one."""
    groups: dict[Any, list[Any]] = {}
    for value in values:
        for block in value if isinstance(value, list) else [value] if value else []:
            index = block.get("index") if isinstance(block, dict) else None
            known = isinstance(index, int | str)
            groups.setdefault(("index", index) if known else ("alone", len(groups)), []).append(
                block
            )
    return [_joined(group) if isinstance(group[0], dict) else group[0] for group in groups.values()]


def _calls(held: list[Body]) -> list[Body]:
    made: dict[Any, list[Body]] = {}
    whole: list[Body] = []
    for number, chunk in enumerate(held):
        pieces, calls = chunk.get("tool_call_chunks"), chunk.get("tool_calls")
        if isinstance(pieces, list) and pieces:
            for piece in pieces:
                index = piece.get("index") if isinstance(piece, dict) else None
                known = isinstance(index, int | str)
                made.setdefault(index if known else ("chunk", number), []).append(piece)
        elif isinstance(calls, list):
            whole += [call for call in calls if isinstance(call, dict)]
    joined = [
        _joined([piece for piece in pieces if isinstance(piece, dict)]) for pieces in made.values()
    ]
    return [*joined, *whole]
