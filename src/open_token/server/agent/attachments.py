"""Files of messages as the model sees them: text, images and PDF, or a note that names them."""

from collections.abc import Sequence

import msgspec

from open_token.server.agent.model_interface import Attachment, Media, Message, Part, Text
from open_token.server.agent.models.inputs import (
    find_size_limit,
    get_file_kind,
    list_accepted,
)
from open_token.server.agent.run_context import RunContext
from open_token.server.agent.tool_results import MAX_CHARACTERS, truncate_middle

MAX_REQUEST_BYTES = 20 << 20
"""Bytes of images and documents in one request; the newest take precedence."""


async def expand_attachments(context: RunContext, messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a history with the files that people sent as the model takes them."""
    accepted = list_accepted(context.model.name, context.settings, context.services.config)
    remaining = MAX_REQUEST_BYTES
    expanded: list[Message] = []
    # From the newest to the oldest: the newest files get the room.
    for message in reversed(messages):
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, Attachment):
                shown = await _expand(context, part, accepted, remaining)
                remaining -= sum(len(item.data) for item in shown if isinstance(item, Media))
                parts += shown
            elif isinstance(part, Media) and get_file_kind(part.media_type) not in accepted:
                parts.append(Text(f"[{part.name or part.media_type}: not shown to this model]"))
            else:
                parts.append(part)
        expanded.append(Message(message.role, parts))
    expanded.reverse()
    return expanded


async def _expand(
    context: RunContext, file: Attachment, accepted: frozenset[str], remaining: int
) -> list[Attachment | Media]:
    kind = get_file_kind(file.media_type)
    if kind == "text":
        return [await _read_text(context, file)]
    limit = find_size_limit(context.model.name, kind)
    if kind not in accepted or (limit is not None and file.size > limit):
        return [_describe(file, "not shown: this model does not take it")]
    if file.size > remaining:
        return [_describe(file, "not shown: newer files take all the room")]
    data = await context.services.store.read_blob(context.owner, context.session_id, file.sha256)
    if data is None:
        return [_describe(file, "not shown: its content is lost")]
    # Providers pass on no names, by which the model may call tools.
    name = _describe(file, "shown below")
    return [name, Media(file.media_type, data=data, name=file.name, detail=file.detail)]


async def _read_text(context: RunContext, file: Attachment) -> Attachment:
    data = await context.services.store.read_blob(context.owner, context.session_id, file.sha256)
    if data is None:
        return _describe(file, "not shown: its content is lost")
    # At four characters a token, this is at most a quarter of the context window.
    max_characters = min(MAX_CHARACTERS, context.context_window)
    text = truncate_middle(data.decode("utf-8-sig", "replace"), max_characters)
    return msgspec.structs.replace(file, text=f'<file name="{_get_place(file)}">\n{text}\n</file>')


def _describe(file: Attachment, why: str) -> Attachment:
    text = f"[file {_get_place(file)}, {file.media_type}, {file.size} bytes, {why}]"
    return msgspec.structs.replace(file, text=text)


def _get_place(file: Attachment) -> str:
    return file.path or file.name
