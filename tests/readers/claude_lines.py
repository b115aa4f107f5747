"""Lines of Claude Code files for the tests, of our own writing, and what the reader makes of
them."""

import json
from pathlib import Path
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Event, Record
from open_token.registry import READERS
from open_token.sources.source import Source

READER = READERS["claude_code"]

SESSION = "5e551011-0000-4000-8000-000000000001"
MODEL = "claude-sonnet-4-5"
COUNTS = {
    "input_tokens": 3,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 100,
    "output_tokens": 7,
}
Line = dict[str, Any]


class File:
    """A session file under construction: each line follows the one before, unless it says
    otherwise."""

    def __init__(self, session: str = SESSION, **common: Any) -> None:
        self.lines: list[Line] = []
        self._last: str | None = None
        self._common = {
            "sessionId": session,
            "cwd": "/home/kim/shop",
            "gitBranch": "main",
            "version": "2.1.0",
            **common,
        }
        self._prefix = session[:8]

    def add(self, kind: str, **more: Any) -> str:
        number = len(self.lines) + 1
        line = {
            "parentUuid": self._last,
            "isSidechain": False,
            "type": kind,
            "uuid": f"{self._prefix}-0000-4000-8000-{number:012d}",
            "timestamp": f"2026-02-03T10:{number // 60:02d}:{number % 60:02d}.000Z",
            **self._common,
            **more,
        }
        self.lines.append(line)
        self._last = line["uuid"]
        return str(line["uuid"])

    def bare(self, kind: str, **more: Any) -> None:
        """A line that stands outside the tree."""
        self.lines.append({"type": kind, **more})

    def user(self, content: Any, **more: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **more)

    def assistant(
        self, *blocks: Line, id: str = "", usage: Any = None, model: str = MODEL, **more: Any
    ) -> str:
        message = {
            "id": id or f"msg_{len(self.lines)}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }
        message |= {"content": list(blocks), "usage": COUNTS if usage is None else usage}
        return self.add("assistant", message=message, **more)

    def result(self, call: str, output: Any = "done", side: Any = None, **more: Any) -> str:
        error = {"is_error": True} if more.pop("is_error", False) else {}
        block = {"type": "tool_result", "tool_use_id": call, "content": output, **error}
        return self.user([block], **({} if side is None else {"toolUseResult": side}), **more)

    @property
    def data(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


def text(words: str) -> Line:
    return {"type": "text", "text": words}


def thinking(words: str) -> Line:
    return {"type": "thinking", "thinking": words, "signature": "c2ln"}


def call(id: str, name: str = "Bash", **arguments: Any) -> Line:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def task(id: str, **arguments: Any) -> Line:
    return call(id, "Task", **{"description": "look around", "prompt": "Look around.", **arguments})


def read(file: File | bytes | Path, **options: str) -> Record:
    """The record that the reader makes of a file."""
    if isinstance(file, Path):
        source = Source.of(file)
    else:
        source = Source("session.jsonl", data=file.data if isinstance(file, File) else file)
    assert READER.sniff(source)
    draft = Draft(**options)
    READER.read(source, draft)
    return draft.finish(lambda: "0" * 64)


def events(file: File | bytes | Path, **options: str) -> list[Event]:
    """The events without the context, which stands at the start of every file."""
    return [event for event in read(file, **options).events if body(event).get("kind") != "context"]


def body(event: Event) -> dict[str, Any]:
    data = event["content"].get("data")
    return data if isinstance(data, dict) else {}


def brief(event: Event) -> str:
    """An event in a word or two: what it is, and what it says."""
    kind = event.get("role") or event["type"]
    if event["type"] in ("tool_use", "tool_result"):
        kind = event["type"]
    content = event["content"]
    said = content["text"] if "text" in content else content["data"]
    if event["type"] == "tool_use":
        said = said["native_call_id"] if "native_call_id" in said else said["tool_name"]
    if isinstance(said, dict) and "kind" in said:
        said = said["kind"]
    return f"{kind}: {said}"


def summarize(file: File | bytes | Path, **options: str) -> list[str]:
    """All events in brief."""
    return [brief(event) for event in events(file, **options)]
