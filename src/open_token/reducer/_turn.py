"""A turn that still grows: words are kept in pieces, so that a long answer costs no more than its
length."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from open_token.entries import LogFault
from open_token.turns import ContentBlock, ToolCallProjection, TurnProjection

replace = msgspec.structs.replace


@dataclass(slots=True)
class Growing:
    """A block, and the words that came to it since it was last put together."""

    block: ContentBlock
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> ContentBlock:
        """The block with all its words; a new one when words came, so that who has the old one
        keeps it."""
        if self.pieces:
            self.block = replace(
                self.block, content=(self.block.content or "") + "".join(self.pieces)
            )
            self.pieces = []
        return self.block


@dataclass(slots=True)
class Calling:
    """A call, the pieces of its arguments that came since it was last put together, and when its
    result came."""

    call: ToolCallProjection
    pieces: list[str] = field(default_factory=list)
    ended_at: str | None = None

    def whole(self) -> ToolCallProjection:
        """The call with all its arguments."""
        if self.pieces:
            self.call = replace(self.call, arguments=self.call.arguments + "".join(self.pieces))
            self.pieces = []
        return self.call


@dataclass(slots=True)
class Turn:
    """A turn, and its place in the tree of the session."""

    facts: TurnProjection
    """All of it but for blocks and calls."""
    parent_id: str | None
    created_at: str
    checkpoint_id: str | None = None
    deprecated: tuple[str, ...] = ()
    """The entries that the branch which begins here leaves out of what the model sees."""
    imported: bool = False
    patches: int = 0
    blocks: list[Growing] = field(default_factory=list)
    calls: dict[str, Calling] = field(default_factory=dict)

    def grow(self, kind: Any, text: str, index: int | None) -> int:
        """Add words; gives the place of the block that has them now."""
        last = len(self.blocks) - 1
        if index is None:
            goes_on = last >= 0 and self.blocks[last].block.type == kind and self._is_text(last)
            index = last if goes_on else last + 1
        if index == last + 1:
            self.blocks.append(Growing(ContentBlock(type=kind, content=""), [text]))
        elif 0 <= index <= last and self.blocks[index].block.type == kind and self._is_text(index):
            self.blocks[index].pieces.append(text)
        else:
            raise LogFault("words for a block that has none")
        return index

    def _is_text(self, index: int) -> bool:
        return isinstance(self.blocks[index].block.content, str | None)

    def add_block(self, block: ContentBlock, index: int | None) -> int:
        """Add a block at the end, or put it in the place of another; gives its place."""
        last = len(self.blocks) - 1
        if index is None or index == last + 1:
            self.blocks.append(Growing(block))
            return last + 1
        if not 0 <= index <= last:
            raise LogFault("a block for a place that the turn does not have")
        self.blocks[index] = Growing(block)
        return index

    def add_call(self, call: ToolCallProjection, index: int | None) -> int:
        """Add a call and the block that shows where it was made; gives the place of the block."""
        if call.id in self.calls:
            raise LogFault("a call that the turn has already")
        place = self.add_block(_shown(call), index)
        self.calls[call.id] = Calling(call)
        return place

    def calling(self, tool_call_id: str) -> Calling:
        """A call of this turn."""
        known = self.calls.get(tool_call_id)
        if known is None:
            raise LogFault("a call that the turn does not have")
        return known

    def change_call(self, tool_call_id: str, **changes: Any) -> None:
        """Change a call; who has it as it was keeps that."""
        known = self.calling(tool_call_id)
        known.call = replace(known.whole(), **changes)

    def whole(self) -> TurnProjection:
        """The turn as it is now; what comes later does not change it."""
        calls = [calling.whole() for calling in self.calls.values()]
        blocks = [self._shown(growing) for growing in self.blocks]
        return replace(self.facts, blocks=blocks, tool_calls=calls)

    def _shown(self, growing: Growing) -> ContentBlock:
        """A block; one that shows a call shows it as it is by now."""
        block = growing.whole()
        if block.type == "tool_use" and block.content is None and block.tool_call_id in self.calls:
            return replace(block, content=_declared(self.calls[block.tool_call_id].call))
        return block


def _shown(call: ToolCallProjection) -> ContentBlock:
    return ContentBlock(
        type="tool_use",
        tool_call_id=call.id,
        tool_name=call.tool_name,
        display_name=call.display_name or None,
    )


def _declared(call: ToolCallProjection) -> dict[str, Any]:
    return {"id": call.id, "tool_name": call.tool_name, "arguments": call.arguments}
