"""Writes the routes of the server as a page shows them, from its OpenAPI: what it does, a request,
an answer."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

Json = dict[str, Any]
SECTIONS: dict[str, str] = {
    "The server": r"/healthz|/metrics|/client.js|/api/(health|version|config|auth/me)\b",
    "In and out": r"/api/sessions/(\{[^}]+\}/export|preview-import|import)$",
    "Replays": r"/api/sessions/\{[^}]+\}/replay\b",
    "Files of the workspace": r"/api/sessions/\{[^}]+\}/(ls|files|upload|download-dir|share-file)\b",
    "Skills and background tasks": (
        r"/api/skills|/api/sessions/\{[^}]+\}/(skills|skill-stats|background-tasks|tasks)\b"
    ),
    "Data of clients": r"/api/user/(preferences|env-buckets)|.*extra_info",
    "Branches, compaction, context": (
        r"/api/sessions/\{[^}]+\}/(history|checkpoints|rewind|switch-branch|checkout|compact|context-stats)$"
    ),
    "Sharing": r"/api/sessions/\{[^}]+\}/share\b(?!ing)|/api/share/",
    "Events as a stream": r"/api/sessions/\{[^}]+\}/events$",
    "Counting tokens": r"/api/sessions/tokenize/",
    "Agents": r"/api/profiles|/api/sessions/\{[^}]+\}/agent$",
    "Sessions": r"/api/sessions",
    "Memories": r"/api/memories",
    "Keys": r"/api/user/api-keys",
    "People and tokens": r"/api/(users|tokens)\b",
    "Logins": r"/api/auth/",
    "Schedules": r"/api/scheduled-tasks",
    "Webhooks": r"/api/webhooks",
    "AG-UI": r"/api/ag-ui",
    "OpenAI Responses": r"/v1/",
    "Others": r"/",
}
_METHODS = ("get", "post", "put", "patch", "delete")


def routes(openapi: Json) -> dict[str, str]:
    """Every route by its title, as the page shows it."""
    return {
        f"{method.upper()} {path}": _route(openapi, method.upper(), path, about)
        for path, methods in openapi["paths"].items()
        for method, about in methods.items()
        if method in _METHODS
    }


def page_of(shown: dict[str, str]) -> str:
    """The routes under the headings of their sections."""
    parts: dict[str, list[str]] = {name: [] for name in ("The server", "Sessions", *SECTIONS)}
    for title in shown:
        path = title.split()[1]
        parts[next(name for name, pattern in SECTIONS.items() if re.match(pattern, path))].append(
            shown[title]
        )
    return "\n".join(f"### {name}\n\n" + "\n".join(held) for name, held in parts.items() if held)


def _route(openapi: Json, method: str, path: str, about: Json) -> str:
    words = " ".join((about.get("description") or about.get("summary") or "").split())
    lines = [f"#### `{method} {path}`", "", words, ""]
    lines += _query(about)
    lines += _request(openapi, about)
    lines += _answers(about)
    return "\n".join(lines).rstrip() + "\n"


def _query(about: Json) -> list[str]:
    given = [item for item in about.get("parameters", []) if item["in"] == "query"]
    if not given:
        return []
    return [f"Query: {', '.join(_parameter(item) for item in given)}.", ""]


def _parameter(item: Json) -> str:
    values = item.get("schema", {}).get("enum")
    return f"`{item['name']}`" + (
        f" ({', '.join(str(value) for value in values)})" if values else ""
    )


def _request(openapi: Json, about: Json) -> list[str]:
    for media_type, content in about.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(openapi, content.get("schema", {}))
        if media_type == "multipart/form-data":
            return [f"Form: {', '.join(f'`{name}`' for name in schema.get('properties', {}))}.", ""]
        examples = [item.get("value") for item in content.get("examples", {}).values()]
        example = content.get("example") or next(iter(examples), None) or _sample(openapi, schema)
        return ["Request:", "", *_block(example)]
    return []


def _answers(about: Json) -> Iterator[str]:
    for status, answer in about["responses"].items():
        if not status.startswith("2"):
            continue
        content = answer.get("content", {})
        named = "" if status == "200" else f" {status}"
        if not content:
            yield from (f"Answer{named}: nothing.", "")
        shown = {
            kind: held["example"]
            for kind, held in content.items()
            if held.get("example") is not None
        }
        if shown:
            yield from (f"Answer{named}:", "", *_block(next(iter(shown.values()))))
        elif content:
            yield from (f"Answer{named}: {', '.join(f'`{kind}`' for kind in content)}.", "")


def _block(value: Any) -> list[str]:
    if isinstance(value, str):
        return ["```", *value.rstrip().split("\n"), "```", ""]
    text = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    return ["```json", text if len(text) <= 118 else msgspec.json.format(text, indent=2), "```", ""]


def _resolved(openapi: Json, schema: Json) -> Json:
    for part in schema.get("anyOf", [])[:1]:
        return _resolved(openapi, part)
    if "$ref" in schema:
        found: Json = openapi["components"]["schemas"].get(schema["$ref"].rpartition("/")[2], {})
        return _resolved(openapi, found)
    return schema


def _sample(openapi: Json, schema: Json) -> Any:
    """A value of a schema, where nobody gave an example."""
    schema = _resolved(openapi, schema)
    for given in (
        [schema["example"]] if "example" in schema else [],
        schema.get("examples", []),
        schema.get("enum", []),
    ):
        if given:
            return given[0]
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object":
        return {name: _sample(openapi, held) for name, held in schema.get("properties", {}).items()}
    if kind == "array":
        return [_sample(openapi, schema.get("items", {}))]
    return {"integer": 1, "number": 1, "boolean": True, "null": None}.get(str(kind), "...")
