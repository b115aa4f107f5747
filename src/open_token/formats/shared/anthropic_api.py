"""Content blocks of the Anthropic Messages API told to a draft, and its stream events merged."""

from typing import Any

from open_token.formats.shared.anthropic_blocks import (
    THOUGHTS,
    content_of,
    kind_of,
    output_of,
    tell_block,
)
from open_token.formats.shared.model_message import Body, Voice, runs
from open_token.formats.shared.responses_content import arguments, kept, word
from open_token.model.document import Role

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_BESIDE = ("compaction", "fallback")
_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}


def blocks(content: Any) -> list[Any]:
    """The blocks of a content that may be a plain text."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _text(block: Any) -> str | None:
    text = block.get("text") if kind_of(block) == "text" else None
    return text if isinstance(text, str) else None


class Telling:
    """The blocks of one message, in order; what stands side by side and is said, not done, becomes
    one event."""

    def __init__(self, voice: Voice, role: Role) -> None:
        self._voice = voice
        self._role = role
        self._held: list[Any] = []

    def tell(self, content: Any) -> None:
        before = self._voice.draft.count
        for block in blocks(content):
            kind = kind_of(block) or ""
            if (
                kind in THOUGHTS
                or kind in _BESIDE
                or kind in _CALLS
                or kind.endswith("tool_result")
            ):
                self._say()
                self._do(block, kind)
            else:
                self._held.append(block)
        self._say()
        if self._voice.draft.count == before:
            self._voice.say("", self._role)

    def _do(self, block: Body, kind: str) -> None:
        """Tell a block that is more than words."""
        voice = self._voice
        if kind in THOUGHTS:
            voice.think(word(block.get("thinking")))
        elif kind in _CALLS:
            given = block.get("input")
            extra = kept(block, "server_name", "caller") | (
                {"native_type": kind} if kind != "tool_use" else {}
            )
            voice.call(
                word(block.get("id")),
                word(block.get("name")) or "tool",
                {} if given is None else given,
                extra,
            )
        elif kind in _BESIDE:
            tell_block(voice.draft, block, voice.actor, ts=voice.ts)
        else:
            output = block.get("content")
            failed = block.get("is_error") is True or (kind_of(output) or "").endswith("_error")
            facts = {"is_error": True} if failed else None
            voice.answer(word(block.get("tool_use_id")), output_of(output), facts=facts)

    def _say(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        texts = [_text(block) for block in held]
        if (
            any(isinstance(block, dict) and block.get("citations") for block in held)
            and None not in texts
        ):
            # One answer, cut where its sources change.
            self._voice.say("".join(text for text in texts if text), self._role)
            self._voice.note("message_facts", citations=_citations(held))
        else:
            self._voice.say(content_of(held), self._role)


def _citations(held: list[Body]) -> list[Body]:
    """The sources of a text that came in pieces, each with the characters it stands behind."""
    made: list[Body] = []
    start = 0
    for block in held:
        end = start + len(block["text"])
        cited = block.get("citations")
        for citation in cited if isinstance(cited, list) else ():
            made.append({"start": start, "end": end, "citation": citation})
        start = end
    return made


def gists(message: Any) -> list[Any]:
    """What a message says, for finding it again in the next request."""
    if not isinstance(message, dict):
        return [["odd", message]]
    parts: list[tuple[str, Any]] = []
    for block in blocks(message.get("content")):
        kind = kind_of(block)
        if kind in THOUGHTS:
            continue
        if (text := _text(block)) is not None:
            parts.append(("text", text))
        elif kind in _CALLS:
            parts.append(("call", [block.get("name"), block.get("input")]))
        elif kind is not None and kind.endswith("tool_result"):
            parts.append(("result", _plain(block.get("content"))))
        else:
            parts.append(("block", kind))
    return runs(str(message.get("role", "assistant")), parts)


def _plain(content: Any) -> Any:
    """A result as it is compared: a text and a list with only that text are the same."""
    return [
        text if (text := _text(block)) is not None else block for block in blocks(content)
    ] or content


class Events:
    """Merges the events of a message stream: blocks by index, deltas end to end."""

    def __init__(self) -> None:
        self._body: Body | None = None
        self._blocks: dict[Any, Body] = {}

    def add(self, chunk: Body) -> Body | None:
        """Take an event; gives the response before it when the event begins another."""
        kind = chunk.get("type")
        finished = self.end() if kind == "message_start" else None
        if kind == "message_start":
            message = chunk.get("message")
            self._body = dict(message) if isinstance(message, dict) else {}
        elif kind == "content_block_start" and isinstance(chunk.get("content_block"), dict):
            self._blocks[self._index(chunk)] = dict(chunk["content_block"])
        elif kind == "content_block_delta" and isinstance(chunk.get("delta"), dict):
            _merge(self._blocks.setdefault(self._index(chunk), {"type": "text"}), chunk["delta"])
        elif kind == "message_delta":
            self._merge_message(chunk)
        elif kind == "error" and isinstance(chunk.get("error"), dict):
            self._body = {**(self._body or {}), "error": chunk["error"]}
        return finished

    def _index(self, chunk: Body) -> Any:
        index = chunk.get("index")
        return index if isinstance(index, int) else len(self._blocks)

    def _merge_message(self, chunk: Body) -> None:
        body = self._body = self._body if self._body is not None else {}
        if isinstance(chunk.get("delta"), dict):
            body |= chunk["delta"]
        spent, old = chunk.get("usage"), body.get("usage")
        if isinstance(spent, dict):
            known = {name: count for name, count in spent.items() if count is not None}
            body["usage"] = (old if isinstance(old, dict) else {}) | known
        body |= kept(chunk, "context_management")

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        body, self._body = self._body, None
        made, self._blocks = list(self._blocks.values()), {}
        if body is None and not made:
            return None
        for block in made:
            if "partial_json" in block:
                text = block.pop("partial_json")
                block["input"] = arguments(text) if text else block.get("input")
        whole: Body = {"type": "message", "role": "assistant", "stop_reason": None, **(body or {})}
        return {**whole, "content": made or whole.get("content", [])}


def _merge(block: Body, delta: Body) -> None:
    kind = kind_of(delta) or ""
    if kind == "input_json_delta" and isinstance(delta.get("partial_json"), str):
        block["partial_json"] = str(block.get("partial_json") or "") + delta["partial_json"]
    elif kind == "citations_delta" and "citation" in delta:
        known = block.get("citations")
        block["citations"] = [*(known if isinstance(known, list) else ()), delta["citation"]]
    elif kind in _DELTAS and isinstance(delta.get(_DELTAS[kind]), str):
        name = _DELTAS[kind]
        block[name] = str(block.get(name) or "") + delta[name]
