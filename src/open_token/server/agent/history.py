"""What a model is told of a session: the turns of one loop on the current branch, from the last
compaction on."""

from typing import Any

from open_token.entries import Json
from open_token.reducer import State, Turn, branches
from open_token.server.agent.interface import Call, Media, Message, Part, Result, Text, Thinking
from open_token.turns import ROOT, ContentBlock, ToolCallProjection, TurnProjection

SUMMARY = "This is a summary of the conversation so far; what it is a summary of is not shown to you any more.\n\n"
_OPEN_REQUEST = "\n\nThe person's last message, which you are working on, was:\n\n"
_CANCELLED = {"error": "cancelled by the person"}
_WITHOUT = {"error": "there is no result of this call"}


def messages(state: State, *, loop_id: str = ROOT, model: str | None = None) -> list[Message]:
    """The history as a model sees it; thoughts and signatures only of the model that is named, or
    of all when none is.

    Every call has its result: one that was cancelled or never answered says so. Turns that failed
    are left out, and so is the system text of an imported document, which nobody vouches for."""
    left_out = branches.deprecated(state)
    own = [turn for turn in state.path if turn.facts.loop_id == loop_id]
    start = _last_compaction(own)
    made: list[Message] = []
    if start is not None:
        made.append(_summary(own, start))
    for turn in own[0 if start is None else start + 1 :]:
        if turn.facts.id not in left_out and turn.facts.status != "failed":
            made += _told(turn.whole(), model)
    return made


def last_words(state: State, loop_id: str = ROOT) -> str:
    """What the agent of a loop said in its last turn."""
    own = next((turn for turn in reversed(state.path) if _speaks(turn, loop_id)), None)
    if own is None:
        return ""
    return "".join(
        block.content
        for block in own.whole().blocks
        if block.type == "text" and isinstance(block.content, str)
    )


def _speaks(turn: Turn, loop_id: str) -> bool:
    facts = turn.facts
    return facts.loop_id == loop_id and facts.role == "assistant" and facts.kind == "message"


def _last_compaction(own: list[Turn]) -> int | None:
    places = range(len(own) - 1, -1, -1)
    ended = ("completed",)
    return next(
        (p for p in places if own[p].facts.kind == "compaction" and own[p].facts.status in ended),
        None,
    )


def _summary(own: list[Turn], place: int) -> Message:
    """A compaction: its summary; one that came while the agent worked also repeats what it works
    on."""
    facts = own[place].facts
    parts: list[Part] = [Text(f"{SUMMARY}{facts.summary_full or ''}")]
    if facts.trigger in ("auto", "forced_retry"):
        asked = next((turn for turn in reversed(own[:place]) if turn.facts.role == "user"), None)
        said = _user(asked.whole()) if asked else []
        if said:
            parts += [Text(_OPEN_REQUEST), *said]
    return Message("user", parts)


def _told(turn: TurnProjection, model: str | None) -> list[Message]:
    if turn.kind == "compaction" or turn.role == "system":
        return []
    if turn.role == "user":
        said = _user(turn)
        return [Message("user", said)] if said else []
    parts = [part for block in turn.blocks for part in _block(block, turn, model)]
    made = [Message("assistant", parts)] if parts else []
    shown = {part.id for part in parts if isinstance(part, Call)}
    results = [_result(call) for call in turn.tool_calls if call.id in shown]
    return [*made, Message("tool", results)] if results else made


def _block(block: ContentBlock, turn: TurnProjection, model: str | None) -> list[Part]:
    if block.type == "text" and isinstance(block.content, str) and block.content:
        return [Text(block.content)]
    is_own = model in (None, turn.model)
    if block.type == "thinking" and isinstance(block.content, str) and is_own:
        return [Thinking(block.content, _signature(block))]
    if block.type == "tool_use":
        call = next((call for call in turn.tool_calls if call.id == block.tool_call_id), None)
        if call is not None:
            return [
                Call(
                    call.id,
                    call.tool_name,
                    call.arguments or "{}",
                    _signature(call) if is_own else None,
                )
            ]
    return []


def _signature(signed: ContentBlock | ToolCallProjection) -> str | None:
    """What the provider signed a thought or a call with; only the model that had them may see it
    again."""
    signature = signed.more.get("signature") if isinstance(signed.more, dict) else None
    return signature if isinstance(signature, str) else None


def _result(call: ToolCallProjection) -> Result:
    if call.status in ("done", "error"):
        return Result(call.id, call.tool_name, call.result, call.status == "error")
    return Result(
        call.id, call.tool_name, _CANCELLED if call.status == "cancelled" else _WITHOUT, True
    )


def _user(turn: TurnProjection) -> list[Part]:
    """What the person said; an answer to a question is the result of the call that asked, and
    stands there."""
    parts: list[Part] = []
    quotes = turn.more.get("quotes") if isinstance(turn.more, dict) else None
    for quote in quotes if isinstance(quotes, list) else ():
        words = quote.get("text") if isinstance(quote, dict) else quote
        if isinstance(words, str):
            parts.append(Text("\n".join(f"> {line}" for line in words.splitlines())))
    for block in turn.blocks:
        if block.type != "text":
            continue
        listed = (
            block.content
            if isinstance(block.content, list)
            else [{"type": "text", "text": block.content}]
        )
        parts += [part for item in listed if isinstance(item, dict) for part in _said(item)]
    return parts


def _said(item: Json) -> list[Part]:
    if item.get("type") == "text":
        return [Text(item["text"])] if isinstance(item.get("text"), str) and item["text"] else []
    if item.get("type") == "image_url":
        held = item.get("image_url")
        url = held.get("url") if isinstance(held, dict) else held
        return [Media(_media_type(url), url=url)] if isinstance(url, str) else []
    return _file(item.get("file", item)) if item.get("type") == "file" else []


def _media_type(url: str) -> str:
    """The kind of a data: address says itself; of another it is only known that it is a picture."""
    if url.startswith("data:"):
        return url[5:].partition(",")[0].partition(";")[0] or "application/octet-stream"
    return "image/*"


def _file(held: Any) -> list[Part]:
    """A file: its data where they came along, else its name, under which a tool may find it."""
    if isinstance(held, str):
        return [Text(f"[file: {held}]")]
    url = held.get("url") or held.get("file_data") if isinstance(held, dict) else None
    names = ("path", "name", "filename") if isinstance(held, dict) else ()
    name = next((held[key] for key in names if isinstance(held.get(key), str)), "")
    if isinstance(url, str) and url.startswith("data:"):
        return [Media(_media_type(url), url=url, name=name)]
    return [Text(f"[file: {name or 'without a name'}]")]
