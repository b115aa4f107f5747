"""Messages of the OpenAI chat dialect told to a draft, and its chunks merged: also as compatible
servers speak it."""

from collections.abc import Iterator
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.model_message import Body, Calls, Voice, counts, runs
from open_token.formats.shared.responses_content import arguments, kept, name_of, word
from open_token.jsontools.media import build_media_block, build_media_url_block
from open_token.model.document import Usage

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_SPOKEN_DELTAS = ("content", "refusal", *_THOUGHTS)


def usage(value: Any) -> Usage | None:
    """Token counts; the sums include cached and reasoning tokens."""
    if not isinstance(value, dict):
        return None
    prompt, output = value.get("prompt_tokens"), value.get("completion_tokens")
    reasoning = _inside(value, "completion_tokens_details", "reasoning_tokens")
    if type(reasoning) is type(prompt) is type(output) is int and reasoning > 0:
        # Gemini and Grok behind this dialect leave thoughts out of completion_tokens; their total
        # has them.
        output += reasoning if value.get("total_tokens") == prompt + output + reasoning else 0
    return counts(
        input_tokens=prompt,
        output_tokens=output,
        reasoning_tokens=reasoning,
        cache_read_tokens=_inside(value, "prompt_tokens_details", "cached_tokens"),
        cache_write_tokens=_inside(value, "prompt_tokens_details", "cache_write_tokens"),
    )


def _inside(value: Body, name: str, part: str) -> Any:
    details = value.get(name)
    return details.get(part) if isinstance(details, dict) else None


def objects(value: Any) -> list[Body]:
    """The objects of a list; nothing when it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def content(draft: Draft, value: Any, place: str) -> str | list[Any] | None:
    """One text as it is, anything else as a list of blocks; None when there is nothing."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        return [value]
    if len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
        text = value[0].get("text")
        if isinstance(text, str):
            return text
    return [_block(draft, part, place) for part in value] or None


def _block(draft: Draft, part: Any, place: str) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.get("refusal")}
    inner = part.get(kind) if isinstance(kind, str) else None
    made = _media_block(kind, inner)
    if made is None:
        draft.note_omission("unknown-part", place, f"part {name_of(kind)}, kept as it is")
    return part if made is None else made


def _media_block(kind: Any, inner: Any) -> Body | None:
    if kind in ("image_url", "audio_url", "video_url"):
        given = inner if isinstance(inner, dict) else {"url": inner}
        if isinstance(given.get("url"), str):
            return build_media_url_block(given["url"], kind.removesuffix("_url")) | kept(
                given, "detail"
            )
    if not isinstance(inner, dict):
        return None
    if kind == "input_audio" and isinstance(inner.get("data"), str):
        form = word(inner.get("format"))
        return build_media_block(f"audio/{form}" if form else None, inner["data"], "audio")
    if kind == "file":
        data = inner.get("file_data")
        if isinstance(data, str):
            return build_media_url_block(data, "file") | kept(inner, "filename", "file_id")
        return {"type": "file", **kept(inner, "filename", "file_id")}
    return None


def tell_assistant(voice: Voice, message: Body) -> None:
    """Thoughts, then words, then calls: in the order in which a model makes them."""
    before = voice.draft.count
    _tell_thoughts(voice, message)
    words = content(voice.draft, _without_thinking(message.get("content")), voice.place)
    calls = message.get("tool_calls")
    legacy = message.get("function_call")
    if words:
        voice.say(words)
        if cited := message.get("annotations") or message.get("citations"):
            voice.note("message_facts", citations=cited)
    if refusal := word(message.get("refusal")):
        voice.say(refusal)
        voice.note("message_facts", refusal=True)
    if isinstance(message.get("audio"), dict):
        voice.say([_audio(message["audio"])])
    for call in objects(calls):
        _tell_call(voice, call)
    if isinstance(legacy, dict):
        voice.call(None, word(legacy.get("name")) or "tool", arguments(legacy.get("arguments")))
    if voice.draft.count == before:
        if words is None:
            voice.draft.note_omission("empty-message", voice.place, "a message without content")
        else:
            voice.say("")


def _audio(audio: Body) -> Body:
    data = audio.get("data")
    block = build_media_block(None, data, "audio") if isinstance(data, str) else {"type": "audio"}
    return block | kept(audio, "id", "transcript")


def _tell_call(voice: Voice, call: Body) -> None:
    custom = call.get("custom")
    function = call.get("function")
    if isinstance(custom, dict):
        voice.call(
            word(call.get("id")), word(custom.get("name")) or "tool", {"input": custom.get("input")}
        )
    elif isinstance(function, dict):
        voice.call(
            word(call.get("id")),
            word(function.get("name")) or "tool",
            arguments(function.get("arguments")),
        )
    else:
        voice.draft.note_omission(
            "unknown-call", voice.place, f"tool call {name_of(call.get('type'))}"
        )


def _tell_thoughts(voice: Voice, message: Body) -> None:
    for thought in _thinking_parts(message.get("content")):
        voice.think(thought)
    plain = next(filter(None, (word(message.get(name)) for name in _THOUGHTS)), None)
    if plain is not None:
        voice.think(plain)
        return
    for detail in objects(message.get("reasoning_details")):
        text, summary = word(detail.get("text")), word(detail.get("summary"))
        if text or summary:
            voice.think(text or summary, summary=not text)
        elif word(detail.get("data")):
            voice.think(None)


