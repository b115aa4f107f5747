"""Folds patches into turns as a client does: whoever saw all that was sent has the turns of the
server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]


def is_turn(value: Any) -> bool:
    """Whether a value is the projection of a turn."""
    if (
        not isinstance(value, dict)
        or "loop_id" not in value
        or not isinstance(value.get("turn_id"), str)
    ):
        return False
    return isinstance(value.get("blocks"), list) or value.get("kind") == "compaction"


def is_patch(value: Any) -> bool:
    """Whether a value is a change of a turn on its way to a client."""
    return (
        isinstance(value, dict) and isinstance(value.get("patch_type"), str) and "turn_id" in value
    )


@dataclass(slots=True)
class _Block:
    """A block that may still grow."""

    fields: Body
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    """Of all the words so far."""

    def __post_init__(self) -> None:
        content = self.fields.get("content")
        self.length = len(content) if isinstance(content, str) else 0

    def grow(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def whole(self) -> Body:
        if self.pieces:
            before = self.fields.get("content")
            words = (before if isinstance(before, str) else "") + "".join(self.pieces)
            self.fields, self.pieces = {**self.fields, "content": words}, []
        return self.fields


@dataclass(slots=True)
class _Call:
    """A call whose arguments may still grow."""

    fields: Body
    pieces: list[str] = field(default_factory=list)

    def change(self, changes: Body) -> None:
        piece = changes.pop("arguments_delta", None)
        if isinstance(piece, str):
            self.pieces.append(piece)
        self.fields = {**self.fields, **changes}

    def whole(self) -> Body:
        if self.pieces:
            before = self.fields.get("arguments")
            words = (before if isinstance(before, str) else "") + "".join(self.pieces)
            self.fields, self.pieces = {**self.fields, "arguments": words}, []
        return self.fields


@dataclass(slots=True)
class _Turn:
    """A turn under way."""

    fields: Body
    blocks: list[_Block] = field(default_factory=list)
    calls: dict[str, _Call] = field(default_factory=dict)
    patches: dict[int, Body] = field(default_factory=dict)
    """The patches so far by number: a client that connects again is sent some of them twice."""

    def replace(self, turn: Body) -> None:
        """The whole turn as the server has it: nothing of what was folded before counts any
        more."""
        self.fields = {**self.fields, **turn}
        blocks, calls = turn.get("blocks"), turn.get("tool_calls")
        self.blocks = (
            [_Block(block) for block in blocks if isinstance(block, dict)]
            if isinstance(blocks, list)
            else []
        )
        listed = (
            [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        )
        self.calls = {_name(call) or str(number): _Call(call) for number, call in enumerate(listed)}

    def whole(self) -> Body:
        calls = {name: call.whole() for name, call in self.calls.items()}
        blocks = [_shown(block.whole(), calls) for block in self.blocks]
        return {**self.fields, "blocks": blocks, "tool_calls": list(calls.values())}


def _shown(block: Body, calls: dict[str, Body]) -> Body:
    """A block; one that only marks where a call was made shows the call."""
    name = block.get("tool_call_id")
    if (
        block.get("type") == "tool_use"
        and block.get("content") is None
        and isinstance(name, str)
        and name in calls
    ):
        return {
            **block,
            "content": {key: calls[name].get(key) for key in ("id", "tool_name", "arguments")},
        }
    return block


class Aside(dict[str, Any]):
    """Something between turns that is no turn: the data of an annotation, and when it happened, if
    that is known."""

    at: str | None = None


class Patched:
    """The turns of a session, in the order in which they began."""

    def __init__(self, odd: Callable[[str, str], None] = lambda place, kind: None) -> None:
        self._odd = odd
        """Is told of patches that say nothing: the place, and the kind or what is wrong."""
        self._turns: dict[str, _Turn] = {}
        self._order: list[_Turn | Aside] = []

    def take(self, record: Any, place: str = "") -> bool:
        """Take a turn or a patch; gives whether it was one."""
        if is_turn(record):
            self._turn(record["turn_id"], record).replace(record)
        elif is_patch(record):
            self._patch(record, place)
        else:
            return False
        return True

    def whole(self) -> list[Body]:
        """Every turn, with all that was told of it."""
        return [turn.whole() if isinstance(turn, _Turn) else turn for turn in self._order]

    def turn(self, turn_id: str) -> Body:
        """One turn."""
        return self._turns[turn_id].whole()

    def aside(self, data: Body) -> None:
        """Something happened between the turns."""
        self._order.append(Aside(data))

    def change(self, turn_id: str, **fields: Any) -> None:
        """Fields of a turn that were told in another way than by a patch."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.fields = {**turn.fields, **fields}

    def _turn(self, name: Any, record: Body) -> _Turn:
        known = self._turns.get(str(name))
        if known is None:
            about: Body = {key: record[key] for key in ("turn_id", "loop_id") if key in record}
            known = self._turns[str(name)] = _Turn({"role": "assistant", **about})
            self._order.append(known)
        return known

    def _patch(self, patch: Body, place: str) -> None:
        turn = self._turn(patch["turn_id"], patch)
        number, data = patch.get("sequence"), patch.get("data")
        data = data if isinstance(data, dict) else {}
        if isinstance(number, int):
            if turn.patches.get(number) == patch:
                return
            turn.patches[number] = patch
        kind = patch["patch_type"]
        if isinstance(snapshot := data.get("turn"), dict) and is_turn(snapshot):
            turn.replace(snapshot)
        elif kind == "add_content":
            _add_content(turn, data)
        elif kind == "add_tool_call":
            _add_call(turn, data)
        elif kind in ("tool_result", "set_tool_status"):
            self._change_call(turn, data, place)
        elif kind == "set_status":
            turn.fields = {**turn.fields, **data}
        else:
            self._odd(place, kind)

    def _change_call(self, turn: _Turn, data: Body, place: str) -> None:
        name = data.get("tool_call_id")
        if not isinstance(name, str) or not name:
            self._odd(place, "")
            return
        known = turn.calls.setdefault(name, _Call({"id": name}))
        known.change({key: value for key, value in data.items() if key != "tool_call_id"})


