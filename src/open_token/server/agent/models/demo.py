"""The demo: a model that is a script, offline and always the same, steered by words in the
message."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from open_token.server.agent._counting import estimate, estimate_messages, estimate_tools
from open_token.server.agent.compaction import PROMPT
from open_token.server.agent.history import SUMMARY
from open_token.server.agent.interface import (
    CallBegun,
    CallPiece,
    Counted,
    Message,
    ModelFault,
    Piece,
    Request,
    Result,
    Text,
    TextPiece,
    ThinkingPiece,
)
from open_token.server.agent.models import _script
from open_token.server.agent.models._script import Script
from open_token.server.agent.prompt import GO_ON
from open_token.server.config import ServerConfig

DELAY = "OPEN_TOKEN_DEMO_DELAY"
_DEFAULT_DELAY = 0.02
_PIECE = re.compile(r"\s*\S+\s*")
_EXTRACT = 160


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "Demo":
    """The demo; how slowly it speaks is set in the environment."""
    try:
        delay = float(env.get(DELAY, _DEFAULT_DELAY))
    except ValueError:
        delay = _DEFAULT_DELAY
    return Demo(delay=min(max(delay, 0.0), 10.0))


class Demo:
    """Answers from a script."""

    name = "demo"
    context_window = 32_000

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Word by word at a pace of its own, as a provider speaks whether or not one listens fast
        enough."""
        length, due = 0, time.monotonic()
        for piece in _answer(request):
            if self._delay:
                due += self._delay
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            if isinstance(piece, TextPiece | ThinkingPiece):
                length += estimate(piece.text)
            yield piece
        taken = estimate_messages(list(request.messages)) + estimate_tools(list(request.tools))
        yield Counted({"input_tokens": taken, "output_tokens": max(length, 1)})


def _answer(request: Request) -> Iterator[Piece]:
    first = request.messages[0]
    if first.role == "system" and _words(first) == PROMPT:
        yield from _spoken(_extract(_words(request.messages[-1])))
        return
    place, text = _asked(request.messages)
    tools = {spec.name: spec for spec in request.tools}
    script = _script.script_of(text, tools, request.mode)
    results = _results(request.messages[place + 1 :])
    if not results and "think" in script.words:
        yield from (
            ThinkingPiece(word)
            for word in _PIECE.findall("Let me see what is asked here, and what would help.")
        )
    if "fail" in script.words:
        raise ModelFault("the demo fails because it was asked to", "request")
    if len(results) < len(script.calls):
        yield from _call(script, len(results), place)
    else:
        yield from _spoken(_last(request, script, results))


def _asked(messages: Any) -> tuple[int, str]:
    """The person's last message, and where it stands."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user" and (words := _words(messages[place])) != GO_ON:
            return place, words
    return len(messages) - 1, ""


def _words(message: Message) -> str:
    """What a message says; of a summary, only the request that follows it."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    is_summary = bool(texts) and message.role == "user" and texts[0].startswith(SUMMARY)
    return "\n".join(texts[2:] if is_summary else texts)


def _results(messages: Any) -> list[Result]:
    """What its calls came to since then; one that was said instead of made counts too."""
    return [part for message in messages for part in message.parts if isinstance(part, Result)]


def _call(script: Script, done: int, place: int) -> Iterator[Piece]:
    wish = script.calls[done]
    yield from _spoken(f"I call {wish.tool}. ")
    name = f"call_demo_{place}_{done}"
    yield CallBegun(name, wish.tool)
    arguments = _script.as_json(wish.arguments)
    for start in range(0, len(arguments), 40):
        yield CallPiece(name, arguments[start : start + 40])


def _last(request: Request, script: Script, results: list[Result]) -> str:
    if request.output_schema is not None:
        return _script.as_json(_script.sample(request.output_schema))
    if "json" in script.words:
        return _script.as_json({"answer": "demo", "results": len(results)})
    if "long" in script.words:
        return " ".join(f"word{number}" for number in range(1, _script.LONG + 1))
    if request.mode == "planning":
        return _script.PLAN
    if results:
        return "\n".join(["Done.", *(_told(result) for result in results)])
    return "That was a thought." if "think" in script.words else _script.HELP


def _told(result: Result) -> str:
    said = (
        result.content
        if isinstance(result.content, str)
        else msgspec.json.encode(result.content).decode()
    )
    what = "failed" if result.is_error else "gave"
    return f"{result.name} {what}: {said[:300]}"


def _spoken(text: str) -> Iterator[Piece]:
    yield from (TextPiece(word) for word in _PIECE.findall(text))


def _extract(transcript: str) -> str:
    """A summary without a model: the beginning of each line."""
    lines = [line.strip() for line in transcript.splitlines() if line.strip()]
    kept = lines[:5] + (["[...]", *lines[-15:]] if len(lines) > 20 else lines[5:])
    return "\n".join(line if len(line) <= _EXTRACT else f"{line[:_EXTRACT]} [...]" for line in kept)
