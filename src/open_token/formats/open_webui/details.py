"""Answers of Open WebUI as one text: reasoning and tool calls stand in it as `<details>`."""

import html
import re
from collections.abc import Iterator
from typing import Any

from open_token.formats.shared.fields import parse_arguments, parse_json_text

# Values of attributes are escaped, so none holds an angle bracket.
_BEGIN = re.compile(r'<details type="(reasoning|tool_calls)"([^<>]*)>')
_ATTRIBUTE = re.compile(r'([a-z_]+)="([^"]*)"')
_END = "</details>"
_SUMMARY = re.compile(r"\s*<summary>[^<>]*</summary>")


def split_details(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an answer in order, as (kind, value), without empty ones.

    A kind is `text` or `reasoning`, with a text, or `tool_calls`, with an object that has `id`,
    `name`, `arguments`, and `result` if the call came back.
    """
    if not isinstance(content, str):
        return
    position = 0
    for match in _BEGIN.finditer(content):
        if match.start() < position:
            continue
        end = content.find(_END, match.end())
        if end < 0:
            break
        part = _parse(match[1], match[2], content[match.end() : end])
        if part is None:
            continue
        before = content[position : match.start()].strip("\n")
        if before.strip():
            yield "text", before
        yield match[1], part
        position = end + len(_END)
    rest = content[position:]
    if position:
        rest = rest.lstrip("\n")
    if rest.strip():
        yield "text", rest


def _parse(kind: str, attributes: str, body: str) -> Any:
    """Return the value of a part; None if it is not as expected and has to stay as it is."""
    if kind == "reasoning":
        return _strip_quotes(_SUMMARY.sub("", body, count=1).strip("\n")) or None
    values = {name: html.unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
    if not values.get("name") or _SUMMARY.sub("", body, count=1).strip():
        return None
    call = {
        "id": values.get("id") or None,
        "name": values["name"],
        "arguments": parse_arguments(parse_json_string(values.get("arguments"))),
    }
    if values.get("done") == "true":
        call["result"] = parse_json_text(parse_json_string(values.get("result") or ""))
    return call


def parse_json_string(value: Any) -> Any:
    """Return a text that is stored as a JSON string; anything else as it is."""
    if not isinstance(value, str) or not value.startswith('"'):
        return value
    parsed = parse_json_text(f"[{value}]")
    return parsed[0] if isinstance(parsed, list) and len(parsed) == 1 else value


def _strip_quotes(text: str) -> str:
    """Return reasoning without the quote mark of each line; later versions escape the text."""
    if text.startswith("&gt;"):
        text = html.unescape(text)
    lines = [line.removeprefix("> ") if line != ">" else "" for line in text.split("\n")]
    return "\n".join(lines)
