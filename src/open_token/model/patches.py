"""Apply turn patches as a client does: all patches together rebuild the turns of the server."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from open_token.jsontools.objects import omit_keys

Body = dict[str, Any]


def is_turn(value: Any) -> bool:
    """Return whether a value is the projection of a turn."""
    if not isinstance(value, dict) or "loop_id" not in value:
        return False
    if not isinstance(value.get("turn_id"), str):
        return False
    return isinstance(value.get("blocks"), list) or value.get("kind") == "compaction"


def is_patch(value: Any) -> bool:
    """Return whether a value is a patch of a turn."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("patch_type"), str) and "turn_id" in value


@dataclass(slots=True)
class _Block:
    """A block that may still grow."""

    fields: Body
    pieces: list[str] = field(default_factory=list)
    length: int = 0
    """The length of all text so far."""

    def __post_init__(self) -> None:
        content = self.fields.get("content")
        self.length = len(content) if isinstance(content, str) else 0

    def add_text(self, piece: str) -> None:
        self.pieces.append(piece)
        self.length += len(piece)

    def snapshot(self) -> Body:
        if self.pieces:
            self.fields = _join_pieces(self.fields, "content", self.pieces)
            self.pieces = []
        return self.fields


@dataclass(slots=True)
class _Call:
    """A tool call whose arguments may still grow."""

    fields: Body
    pieces: list[str] = field(default_factory=list)

    def change(self, changes: Body) -> None:
        piece = changes.pop("arguments_delta", None)
        if isinstance(piece, str):
            self.pieces.append(piece)
        self.fields = {**self.fields, **changes}

    def snapshot(self) -> Body:
        if self.pieces:
            self.fields = _join_pieces(self.fields, "arguments", self.pieces)
            self.pieces = []
        return self.fields


def _join_pieces(fields: Body, name: str, pieces: list[str]) -> Body:
    """Return the fields with the pieces appended to the text of one of them."""
    text = fields.get(name)
    start = text if isinstance(text, str) else ""
    return {**fields, name: start + "".join(pieces)}


@dataclass(slots=True)
class _Turn:
    """A turn under construction."""

    fields: Body
    blocks: list[_Block] = field(default_factory=list)
    calls: dict[str, _Call] = field(default_factory=dict)
    patches: dict[int, Body] = field(default_factory=dict)
    """The patches so far by number: a client that reconnects receives some of them twice."""

    def replace(self, turn: Body) -> None:
        """Replace everything by a whole turn of the server."""
        self.fields = {**self.fields, **turn}
        self.blocks = [_Block(block) for block in _get_objects(turn, "blocks")]
        self.calls = {}
        for index, call in enumerate(_get_objects(turn, "tool_calls")):
            self.calls[_get_call_id(call) or str(index)] = _Call(call)

    def snapshot(self) -> Body:
        calls = {call_id: call.snapshot() for call_id, call in self.calls.items()}
        blocks = [_show_call(block.snapshot(), calls) for block in self.blocks]
        return {**self.fields, "blocks": blocks, "tool_calls": list(calls.values())}


def _get_objects(turn: Body, name: str) -> list[Body]:
    items = turn.get(name)
    if not isinstance(items, list):
        return []
    return [item for item in items if isinstance(item, dict)]


def _show_call(block: Body, calls: dict[str, Body]) -> Body:
    """Return a block; one that only marks the position of a call shows the call."""
    if block.get("type") != "tool_use" or block.get("content") is not None:
        return block
    call_id = block.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in calls:
        return block
    call = calls[call_id]
    return {**block, "content": {name: call.get(name) for name in ("id", "tool_name", "arguments")}}


class Aside(dict[str, Any]):
    """The data of an annotation between turns, and its time if that is known."""

    at: str | None = None


