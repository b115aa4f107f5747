"""Contents and parts of the Gemini API told to a draft, and its partial responses merged."""

from functools import cache
from typing import Any

from open_token.formats.shared.model_message import Body, Voice, counts, runs
from open_token.formats.shared.responses_content import kept, word
from open_token.jsontools.media import build_media_block
from open_token.model.document import Role, Usage

_CODE = "code_execution"
ODD = "\0odd"
"""Where a merged response holds the pieces that could not be merged."""
_ENOUGH = (
    "finishReason",
    "groundingMetadata",
    "citationMetadata",
    "safetyRatings",
    "urlContextMetadata",
)
"""What a candidate may hold without a content, as in the last piece of a stream."""
_UNSAID = ("thought", "thoughtSignature", "thought_signature")


def either(value: Any, name: str) -> Any:
    """A field in the spelling of the wire (camelCase) or of the libraries (snake_case)."""
    if not isinstance(value, dict):
        return None
    found = value.get(name)
    return value.get(_snake(name)) if found is None else found


@cache
def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def usage(value: Any) -> Usage | None:
    """Token counts: the API counts thoughts apart from the answer, and what its tools read apart
    from the prompt."""
    if not isinstance(value, dict):
        return None
    return counts(
        input_tokens=_sum(value, "promptTokenCount", "toolUsePromptTokenCount"),
        output_tokens=_sum(value, "candidatesTokenCount", "thoughtsTokenCount"),
        reasoning_tokens=either(value, "thoughtsTokenCount"),
        cache_read_tokens=either(value, "cachedContentTokenCount"),
    )


def _sum(value: Body, *names: str) -> int | None:
    found = [count for name in names if type(count := either(value, name)) is int]
    return sum(found) if found else None


def parts(content: Any) -> list[Body]:
    """The parts of a content, which the libraries let be a plain text."""
    if isinstance(content, str):
        return [{"text": content}]
    held = content.get("parts") if isinstance(content, dict) else content
    if isinstance(held, dict):
        held = [held]
    made = (
        [{"text": part} if isinstance(part, str) else part for part in held]
        if isinstance(held, list)
        else []
    )
    return [part for part in made if isinstance(part, dict)]


def prompt(content: Any) -> str | list[Any]:
    """A system instruction: one text as it is, anything else as a list of blocks."""
    return _shown(parts(content))


def tell(voice: Voice, content: Any, role: Role) -> None:
    """Tell the parts in order; what stands side by side and is said, not done, becomes one
    event."""
    before = voice.draft.count
    held: list[Body] = []
    for part in parts(content):
        if _is_said(part):
            held.append(part)
            continue
        _say(voice, held, role)
        held = []
        _do(voice, part)
    _say(voice, held, role)
    if voice.draft.count == before:
        voice.say("", role)


def _is_said(part: Body) -> bool:
    return part.get("thought") is not True and _done(part) is None


def _is_thought(part: Body) -> bool:
    return part.get("thought") is True and _done(part) is None


def _done(part: Body) -> str | None:
    """The name of what a part does, when it is more than words."""
    if _DOING.isdisjoint(part):
        return None
    return next((name for name in _DONE if isinstance(either(part, name), dict)), None)


def _say(voice: Voice, held: list[Body], role: Role) -> None:
    """Say what has something in it: a signature often rides on an empty text."""
    spoken = [
        part for part in held if any(value for name, value in part.items() if name not in _UNSAID)
    ]
    if spoken:
        voice.say(_shown(spoken), role)


def _shown(held: list[Body]) -> str | list[Any]:
    if len(held) == 1 and isinstance(held[0].get("text"), str):
        return str(held[0]["text"])
    return [_block(part) for part in held]


def _block(part: Body) -> Any:
    if isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if isinstance(data := either(part, "inlineData"), dict) and isinstance(data.get("data"), str):
        kind = word(either(data, "mimeType"))
        return build_media_block(kind, data["data"], _sort(kind)) | _named(data)
    if isinstance(file := either(part, "fileData"), dict):
        kind = word(either(file, "mimeType"))
        block: Body = {"type": _sort(kind), "url": either(file, "fileUri")}
        return block | ({"media_type": kind} if kind else {}) | _named(file)
    return part


def _sort(media_type: str | None) -> str:
    sort = (media_type or "").partition("/")[0]
    return sort if sort in ("image", "audio", "video") else "file"


def _named(data: Body) -> Body:
    name = word(either(data, "displayName"))
    return {"name": name} if name else {}


def _do(voice: Voice, part: Body) -> None:
    """Tell a part that is more than words."""
    if _is_thought(part):
        text = word(part.get("text"))
        voice.think(text, summary=text is not None)
        return
    for name, tell_part in _DONE.items():
        inner = either(part, name)
        if isinstance(inner, dict):
            tell_part(voice, inner)
            return


