"""Folds patches into turns: what a client that saw them all would show."""

from dataclasses import dataclass, field
from typing import Any

from open_token.draft import Draft
from open_token.readers._said import Body
from open_token.readers._session_shapes import is_patch, is_turn
from open_token.readers._wire_responses_content import name_of, word


@dataclass(slots=True)
class _Block:
    """A block that may still grow."""

    fields: Body
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> Body:
        if not self.pieces:
            return self.fields
        before = self.fields.get("content")
        return {**self.fields, "content": (before if isinstance(before, str) else "") + "".join(self.pieces)}


@dataclass(slots=True)
class _Turn:
    """A turn under way."""

    fields: Body
    blocks: list[_Block] = field(default_factory=list)
    calls: dict[str, Body] = field(default_factory=dict)
    patches: dict[int, Body] = field(default_factory=dict)
    """The patches so far by number: a client that connects again is sent some of them twice."""

    def replace(self, turn: Body) -> None:
        """The whole turn as the server has it: nothing of what was folded before counts any more."""
        self.fields = {**self.fields, **turn}
        blocks, calls = turn.get("blocks"), turn.get("tool_calls")
        self.blocks = [_Block(block) for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
        listed = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        self.calls = {word(call.get("id")) or str(number): call for number, call in enumerate(listed)}

    def whole(self) -> Body:
        blocks = [block.whole() for block in self.blocks]
        return {**self.fields, "blocks": blocks, "tool_calls": list(self.calls.values())}


class Aside(dict[str, Any]):
    """Something between turns that is no turn: the data of an annotation."""


class Turns:
    """The turns of a session, in the order in which they began."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._turns: dict[str, _Turn] = {}
        self._order: list[_Turn | Aside] = []

    def take(self, record: Any, place: str) -> bool:
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

    def aside(self, data: Body) -> None:
        """Something happened between the turns."""
        self._order.append(Aside(data))

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
            turn.calls[word(data.get("id")) or str(len(turn.calls))] = data
        elif kind in ("tool_result", "set_tool_status"):
            self._change_call(turn, data, place)
        elif kind == "set_status":
            turn.fields = {**turn.fields, **data}
        else:
            self._draft.skip("unknown-patch", place, f"patch {name_of(kind)}")

    def _change_call(self, turn: _Turn, data: Body, place: str) -> None:
        name = word(data.get("tool_call_id"))
        if name is None:
            self._draft.skip("unknown-patch", place, "a change of a call that has no id")
            return
        known = turn.calls.get(name, {"id": name})
        turn.calls[name] = {**known, **{key: value for key, value in data.items() if key != "tool_call_id"}}


def _add_content(turn: _Turn, data: Body) -> None:
    """A block, or more of one: `text_delta` is the new piece, `content` all there is of the block so far."""
    index, delta, content = data.get("block_index"), data.get("text_delta"), data.get("content")
    fields = {name: value for name, value in data.items() if name not in ("block_index", "text_delta")}
    last = turn.blocks[-1] if turn.blocks else None
    known: _Block | None = None
    if isinstance(index, int):
        known = turn.blocks[index] if 0 <= index < len(turn.blocks) else None
    elif last is not None and isinstance(delta, str) and last.fields.get("type") == data.get("type"):
        known = last if content is None or _goes_on(last, content, delta) else None
    if known is None:
        block = _Block({**fields, "content": content if content is not None else ""})
        turn.blocks.append(block)
        if content is None and isinstance(delta, str):
            block.pieces.append(delta)
    elif isinstance(delta, str):
        known.pieces.append(delta)
    else:
        known.fields, known.pieces = {**known.fields, **fields}, []


def _goes_on(block: _Block, content: Any, delta: str) -> bool:
    """Whether a piece continues a block: the block is then as long as all there is of it, without the piece."""
    if not isinstance(content, str):
        return False
    before = block.fields.get("content")
    length = sum(map(len, block.pieces)) + (len(before) if isinstance(before, str) else 0)
    return length + len(delta) == len(content)
