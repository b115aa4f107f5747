"""A turn under construction.

Text and arguments arrive in many small pieces. They are collected in lists and joined only when a
snapshot is taken, so that a long answer costs time linear in its length.
"""

from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from open_token.model.log_events import LogError
from open_token.model.session_types import ContentBlock, ToolCallProjection, TurnProjection


@dataclass(slots=True)
class BlockBuffer:
    """A block, and the text added since the last snapshot."""

    block: ContentBlock
    pieces: list[str] = field(default_factory=list)

    def snapshot(self) -> ContentBlock:
        """Return the block with all its text.

        The block is replaced, not changed: earlier snapshots stay as they were.
        """
        if self.pieces:
            content = (self.block.content or "") + "".join(self.pieces)
            self.block = replace(self.block, content=content)
            self.pieces = []
        return self.block


@dataclass(slots=True)
class CallBuffer:
    """A tool call, and the pieces of its arguments added since the last snapshot."""

    call: ToolCallProjection
    pieces: list[str] = field(default_factory=list)
    ended_at: str | None = None
    """When its result arrived."""

    def snapshot(self) -> ToolCallProjection:
        """Return the call with all its arguments."""
        if self.pieces:
            arguments = self.call.arguments + "".join(self.pieces)
            self.call = replace(self.call, arguments=arguments)
            self.pieces = []
        return self.call


@dataclass(slots=True)
class Turn:
    """A turn, and its position in the tree of the session."""

    facts: TurnProjection
    """Everything but blocks and calls, which are kept in the buffers below."""
    parent_id: str | None
    created_at: str
    checkpoint_id: str | None = None
    deprecated: tuple[str, ...] = ()
    """The entries that the branch which begins here hides from the model."""
    imported: bool = False
    patches: int = 0
    blocks: list[BlockBuffer] = field(default_factory=list)
    calls: dict[str, CallBuffer] = field(default_factory=dict)

    def add_text(self, block_type: Any, text: str, index: int | None) -> int:
        """Add text and return the index of the block that holds it.

        Without an index the text continues the last block if that is of the same type, and
        otherwise begins a new one.
        """
        end = len(self.blocks)
        if index is None:
            index = end - 1 if self._can_grow(end - 1, block_type) else end
        if index == end:
            self.blocks.append(BlockBuffer(ContentBlock(type=block_type, content=""), [text]))
        elif self._can_grow(index, block_type):
            self.blocks[index].pieces.append(text)
        else:
            raise LogError("text for a block that holds none")
        return index

    def _can_grow(self, index: int, block_type: Any) -> bool:
        if not 0 <= index < len(self.blocks):
            return False
        block = self.blocks[index].block
        return block.type == block_type and isinstance(block.content, str | None)

    def add_block(self, block: ContentBlock, index: int | None) -> int:
        """Append a block, or replace the one at an index; return its index."""
        end = len(self.blocks)
        if index is None or index == end:
            self.blocks.append(BlockBuffer(block))
            return end
        if not 0 <= index < end:
            raise LogError("block index is out of range")
        self.blocks[index] = BlockBuffer(block)
        return index

    def add_call(self, call: ToolCallProjection, index: int | None) -> int:
        """Add a call and the block that shows where it was made; return the block's index."""
        if call.id in self.calls:
            raise LogError("call exists already")
        block = ContentBlock(
            type="tool_use",
            tool_call_id=call.id,
            tool_name=call.tool_name,
            display_name=call.display_name or None,
        )
        index = self.add_block(block, index)
        self.calls[call.id] = CallBuffer(call)
        return index

    def get_call(self, tool_call_id: str) -> CallBuffer:
        """Return a call of this turn."""
        buffer = self.calls.get(tool_call_id)
        if buffer is None:
            raise LogError("call is not part of the turn")
        return buffer

    def change_call(self, tool_call_id: str, **changes: Any) -> None:
        """Replace a call by a changed copy."""
        buffer = self.get_call(tool_call_id)
        buffer.call = replace(buffer.snapshot(), **changes)

    def snapshot(self) -> TurnProjection:
        """Return the turn as it is now; later events do not change it."""
        calls = [buffer.snapshot() for buffer in self.calls.values()]
        blocks = [self._snapshot_block(buffer) for buffer in self.blocks]
        return replace(self.facts, blocks=blocks, tool_calls=calls)

    def _snapshot_block(self, buffer: BlockBuffer) -> ContentBlock:
        """Return a block; one that marks a tool call shows the call as it is now."""
        block = buffer.snapshot()
        if block.type != "tool_use" or block.content is not None:
            return block
        if block.tool_call_id not in self.calls:
            return block
        call = self.calls[block.tool_call_id].call
        content = {"id": call.id, "tool_name": call.tool_name, "arguments": call.arguments}
        return replace(block, content=content)