def _is_thinking(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "thinking"


def _without_thinking(value: Any) -> Any:
    return [part for part in value if not _is_thinking(part)] if isinstance(value, list) else value


def _thinking_parts(value: Any) -> Iterator[str]:
    """Mistral puts thoughts among the parts of the content."""
    for part in value if isinstance(value, list) else ():
        if _is_thinking(part):
            pieces = [word(piece.get("text")) for piece in objects(part.get("thinking"))]
            text = "".join(filter(None, pieces)) or word(part.get("thinking"))
            if text:
                yield text


def tell_result(draft: Draft, calls: Calls, message: Body, place: str) -> None:
    """A message of the role tool, or of the older role function."""
    tool = word(message.get("name"))
    if "content" not in message:
        draft.note_omission("no-content", place, "a result without content")
    output = content(draft, message.get("content"), place)
    key = calls.key(word(message.get("tool_call_id")), tool)
    draft.add_tool_result(key, "" if output is None else output, tool=tool)


def gists(message: Any) -> list[Any]:
    """What a message says, for finding it again in the next request."""
    if not isinstance(message, dict):
        return [["odd", message]]
    role = str(message.get("role", "assistant"))
    value = message.get("content")
    parts: list[tuple[str, Any]] = [("text", value)] if isinstance(value, str) else []
    for part in objects(_without_thinking(value)):
        text = part.get("text")
        parts.append(
            ("text", text)
            if part.get("type") == "text" and isinstance(text, str)
            else ("part", part)
        )
    if role in ("tool", "function"):
        return [["result", runs(role, parts)]]
    if refusal := word(message.get("refusal")):
        parts.append(("text", refusal))
    for call in objects(message.get("tool_calls")):
        made = call.get("custom") or call.get("function")
        parts.append(("call", _call_gist(made)))
    if isinstance(message.get("function_call"), dict):
        parts.append(("call", _call_gist(message["function_call"])))
    return runs(role, parts)


def _call_gist(call: Any) -> list[Any]:
    return (
        [call.get("name"), arguments(call.get("arguments", call.get("input")))]
        if isinstance(call, dict)
        else []
    )


class Chunks:
    """Merges `chat.completion.chunk` objects: choices by index, tool calls by index, texts end to
    end."""

    def __init__(self) -> None:
        self._body: Body | None = None
        self._done = False

    def add(self, chunk: Body) -> Body | None:
        """Take a chunk; gives the response before it when the chunk begins another."""
        finished = self.end() if self._begins_another(chunk) else None
        body = self._body = self._body if self._body is not None else {"choices": []}
        for name, value in chunk.items():
            if name != "choices" and (value or name not in body):
                body[name] = value
        body["object"] = "chat.completion"
        for part in objects(chunk.get("choices")):
            _merge_choice(body["choices"], part)
            self._done = self._done or bool(part.get("finish_reason"))
        return finished

    def _begins_another(self, chunk: Body) -> bool:
        if self._body is None:
            return False
        old, new = self._body.get("id"), chunk.get("id")
        if old and new:
            return bool(old != new)
        starts = any(
            isinstance(c.get("delta"), dict) and c["delta"].get("role")
            for c in objects(chunk.get("choices"))
        )
        return self._done and starts

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        body, self._body, self._done = self._body, None, False
        return body


def _merge_choice(choices: list[Any], part: Body) -> None:
    index = part.get("index") if isinstance(part.get("index"), int) else 0
    choice = next((known for known in choices if known["index"] == index), None)
    if choice is None:
        choice = {
            "index": index,
            "message": {"role": "assistant", "content": None},
            "finish_reason": None,
        }
        choices.append(choice)
    if part.get("finish_reason"):
        choice["finish_reason"] = part["finish_reason"]
    delta = part.get("delta", part.get("message"))
    if isinstance(delta, dict):
        _merge_delta(choice["message"], delta)


def _merge_delta(message: Body, delta: Body) -> None:
    for name, value in delta.items():
        if (
            name in _SPOKEN_DELTAS
            and isinstance(value, str)
            and isinstance(message.get(name), str | None)
        ):
            message[name] = (message.get(name) or "") + value
        elif name == "tool_calls":
            calls = message["tool_calls"] = objects(message.get("tool_calls"))
            for call in objects(value):
                _merge_call(calls, call)
        elif name == "function_call" and isinstance(value, dict):
            message[name] = _merged_function(message.get(name), value)
        elif isinstance(value, list) and isinstance(message.get(name), list):
            message[name] = message[name] + value
        elif value is not None and name != "content":
            message[name] = value
        elif value is not None:
            message["content"] = value


def _merge_call(calls: list[Body], part: Body) -> None:
    index = part.get("index")
    if not isinstance(index, int):
        # Some servers send whole calls without an index.
        index = len(calls)
    call = next(
        (known for known in calls if known["index"] == index and _same_call(known, part)), None
    )
    if call is None:
        call = {"index": index}
        calls.append(call)
    for name, value in part.items():
        if name in ("function", "custom") and isinstance(value, dict):
            call[name] = _merged_function(call.get(name), value)
        elif value and name != "index":
            call[name] = value


def _same_call(known: Body, part: Body) -> bool:
    """Gemini behind this dialect gives every call index 0; another id is another call."""
    return not part.get("id") or not known.get("id") or known["id"] == part["id"]


def _merged_function(known: Any, part: Body) -> Body:
    function = dict(known) if isinstance(known, dict) else {}
    for name, value in part.items():
        if name in ("arguments", "input") and isinstance(value, str):
            function[name] = str(function.get(name) or "") + value
        elif value is not None:
            function[name] = value
    return function
