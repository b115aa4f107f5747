"""An answer of the model in Anthropic blocks, as runtimes keep it: its usage rides on one of its
events."""

from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.anthropic_blocks import THOUGHTS, kind_of, tell_block
from open_token.model.document import Usage, Visibility


def tell_answer(
    draft: Draft,
    blocks: list[Any],
    actor: str,
    *,
    ts: str | None = None,
    span: str | None = None,
    usage: Usage | None = None,
    group: object = None,
    visibility: Visibility = "public",
    called: Callable[[str, dict[str, Any]], None] | None = None,
) -> None:
    """Tell the blocks; the usage stands with the first that is no thought. `called` hears the key
    of each call."""
    last = None
    for block in blocks:
        first, is_thought = draft.count, kind_of(block) in THOUGHTS
        spent = None if is_thought else usage
        key = tell_block(
            draft, block, actor, ts=ts, span=span, usage=spent, group=group, visibility=visibility
        )
        if is_thought:
            last = f"evt_{draft.count:06d}"
        elif draft.count > first:
            usage = None
        if key is not None and called is not None:
            called(key, block)
    if usage and last:
        draft.set_usage(last, usage)
    elif usage:
        draft.add_annotation({"kind": "usage"}, actor=actor, ts=ts, span=span, usage=usage)
