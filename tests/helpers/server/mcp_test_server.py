"""A small MCP server on standard input and output, for tests: a few tools, some of which
misbehave."""

import json
import os
import sys
import time
from typing import Any

COUNT = {"calls": 0}
TOOLS = [
    {
        "name": "add",
        "title": "Add numbers",
        "description": "Adds two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        },
        "annotations": {"readOnlyHint": True},
    },
    *(
        {"name": name, "inputSchema": {"type": "object"}}
        for name in (
            "count",
            "env",
            "card",
            "picture",
            "fails",
            "refuses",
            "dies",
            "hangs",
            "long",
            "odd name!",
        )
    ),
]


def text(words: str, **more: Any) -> dict[str, Any]:
    """A result of plain words."""
    return {"content": [{"type": "text", "text": words}], **more}


def result(name: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """What a tool answers; None for an error of the protocol."""
    COUNT["calls"] += 1
    if name == "dies":
        os._exit(1)
    if name == "hangs":
        time.sleep(600)
    answers = {
        "add": lambda: text(
            str(given["a"] + given["b"]), structuredContent={"sum": given["a"] + given["b"]}
        ),
        "count": lambda: text(str(COUNT["calls"])),
        "env": lambda: text(
            " ".join(f"{name}={os.environ.get(name)}" for name in ("TOKEN", "PROVIDER_KEY"))
        ),
        "card": lambda: text("shown", _meta={"ui": {"resourceHTML": "<b>x</b>"}}),
        "picture": lambda: {
            "content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
        },
        "fails": lambda: text("no such thing", isError=True),
        "long": lambda: text("x" * 1_000_000),
        "odd name!": lambda: text("odd"),
    }
    return answers[name]() if name in answers else None


def answer(request: dict[str, Any]) -> dict[str, Any] | None:
    """One answer to one request; a notification has none."""
    if "id" not in request:
        return None
    method, given = request["method"], request.get("params") or {}
    made: dict[str, Any] | None = None
    if method == "initialize":
        made = {
            "protocolVersion": given.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    elif method == "tools/list":
        made = {"tools": TOOLS}
    elif method == "tools/call":
        made = result(given["name"], given.get("arguments") or {})
    head = {"jsonrpc": "2.0", "id": request["id"]}
    return (
        {**head, "result": made}
        if made
        else {**head, "error": {"code": -32601, "message": "not here"}}
    )


def main() -> None:
    """Answer until there is nothing more to read."""
    sys.stderr.write("a remark that nobody should see\n")
    for line in sys.stdin:
        if reply := answer(json.loads(line)):
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
