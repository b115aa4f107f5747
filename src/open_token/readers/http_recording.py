"""Reads recorded HTTP: VCR cassettes in YAML and JSON, and HAR files, for the model calls that they
hold."""

import re
from importlib import import_module
from typing import Any, cast

from open_token.draft import Draft
from open_token.model import Found
from open_token.source import Source

TITLE = "HTTP recordings (VCR cassettes, HAR)"
PLACES: tuple[str, ...] = ()
SEEN = "vcrpy and pydantic-ai cassettes of four dialects; go-vcr, Ruby's VCR, Betamax, Polly and HAR as described"
CARRIES = "every model call in the dialects of OpenAI, Anthropic and Gemini, streamed or not, joined to conversations"
LEAVES = "other traffic (a note counts it), headers, and bodies in compressions other than gzip and deflate"
ASIDE = ("headers", "uri", "tools", "set-cookie")
"""Fields that nobody said."""
SPLIT = r"^- (?=\w)|^    - (?=id: \d+$)"
"""Where a cassette in YAML begins another interaction."""

_CASSETTE = re.compile(rb"^(?:http_)?interactions:", re.MULTILINE)
_ASKED = re.compile(rb"^ *(?:- )?request:\s", re.MULTILINE)
_LISTS = ("interactions", "http_interactions")


def sniff(source: Source) -> bool:
    """Whether the content is of this format."""
    if source.shape == "text":
        return bool(_CASSETTE.search(source.head) and _ASKED.search(source.head))
    return len(source.sample) == 1 and _is_recording(source.sample[0])


def _is_recording(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    log = value.get("log")
    if isinstance(log, dict) and isinstance(log.get("entries"), list):
        return _are_exchanges(log["entries"])
    held = next((value[name] for name in _LISTS if name in value), None)
    return isinstance(held, list) and _are_exchanges(held)


def _are_exchanges(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(item, dict) and "request" in item and "response" in item for item in items[:8]
    )


def conversations(source: Source) -> list[Found]:
    """The conversations in the recording: requests that go on from one another are one."""
    return cast(list[Found], _private().conversations(source))


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation that a recorded exchange belongs to."""
    return cast("str | None", _private().belongs(source, at, value, SPLIT))


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation; what that takes is loaded only now."""
    _private().read(source, draft)


def _private() -> Any:
    return import_module("open_token.readers._http_recording")


def values(source: Source) -> list[Any]:
    """What a recording in YAML holds, for whoever looks at the source on its own."""
    found: list[Any] = import_module("open_token.readers._yaml_values").documents(
        source.text, source.name
    )
    return found
