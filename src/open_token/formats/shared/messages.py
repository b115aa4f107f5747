"""A message of any framework in one form: who speaks, and what is said, thought, called and
answered."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from open_token.formats.shared.responses_content import arguments, kept, word
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

Body = dict[str, Any]

_TEXTS = frozenset(("text", "input_text", "output_text", "summary_text"))
_THOUGHTS = frozenset(
    (
        "thinking",
        "redacted_thinking",
        "reasoning",
        "reasoning_content",
        "thought",
        "redacted-reasoning",
    )
)
_CALLS = frozenset(
    "tool_use server_tool_use mcp_tool_use tool_call server_tool_call function_call custom_tool_call tool-call".split()
)
_ORDINARY_CALLS = frozenset(("tool_use", "tool_call", "function_call", "tool-call"))
RESULTS = frozenset(
    "tool_result tool_call_response server_tool_call_response server_tool_result function_call_output"
    " tool-result".split()
)
_MEDIA = frozenset(
    "image audio video file document blob uri binary media image_url audio_url video_url document_url input_audio"
    " input_image input_file image-url audio-url video-url document-url".split()
)
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "function": "tool"}


class Text(NamedTuple):
    """Words, or a block that is more than words."""

    content: str | list[Any]


class Thought(NamedTuple):
    """Hidden reasoning; None when it is sealed, empty when the source has none of its words."""

    text: str | None
    summary: bool = False


class Call(NamedTuple):
    """A call of a tool."""

    id: str | None
    tool: str
    arguments: Any
    extra: Body | None = None


class Result(NamedTuple):
    """What a tool gave back."""

    id: str | None
    output: Any
    tool: str | None = None
    facts: Body | None = None


Part = Text | Thought | Call | Result


@dataclass(slots=True)
class Said:
    """One message."""

    role: str
    parts: list[Part]
    name: str | None = None
    model: str | None = None
    provider: str | None = None
    ts: str | None = None
    usage: Usage | None = None
    facts: Body = field(default_factory=dict)
    odd: list[Any] = field(default_factory=list)
    """The kinds of blocks that are kept as they are because nobody knows them."""


def role_of(role: Any) -> str:
    """A role in the words of the record; what is no word is empty."""
    name = role.lower() if isinstance(role, str) else ""
    return _ROLES.get(name, name)


def first(body: Body, *names: str) -> Any:
    """The first of these fields that is there."""
    for name in names:
        if (value := body.get(name)) is not None:
            return value
    return None


def parts_of(content: Any, odd: list[Any]) -> list[Part]:
    """What the content of a message holds, in order."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    return [part_of(block, odd) for block in (content if isinstance(content, list) else [content])]


def part_of(block: Any, odd: list[Any]) -> Part:
    """One block of a message; one of a kind that is not known is kept as it is."""
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type", block.get("kind")) if isinstance(block, dict) else None
    if not isinstance(kind, str):
        odd.append(kind)
        return Text([block])
    if kind in _TEXTS:
        text = first(block, "text", "content")
        if isinstance(text, str):
            return (
                Text([block]) if block.get("citations") or block.get("annotations") else Text(text)
            )
    elif kind in _THOUGHTS:
        return _thought(block)
    elif kind in _CALLS:
        return call_of(block)
    elif kind in RESULTS or kind.endswith("_tool_result"):
        return result_of(block)
    elif kind in _MEDIA and (made := media_of(block, kind)) is not None:
        return Text([made])
    elif kind == "refusal" and isinstance(block.get("refusal"), str):
        return Text(block["refusal"])
    odd.append(kind)
    return Text([block])