class TurnPatcher:
    """The turns of a session, in the order in which they were opened."""

    def __init__(self, odd: Callable[[str, str], None] = lambda place, kind: None) -> None:
        self._report_unknown = odd
        """Called for patches without effect: their position, and the patch type or ""."""
        self._turns: dict[str, _Turn] = {}
        self._order: list[_Turn | Aside] = []

    def take(self, record: Any, place: str = "") -> bool:
        """Apply a turn or a patch; return whether the record was one."""
        if is_turn(record):
            self._ensure_turn(record["turn_id"], record).replace(record)
        elif is_patch(record):
            self._apply_patch(record, place)
        else:
            return False
        return True

    def whole(self) -> list[Body]:
        """Return all turns and asides in order."""
        return [item.snapshot() if isinstance(item, _Turn) else item for item in self._order]

    def turn(self, turn_id: str) -> Body:
        """Return one turn."""
        return self._turns[turn_id].snapshot()

    def aside(self, data: Body) -> None:
        """Add something that happened between turns."""
        self._order.append(Aside(data))

    def change(self, turn_id: str, **fields: Any) -> None:
        """Set fields of a turn that arrived in another event than a patch."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            turn.fields = {**turn.fields, **fields}

    def _ensure_turn(self, turn_id: Any, record: Body) -> _Turn:
        turn = self._turns.get(str(turn_id))
        if turn is None:
            ids: Body = {name: record[name] for name in ("turn_id", "loop_id") if name in record}
            turn = _Turn({"role": "assistant", **ids})
            self._turns[str(turn_id)] = turn
            self._order.append(turn)
        return turn

    def _apply_patch(self, patch: Body, place: str) -> None:
        turn = self._ensure_turn(patch["turn_id"], patch)
        number = patch.get("sequence")
        if isinstance(number, int):
            if turn.patches.get(number) == patch:
                return
            turn.patches[number] = patch
        data = patch.get("data")
        if not isinstance(data, dict):
            data = {}
        patch_type = patch["patch_type"]
        whole_turn = data.get("turn")
        if isinstance(whole_turn, dict) and is_turn(whole_turn):
            turn.replace(whole_turn)
        elif patch_type == "add_content":
            _add_content(turn, data)
        elif patch_type == "add_tool_call":
            _add_call(turn, data)
        elif patch_type in ("tool_result", "set_tool_status"):
            self._change_call(turn, data, place)
        elif patch_type == "set_status":
            _set_fields(turn, data)
        else:
            self._report_unknown(place, patch_type)

    def _change_call(self, turn: _Turn, data: Body, place: str) -> None:
        call_id = data.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            self._report_unknown(place, "")
            return
        call = turn.calls.setdefault(call_id, _Call({"id": call_id}))
        call.change(omit_keys(data, "tool_call_id"))


def _set_fields(turn: _Turn, data: Body) -> None:
    """Set fields of a turn; a model call that is repeated also resets blocks and calls."""
    if isinstance(data.get("blocks"), list):
        turn.replace(data)
    else:
        turn.fields = {**turn.fields, **data}


def _get_call_id(call: Body) -> str | None:
    call_id = call.get("id")
    if isinstance(call_id, str) and call_id:
        return call_id
    return None


def _add_call(turn: _Turn, data: Body) -> None:
    """Add a call; with a block index, also add the block that shows where it was made."""
    fields = omit_keys(data, "block_index")
    call_id = _get_call_id(fields) or str(len(turn.calls))
    turn.calls[call_id] = _Call(fields)
    index = data.get("block_index")
    if isinstance(index, int) and index == len(turn.blocks):
        block = {
            "type": "tool_use",
            "content": None,
            "tool_call_id": call_id,
            "tool_name": data.get("tool_name"),
            "display_name": data.get("display_name") or None,
        }
        turn.blocks.append(_Block(block))


def _add_content(turn: _Turn, data: Body) -> None:
    """Add a block, or extend one.

    `text_delta` is the new piece of text, `content` the whole content of the block so far.
    """
    delta = data.get("text_delta")
    fields = omit_keys(data, "block_index", "text_delta")
    block = _find_block(turn, data)
    if block is None:
        content = data.get("content")
        if content is None and isinstance(delta, str):
            content = delta
        turn.blocks.append(_Block({**fields, "content": content}))
    elif isinstance(delta, str):
        block.add_text(delta)
    elif isinstance(data.get("block_index"), int):
        if "content" not in fields:
            fields = {**block.snapshot(), **fields}
        turn.blocks[data["block_index"]] = _Block(fields)


def _find_block(turn: _Turn, data: Body) -> _Block | None:
    """Return the block that content belongs to; None if it begins a new one."""
    index = data.get("block_index")
    if isinstance(index, int):
        if 0 <= index < len(turn.blocks):
            return turn.blocks[index]
        return None
    delta = data.get("text_delta")
    if not turn.blocks or not isinstance(delta, str):
        return None
    last = turn.blocks[-1]
    if last.fields.get("type") != data.get("type"):
        return None
    content = data.get("content")
    if content is None:
        return last
    # A delta continues the block if both together are as long as the content that was sent.
    if isinstance(content, str) and last.length + len(delta) == len(content):
        return last
    return None