def _name(call: Body) -> str | None:
    name = call.get("id")
    return name if isinstance(name, str) and name else None


def _add_call(turn: _Turn, data: Body) -> None:
    """A call; with a place it is also a block, which shows where it was made."""
    fields = {name: value for name, value in data.items() if name != "block_index"}
    name = _name(fields) or str(len(turn.calls))
    turn.calls[name] = _Call(fields)
    if isinstance(index := data.get("block_index"), int) and index == len(turn.blocks):
        about = {
            "tool_name": data.get("tool_name"),
            "display_name": data.get("display_name") or None,
        }
        turn.blocks.append(
            _Block({"type": "tool_use", "content": None, "tool_call_id": name, **about})
        )


def _add_content(turn: _Turn, data: Body) -> None:
    """A block, or more of one: `text_delta` is the new piece, `content` all there is of the block
    so far."""
    index, delta, content = data.get("block_index"), data.get("text_delta"), data.get("content")
    fields = {
        name: value for name, value in data.items() if name not in ("block_index", "text_delta")
    }
    last = turn.blocks[-1] if turn.blocks else None
    known: _Block | None = None
    if isinstance(index, int):
        known = turn.blocks[index] if 0 <= index < len(turn.blocks) else None
    elif (
        last is not None and isinstance(delta, str) and last.fields.get("type") == data.get("type")
    ):
        known = last if content is None or _goes_on(last, content, delta) else None
    if known is None:
        turn.blocks.append(
            _Block(
                {
                    **fields,
                    "content": delta if content is None and isinstance(delta, str) else content,
                }
            )
        )
    elif isinstance(delta, str):
        known.grow(delta)
    elif isinstance(index, int):
        turn.blocks[index] = _Block(fields if "content" in fields else {**known.whole(), **fields})


def _goes_on(block: _Block, content: Any, delta: str) -> bool:
    """Whether a piece continues a block: the block is then as long as all there is of it, without
    the piece."""
    return isinstance(content, str) and block.length + len(delta) == len(content)
