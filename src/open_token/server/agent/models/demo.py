"""The demo model: scripted, offline and deterministic, controlled by words in the message."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from open_token.server.agent.compaction import PROMPT
from open_token.server.agent.history import SUMMARY_HEADER
from open_token.server.agent.model_interface import (
    Attachment,
    CallArgumentsPiece,
    CallStart,
    FinishPiece,
    Json,
    Message,
    ModelError,
    Piece,
    Request,
    Result,
    Text,
    TextPiece,
    ThinkingPiece,
    ToolSpec,
    UsagePiece,
)
from open_token.server.agent.prompt import CONTINUE
from open_token.server.agent.token_estimates import estimate_messages, estimate_text, estimate_tools
from open_token.server.config import ServerConfig

DELAY = "OPEN_TOKEN_DEMO_DELAY"
_DEFAULT_DELAY = 0.02
_PIECE = re.compile(r"\s*\S+\s*")
_MAX_LINE = 160
_REMEMBER = re.compile(r"\bremember\s+(\S[^\n]*)", re.IGNORECASE)
_ACTIONS = re.compile(
    r"\b(?:(?P<list>list files)|read\s+(?P<read>[^\s,;]+)|(?P<subagent>subagent(?:\s+(?P<task>ask|think|list files|"
    r"read\s+[^\s,;]+))?)|(?P<ask>ask)|(?P<card>card)|(?P<bridge>bridge)|(?P<plan>plan))\b",
    re.IGNORECASE,
)
_WORDS = ("think", "long", "fail", "json", "cut")
LONG = 2000
_MAX_SAMPLE_VALUES = 1000
_MAX_SAMPLE_DEPTH = 20

HELP = (
    "This is the demo, a script without a model: it answers to words in your message. "
    "Try think, list files, read <name>, ask, subagent, card, bridge, plan, remember <text>, "
    "long, cut, fail or json; several of them in one message are done one after the other."
)
PLAN = "## Plan\n\n1. Look at what is there.\n2. Change one thing.\n3. See that it works.\n"
_CARD = (
    '<article style="padding: 1em"><h3>Demo</h3><p>A card of HTML, drawn in a frame.</p></article>'
)
_QUESTIONS = [
    {
        "question": "Which way shall we go?",
        "header": "Way",
        "options": [
            {"label": "Left", "description": "By the river"},
            {"label": "Right", "description": "By the hill"},
        ],
        "multiSelect": False,
    }
]


class PlannedCall(Struct, frozen=True):
    """A tool call of the demo."""

    tool: str
    arguments: Json


class DemoScript(Struct, frozen=True):
    """What a message asks the demo to do."""

    calls: list[PlannedCall]
    words: frozenset[str]


def parse_script(text: str, tools: dict[str, ToolSpec], mode: str) -> DemoScript:
    """Parse a message into a script."""
    calls: list[tuple[int, PlannedCall]] = []
    remember = _REMEMBER.search(text)
    if remember:
        arguments = _build_memory(tools.get("Remember"), remember[1].strip())
        calls.append((remember.start(), PlannedCall("Remember", arguments)))
        # What is to be remembered must not be taken for other commands.
        blank = " " * (remember.end() - remember.start())
        text = text[: remember.start()] + blank + text[remember.end() :]
    for match in _ACTIONS.finditer(text):
        calls.append((match.start(), _build_call(match, tools)))
    # In the order of the message, also what is to be remembered.
    calls.sort(key=lambda item: item[0])
    planned = [call for _, call in calls]
    if mode == "planning":
        planned = [call for call in planned if call.tool in tools]
    lower = text.lower()
    words = frozenset(word for word in _WORDS if re.search(rf"\b{word}\b", lower))
    return DemoScript(planned, words)


def _build_call(match: re.Match[str], tools: dict[str, ToolSpec]) -> PlannedCall:
    if match["list"]:
        return PlannedCall("Glob", {_find_parameter(tools.get("Glob"), "pattern"): "**/*"})
    if match["read"]:
        parameter = _find_parameter(tools.get("Read"), "file_path", "path")
        return PlannedCall("Read", {parameter: match["read"]})
    if match["subagent"]:
        task = match["task"] or "list files"
        return PlannedCall("Agent", {"description": "A small task", "prompt": task})
    if match["ask"]:
        return PlannedCall("AskUserQuestion", {"questions": _QUESTIONS})
    if match["card"]:
        return PlannedCall("ShowCard", {"title": "Demo card", "html": _CARD, "height": 160})
    if match["bridge"]:
        payload = {"text": "A word from the demo"}
        return PlannedCall("HostAction", {"action": "addContext", "payload": payload})
    return PlannedCall("Plan", {"plan": PLAN})


def _find_parameter(spec: ToolSpec | None, *names: str) -> str:
    """Return the first of the names that is a parameter of the tool."""
    known = spec.parameters.get("properties", {}) if spec else {}
    return next((name for name in names if name in known), names[0])


def _build_memory(spec: ToolSpec | None, text: str) -> Json:
    """Return arguments for the Remember tool: the text, and a reason if that is a parameter."""
    known = spec.parameters.get("properties", {}) if spec else {}
    arguments: Json = {"content": text[:500]}
    for name in ("reason", "write_reason"):
        if name in known:
            arguments[name] = "the person asked for it"
    if "type" in known:
        arguments["type"] = "feedback"
    return arguments


def build_sample(schema: Any) -> Any:
    """Return a deterministic value that matches a simple schema."""
    return _SampleBuilder(schema).build(schema, 0)


class _SampleBuilder:
    """Builds a value of limited size, because a schema may refer to itself."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._remaining = _MAX_SAMPLE_VALUES

    def build(self, schema: Any, depth: int) -> Any:
        """Return a value of a schema."""
        self._remaining -= 1
        if not isinstance(schema, dict) or depth > _MAX_SAMPLE_DEPTH or self._remaining < 0:
            return None
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            return self.build(self._resolve(reference), depth + 1)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        choices = schema.get("enum")
        if isinstance(choices, list) and choices:
            return choices[0]
        for key in ("anyOf", "oneOf", "allOf"):
            schemas = schema.get(key)
            if isinstance(schemas, list) and schemas:
                return self.build(schemas[0], depth + 1)
        return self._build_typed(schema, depth)

    def _resolve(self, name: str) -> Any:
        value = self._root
        for part in name[2:].split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def _build_typed(self, schema: Json, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list) and kind:
            kind = kind[0]
        if kind == "object":
            properties = schema.get("properties")
            if not isinstance(properties, dict):
                return {}
            return {name: self.build(inner, depth + 1) for name, inner in properties.items()}
        if kind == "array":
            count = min(_get_number(schema, "minItems", 1), 10)
            return [self.build(schema.get("items", {}), depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            return _get_number(schema, "minimum", 1)
        if kind == "boolean":
            return True
        if kind == "null":
            return None
        return "demo".ljust(min(_get_number(schema, "minLength", 0), 1000), "o")


def _get_number(schema: Json, name: str, default: int) -> int:
    value = schema.get(name, default)
    if isinstance(value, int):
        return value
    return default


def to_json_text(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode()


def open_model(name: str, config: ServerConfig, env: Mapping[str, str]) -> "DemoModel":
    """Open the demo model; its delay is set in the environment."""
    try:
        delay = float(env.get(DELAY, _DEFAULT_DELAY))
    except ValueError:
        delay = _DEFAULT_DELAY
    return DemoModel(delay=min(max(delay, 0.0), 10.0))


class DemoModel:
    """A model that answers from a script."""

    name = "demo"
    context_window = 32_000

    def __init__(self, delay: float = 0.0) -> None:
        self._delay = delay

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        """Stream word by word at a fixed pace, which does not depend on the consumer."""
        output_tokens = 0
        due = time.monotonic()
        for piece in _build_answer(request):
            if self._delay:
                due += self._delay
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            if isinstance(piece, TextPiece | ThinkingPiece):
                output_tokens += estimate_text(piece.text)
            yield piece
        input_tokens = estimate_messages(list(request.messages))
        input_tokens += estimate_tools(list(request.tools))
        usage = {"input_tokens": input_tokens, "output_tokens": max(output_tokens, 1)}
        yield UsagePiece(usage)


def _build_answer(request: Request) -> Iterator[Piece]:
    first = request.messages[0]
    if first.role == "system" and _get_text(first) == PROMPT:
        yield from _split_words(_summarize(_get_text(request.messages[-1])))
        return
    position, text = _find_request(request.messages)
    tools = {spec.name: spec for spec in request.tools}
    script = parse_script(text, tools, request.mode)
    results = _get_results(request.messages[position + 1 :])
    if not results and "think" in script.words:
        yield from (
            ThinkingPiece(word)
            for word in _PIECE.findall("Let me see what is asked here, and what would help.")
        )
    if "fail" in script.words:
        raise ModelError("the demo fails because it was asked to", "request")
    if len(results) < len(script.calls):
        yield from _stream_call(script, len(results), position)
    else:
        yield from _split_words(_build_final_text(request, script, results))
        if "cut" in script.words:
            yield FinishPiece("length")


def _find_request(messages: Any) -> tuple[int, str]:
    """Return the index and the text of the last user message."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            text = _get_text(messages[index])
            if text != CONTINUE:
                return index, text
    return len(messages) - 1, ""


def _get_text(message: Message) -> str:
    """Return the text of a message; of a summary, only the request that follows it."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    is_summary = bool(texts) and message.role == "user" and texts[0].startswith(SUMMARY_HEADER)
    if is_summary:
        texts = texts[2:]
    return "\n".join(texts)


def _list_attachments(messages: Any) -> list[str]:
    """Return the files that came with the last user message."""
    position, _ = _find_request(messages)
    names = []
    for part in messages[position].parts:
        if isinstance(part, Attachment):
            names.append(f"{part.path or part.name} ({part.media_type}, {part.size} bytes)")
    return names


def _get_results(messages: Any) -> list[Result]:
    """Return the results of tool calls."""
    results: list[Result] = []
    for message in messages:
        results += [part for part in message.parts if isinstance(part, Result)]
    return results


def _stream_call(script: DemoScript, done: int, position: int) -> Iterator[Piece]:
    call = script.calls[done]
    yield from _split_words(f"I call {call.tool}. ")
    call_id = f"call_demo_{position}_{done}"
    yield CallStart(call_id, call.tool)
    arguments = to_json_text(call.arguments)
    for start in range(0, len(arguments), 40):
        yield CallArgumentsPiece(call_id, arguments[start : start + 40])


def _build_final_text(request: Request, script: DemoScript, results: list[Result]) -> str:
    if request.output_schema is not None:
        return to_json_text(build_sample(request.output_schema))
    if "json" in script.words:
        return to_json_text({"answer": "demo", "results": len(results)})
    if "long" in script.words:
        return " ".join(f"word{number}" for number in range(1, LONG + 1))
    if request.mode == "planning":
        return PLAN
    if "cut" in script.words:
        return "This answer ends in the middle of"
    if results:
        return "\n".join(["Done.", *(_describe_result(result) for result in results)])
    if "think" in script.words:
        return "That was a thought."
    names = _list_attachments(request.messages)
    if names:
        return f"I was sent {', '.join(names)}. {HELP}"
    return HELP


def _describe_result(result: Result) -> str:
    if isinstance(result.content, str):
        said = result.content
    else:
        said = msgspec.json.encode(result.content).decode()
    what = "failed" if result.is_error else "gave"
    return f"{result.name} {what}: {said[:300]}"


def _split_words(text: str) -> Iterator[Piece]:
    yield from (TextPiece(word) for word in _PIECE.findall(text))


def _summarize(transcript: str) -> str:
    """Return a summary without a model: the beginning of each line."""
    lines = [line.strip() for line in transcript.splitlines() if line.strip()]
    if len(lines) > 20:
        lines = [*lines[:5], "[...]", *lines[-15:]]
    return "\n".join(_cut_line(line) for line in lines)


def _cut_line(line: str) -> str:
    if len(line) <= _MAX_LINE:
        return line
    return f"{line[:_MAX_LINE]} [...]"
