"""What the demo does with the words of a message: its calls in order, and what it says at the
end."""

import re
from typing import Any

import msgspec
from msgspec import Struct

from open_token.server.agent.interface import Json, ToolSpec

_REMEMBER = re.compile(r"\bremember\s+(\S[^\n]*)", re.IGNORECASE)
_ACTIONS = re.compile(
    r"\b(?:(?P<list>list files)|read\s+(?P<read>[^\s,;]+)|(?P<subagent>subagent(?:\s+(?P<task>ask|think|list files|"
    r"read\s+[^\s,;]+))?)|(?P<ask>ask)|(?P<card>card)|(?P<bridge>bridge)|(?P<plan>plan))\b",
    re.IGNORECASE,
)
_WORDS = ("think", "long", "fail", "json")
LONG = 2000
_MOST_PIECES = 1000
_DEEPEST = 20

HELP = (
    "This is the demo, a script without a model: it answers to words in your message. "
    "Try think, list files, read <name>, ask, subagent, card, bridge, plan, remember <text>, long, fail or json; "
    "several of them in one message are done one after the other."
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


class Wish(Struct, frozen=True):
    """A call that the demo makes."""

    tool: str
    arguments: Json


class Script(Struct, frozen=True):
    """What a message asks for."""

    calls: list[Wish]
    words: frozenset[str]


def script_of(text: str, tools: dict[str, ToolSpec], mode: str) -> Script:
    """The script that a message stands for."""
    calls: list[tuple[int, Wish]] = []
    remembered = _REMEMBER.search(text)
    rest = text
    if remembered:
        calls.append(
            (
                remembered.start(),
                Wish("Remember", _remembering(tools.get("Remember"), remembered[1].strip())),
            )
        )
        rest = (
            text[: remembered.start()]
            + " " * (remembered.end() - remembered.start())
            + text[remembered.end() :]
        )
    for found in _ACTIONS.finditer(rest):
        if (wish := _wish(found, tools)) is not None:
            calls.append((found.start(), wish))
    wishes = [wish for _, wish in sorted(calls, key=lambda item: item[0])]
    if mode == "planning":
        wishes = [wish for wish in wishes if wish.tool in tools]
    lower = rest.lower()
    return Script(wishes, frozenset(word for word in _WORDS if re.search(rf"\b{word}\b", lower)))


def _wish(found: re.Match[str], tools: dict[str, ToolSpec]) -> Wish | None:
    if found["list"]:
        return Wish("Glob", {_named(tools.get("Glob"), "pattern"): "**/*"})
    if found["read"]:
        return Wish("Read", {_named(tools.get("Read"), "file_path", "path"): found["read"]})
    if found["subagent"]:
        task = found["task"] or "list files"
        return Wish("Agent", {"description": "A small task", "prompt": task})
    if found["ask"]:
        return Wish("AskUserQuestion", {"questions": _QUESTIONS})
    if found["card"]:
        return Wish("ShowCard", {"title": "Demo card", "html": _CARD, "height": 160})
    if found["bridge"]:
        payload = {"text": "A word from the demo"}
        return Wish("HostAction", {"action": "addContext", "payload": payload})
    return Wish("Plan", {"plan": PLAN})


def _named(spec: ToolSpec | None, *names: str) -> str:
    """The first of these names that a tool takes."""
    known = spec.parameters.get("properties", {}) if spec else {}
    return next((name for name in names if name in known), names[0])


def _remembering(spec: ToolSpec | None, text: str) -> Json:
    """Arguments for the tool that remembers: its text, and a reason where it wants one."""
    known = spec.parameters.get("properties", {}) if spec else {}
    given: Json = {"content": text[:500]}
    for name in ("reason", "write_reason"):
        if name in known:
            given[name] = "the person asked for it"
    if "type" in known:
        given["type"] = "feedback"
    return given


def sample(schema: Any) -> Any:
    """A value that fits a schema, as far as a simple one goes: always the same."""
    return _Sample(schema).of(schema, 0)


class _Sample:
    """Makes a value, of so many pieces at most: a schema may refer to itself."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MOST_PIECES

    def of(self, schema: Any, depth: int) -> Any:
        """A value of a schema."""
        self._left -= 1
        if not isinstance(schema, dict) or depth > _DEEPEST or self._left < 0:
            return None
        if isinstance(name := schema.get("$ref"), str) and name.startswith("#/"):
            return self.of(self._referred(name), depth + 1)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        if isinstance(chosen := schema.get("enum"), list) and chosen:
            return chosen[0]
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(among := schema.get(key), list) and among:
                return self.of(among[0], depth + 1)
        return self._of_type(schema, depth)

    def _referred(self, name: str) -> Any:
        value = self._root
        for part in name[2:].split("/"):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def _of_type(self, schema: Json, depth: int) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        known = schema.get("properties")
        if kind == "object":
            pairs = known.items() if isinstance(known, dict) else ()
            return {name: self.of(inner, depth + 1) for name, inner in pairs}
        if kind == "array":
            count = min(_number(schema, "minItems", 1), 10)
            return [self.of(schema.get("items", {}), depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            return _number(schema, "minimum", 1)
        simple: Json = {"boolean": True, "null": None}
        return simple.get(str(kind), "demo".ljust(min(_number(schema, "minLength", 0), 1000), "o"))


def _number(schema: Json, name: str, otherwise: int) -> int:
    value = schema.get(name, otherwise)
    return value if isinstance(value, int) else otherwise


def as_json(value: Any) -> str:
    """A value as the demo says it."""
    return msgspec.json.encode(value).decode()