def _function_call(voice: Voice, call: Body) -> None:
    given = call.get("args")
    voice.call(
        word(call.get("id")), word(call.get("name")) or "tool", {} if given is None else given
    )


def _function_response(voice: Voice, answer: Body) -> None:
    output = answer.get("response")
    if media_parts := parts(answer.get("parts")):
        output = [output, *(_block(part) for part in media_parts)]
    voice.answer(word(answer.get("id")), "" if output is None else output, word(answer.get("name")))


def _executable_code(voice: Voice, code: Body) -> None:
    voice.call(word(code.get("id")), _CODE, kept(code, "language", "code"))


def _code_result(voice: Voice, result: Body) -> None:
    outcome = result.get("outcome")
    facts = {"outcome": outcome} if outcome not in (None, "OUTCOME_OK") else None
    output = result.get("output")
    voice.answer(
        word(result.get("id")), "" if output is None else output, _CODE, facts, latest=True
    )


def _tool_call(voice: Voice, call: Body) -> None:
    given = call.get("args")
    tool = word(either(call, "toolType")) or "tool"
    voice.call(
        word(call.get("id")), tool, {} if given is None else given, {"native_type": "toolCall"}
    )


def _tool_response(voice: Voice, answer: Body) -> None:
    output = answer.get("response")
    voice.answer(
        word(answer.get("id")), "" if output is None else output, word(either(answer, "toolType"))
    )


_DONE = {
    "functionCall": _function_call,
    "functionResponse": _function_response,
    "executableCode": _executable_code,
    "codeExecutionResult": _code_result,
    "toolCall": _tool_call,
    "toolResponse": _tool_response,
}
_DOING = frozenset((*_DONE, *map(_snake, _DONE)))


def gists(content: Any) -> list[Any]:
    """What a content says, for finding it again in the next request."""
    role = content.get("role") if isinstance(content, dict) else None
    made: list[tuple[str, Any]] = []
    for part in parts(content):
        if _is_thought(part):
            continue
        done = _done(part)
        if done is not None:
            inner = either(part, done)
            made.append(
                (
                    done,
                    {
                        name: value
                        for name, value in inner.items()
                        if name != "id" and value not in ({}, None)
                    },
                )
            )
        elif isinstance(part.get("text"), str):
            made.append(("text", part["text"]))
        else:
            made.append(("part", sorted(part)))
    return runs("model" if role == "model" else "user", made)


def is_odd(candidate: Body) -> bool:
    """Whether a candidate has nothing in it that is known, or a content with something else than
    parts."""
    content = candidate.get("content")
    if parts(content):
        return False
    if not ("content" in candidate or any(either(candidate, name) for name in _ENOUGH)):
        return True
    return bool(content) and not (isinstance(content, dict) and content.keys() <= {"role", "parts"})


class Partials:
    """Merges partial responses: candidates by index, texts of one kind end to end."""

    def __init__(self) -> None:
        self._body: Body | None = None

    def add(self, chunk: Body) -> Body | None:
        """Take a partial response; gives the response before it when this one begins another."""
        finished = self.end() if self._begins_another(chunk) else None
        body = self._body = self._body if self._body is not None else {}
        for name, value in chunk.items():
            if name != "candidates":
                body[name] = value
        known = body.setdefault("candidates", [])
        given = chunk.get("candidates")
        for candidate in given if isinstance(given, list) else () if given is None else (given,):
            if not isinstance(candidate, dict) or is_odd(candidate):
                body.setdefault(ODD, []).append(candidate)
            if isinstance(candidate, dict):
                _merge_candidate(known, candidate)
        return finished

    def _begins_another(self, chunk: Body) -> bool:
        old, new = either(self._body, "responseId"), either(chunk, "responseId")
        return bool(old and new and old != new)

    def end(self) -> Body | None:
        """The response under way, when there is one."""
        body, self._body = self._body, None
        return body


def _merge_candidate(known: list[Body], part: Body) -> None:
    index = part.get("index") or 0
    candidate = next((held for held in known if (held.get("index") or 0) == index), None)
    if candidate is None:
        candidate = {"content": {"role": "model", "parts": []}}
        known.append(candidate)
    for name, value in part.items():
        if name == "content":
            for piece in parts(value):
                _merge_part(candidate["content"]["parts"], piece)
        elif value is not None:
            candidate[name] = value


def _merge_part(known: list[Body], piece: Body) -> None:
    last = known[-1] if known else {}
    both = isinstance(last.get("text"), str) and isinstance(piece.get("text"), str)
    if both and (last.get("thought") is True) == (piece.get("thought") is True):
        known[-1] = {**last, **piece, "text": last["text"] + piece["text"]}
    else:
        known.append(dict(piece))
