"""What is said in a source, found by a walk that knows nothing of readers: every text, with the
fields it stands in."""

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import yaml

SHORTEST = 16
"""Shorter ones are names and words of the format."""
SESSION = re.compile(r"\s|[^\x00-\x7f]")
"""Somebody spoke; one run of letters is an id, a time, an address, a hash, a seal."""
TAGS = re.compile(r"</?(?:think(?:ing)?|system-reminder|user_query|timestamp)>")
"""Tags around reasoning, prompts and what a client adds to them, at which readers take a text
apart."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NAME = re.compile(r"[A-Za-z_$]{1,30}")
_SOLID = re.compile(r"\S")
_YAML = re.compile(r"^(?:interactions|history):", re.MULTILINE)
"""Recordings of HTTP and demonstrations of SWE-agent, also behind a comment or a version."""
_HEADING = "# aider chat started at"
"""Where a session begins; its time is a fact about the conversation."""
_QUOTED = re.compile(r"^(?:> ?|#### )", re.MULTILINE)

ASIDE: dict[str, dict[str, str]] = {
    "": {
        "tools": "declarations of tools, which the application offers and nobody says",
        "functions": "the same",
    },
    "http_recording": {
        "headers": "the transport's",
        "finishMessage": "the server's words for why it stopped",
    },
    "claude_code": {
        "toolUseResult": "the same output as the client shows it, with the file before the change",
        "summary": "titles of other conversations",
        "data.command": "a program that the client runs as a hook",
        "result.summary": "the client's own line about a workflow it ran",
    },
    "codex": {"unified_diff": "the arguments of a patch again, as a difference for the screen"},
    "copilot_cli": {"detailedContent": "the output again, as a difference for the screen"},
    "gemini_cli": {
        "resultDisplay": "the output as the screen shows it",
        "displayName": "the tool's name as the screen shows it",
    },
    "iflow": {"resultDisplay": "the output as the screen shows it"},
    "kimi_cli": {"display": "the arguments as the screen shows them"},
    "langchain": {"serialized": "the signature of the function that was traced"},
    "opencode": {
        "metadata.diff": "the arguments of an edit again, as a difference for the screen",
        "title": "names of sessions and calls that the client makes up",
    },
    "openhands": {"message": "the client's own line about what it does"},
    "otel_genai": {
        "spans[].name": "the operation and the model",
        "resource": "the program and the machine that wrote the trace",
    },
    "pi": {"details.diff": "the arguments of an edit again, as a difference for the screen"},
    "qwen_code": {
        "systemPayload.customTitle": "an earlier title of the conversation",
        "systemPayload.summary": "what the client stored beside the session",
    },
    "swe_agent": {
        "replay_config": "templates and settings of the run, with holes instead of words"
    },
}
"""By reader, and for all: the fields that hold no words of a person, a model or a tool, each with
the reason."""


def list_texts(raw: bytes, reader: str) -> Iterator[str]:
    """Every text of a source that somebody said."""
    aside = re.compile(
        "|".join(
            rf"(?:^|\.){re.escape(name)}(?![A-Za-z_])"
            for name in {**ASIDE[""], **ASIDE.get(reader, {})}
        )
    )
    for value in _values(raw):
        for text, path in _walk(value, ""):
            if not aside.search(path):
                yield from _pieces(text)


def iter_strings(value: Any) -> Iterator[str]:
    """Every string of an export, and those inside JSON that a string holds."""
    if isinstance(value, str):
        yield value.strip()
        if (inner := _json(value)) is not None:
            yield from iter_strings(inner)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from iter_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from iter_strings(item)


def _pieces(text: str) -> Iterator[str]:
    for piece in map(str.strip, TAGS.split(text)):
        if len(piece) >= SHORTEST and SESSION.search(piece):
            yield piece


def _values(raw: bytes) -> Iterator[Any]:
    """The JSON values of a file: one, lines, several one after another, a zip of them; YAML; or its
    lines of text."""
    if raw.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            for name in packed.namelist():
                if name.endswith(".json"):
                    yield from _values(packed.read(name))
        return
    text = raw.decode()
    if text.lstrip()[:1] in ("{", "["):
        yield from _one_after_another(text)
    elif _YAML.search(text):
        yield yaml.load(text, LOADER)
    else:
        yield from (
            _QUOTED.sub("", line) for line in text.split("\n") if not line.startswith(_HEADING)
        )


def _one_after_another(text: str) -> Iterator[Any]:
    """The values up to a last one that is only half there."""
    place = 0
    while found := _SOLID.search(text, place):
        try:
            value, place = json.JSONDecoder().raw_decode(text, found.start())
        except ValueError:
            assert "\n" not in text[found.start() :].strip()
            return
        yield value


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        if (inner := _json(value)) is not None:
            yield from _walk(inner, path)
        elif value.startswith(("event: ", "data: ")):
            for line in value.split("\n"):
                if line.startswith("data: "):
                    yield from _walk(line.removeprefix("data: "), path)
        else:
            yield value, path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _walk(item, f"{path}.{key if _NAME.fullmatch(key) else '*'}")
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item, f"{path}[]")


def _json(text: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
    return None