def _thought(block: Body) -> Thought:
    inner = block.get("reasoning_content")
    held = inner if isinstance(inner, dict) else block
    for name in ("thinking", "reasoning", "reasoning_content", "content", "text", "reasoningText"):
        if isinstance(words := held.get(name), str) and words:
            return Thought(words)
    summary = held.get("summary")
    told = (
        [word(item.get("text")) for item in summary if isinstance(item, dict)]
        if isinstance(summary, list)
        else []
    )
    if any(told):
        return Thought("\n\n".join(filter(None, told)), summary=True)
    sealed = first(held, "data", "encrypted_content", "signature", "redactedContent")
    return Thought(None) if sealed else Thought("")


def call_of(block: Body) -> Call:
    """A call, in any of the names that frameworks give its fields."""
    function = block.get("function")
    held = function if isinstance(function, dict) else block
    kind = block.get("type")
    given = first(held, "input", "args", "arguments", "parameters", "server_tool_call")
    extra = (
        {"native_type": kind}
        if isinstance(kind, str) and kind in _CALLS - _ORDINARY_CALLS
        else None
    )
    name = word(first(held, "name", "toolName", "tool_name")) or "tool"
    return Call(
        word(first(block, "call_id", "id", "tool_call_id", "toolCallId")),
        name,
        arguments(given),
        extra,
    )


def result_of(block: Body) -> Result:
    """A result, in any of the names that frameworks give its fields."""
    given = first(block, "content", "response", "result", "output", "server_tool_call_response")
    facts: Body = {}
    if (
        block.get("is_error") is True
        or block.get("isError") is True
        or block.get("status") == "error"
    ):
        facts["is_error"] = True
    native = word(first(block, "tool_use_id", "tool_call_id", "call_id", "toolCallId", "id"))
    return Result(
        native, output_of(given), word(first(block, "name", "toolName", "tool_name")), facts or None
    )


def output_of(value: Any) -> Any:
    """An output: one text as it is, blocks with their media unpacked, anything else as it is."""
    if value is None:
        return ""
    if not isinstance(value, list):
        return value
    made = [_output_block(block) for block in value]
    if len(made) == 1 and isinstance(made[0], dict) and made[0].keys() == {"type", "text"}:
        return made[0]["text"]
    return made


def _output_block(block: Any) -> Any:
    kind = block.get("type", block.get("kind")) if isinstance(block, dict) else None
    if isinstance(kind, str):
        if kind in _TEXTS and isinstance(text := first(block, "text", "content"), str):
            return {"type": "text", "text": text}
        if kind in _MEDIA and (made := media_of(block, kind)) is not None:
            return made
    return block


def media_of(block: Body, kind: str) -> Body | None:
    """An image, a sound or a file: its bytes, or where they are; None when the block says
    neither."""
    inner = next(
        (
            block[name]
            for name in (kind, "source", kind.replace("-", "_"))
            if block.get(name) is not None
        ),
        None,
    )
    held = inner if isinstance(inner, dict) else block
    sort = word(block.get("modality")) or kind.removeprefix("input_").removesuffix(
        "_url"
    ).removesuffix("-url")
    mime = word(
        first(held, "mime_type", "mimeType", "media_type", "mediaType") or block.get("mime_type")
    )
    about = kept(held, "detail", "filename", "file_id", "title", "transcript", "provider") | kept(
        block, "name", "id"
    )
    data = first(held, "base64", "data", "file_data") or (
        held.get("content") if kind in ("blob", "binary") else None
    )
    address = first(held, "url", "uri", "image_url", "file_url") or (
        inner if isinstance(inner, str) else None
    )
    if isinstance(value := held.get("value"), str):
        data, address = (value, address) if held.get("type") == "data" else (data, value)
    if isinstance(form := held.get("format"), str) and mime is None:
        mime = f"{sort}/{form}"
    if isinstance(data, str):
        return (
            build_media_url_block(data, sort)
            if data.startswith("data:")
            else build_media_block(mime, data, sort)
        ) | about
    if isinstance(address, str):
        made = build_media_url_block(address, sort)
        return (
            made if mime is None or "media_type" in made else {**made, "media_type": mime}
        ) | about
    return {"type": sort, **({"media_type": mime} if mime else {}), **about} if about else None
