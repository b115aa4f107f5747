"""What is said in a document, run by run, in a form that does not depend on how a format groups
it."""

import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import KEY
from open_token.context import Context
from open_token.options import ExportOptions
from open_token.pipeline import Receipt, export
from open_token.sources.source import Source

Document = dict[str, Any]


def export_source(source: Source, to: str | None = None, **words: Any) -> tuple[bytes, Receipt]:
    """The bytes of an export, and its receipt."""
    out = io.BytesIO()
    options = ExportOptions.of({"exported_at": "omit", "mode": "json", **words})
    receipt = export(source, out, Context(options, key=KEY), to=to)
    return out.getvalue(), receipt


def read_again(data: bytes, folder: Path, **words: Any) -> Document:
    """What our own reader makes of a file that was written."""
    path = folder / "again.json"
    path.write_bytes(data)
    return json.loads(export_source(Source.of(path), **words)[0])


def summarize(document: Document, to: str) -> list[Any]:
    """The session of the main run; a call carries its result and the session of its subagents, a subagent
    alone stands in.

    Thoughts without words, empty messages and branches are no part of it. In ATIF a result without
    a call is what the environment said; a trace does not say what came before and what after a
    subagent that serves no call."""
    list_content = _Summary(document, "user" if to == "atif" else "result").list_content("")
    return (
        list_content if to == "atif" else sorted(list_content, key=lambda item: item[0] == "agent")
    )


def count_usage(document: Document) -> Counter[str]:
    """All tokens that are counted, outside of what was left."""
    made = _Summary(document, "result")
    return sum((made.usage[span] for span in made.usage if span not in made.aside), Counter())


class _Summary:
    def __init__(self, document: Document, orphans: str) -> None:
        self._orphans = orphans
        self.aside: set[str] = set()
        self.usage: dict[str, Counter[str]] = {}
        self._runs: dict[str, list[Any]] = {"": []}
        self._calls: dict[str, dict[str, Any]] = {}
        self._failed: dict[str, dict[str, Any]] = {}
        for event in document["events"]:
            self._take(event)

    def list_content(self, span: str) -> list[Any]:
        made: list[Any] = []
        for item in self._runs[span]:
            if isinstance(item, str):
                made += [("agent", inner)] if (inner := self.list_content(item)) else []
            elif isinstance(item, dict):
                inner = [
                    list_content for run in item["runs"] if (list_content := self.list_content(run))
                ]
                made.append(
                    (item["tool"], item["arguments"], item["result"], item["failed"], inner)
                )
            elif made and made[-1][0] == item[0] == "assistant_thought":
                made[-1] = (item[0], f"{made[-1][1]}\n\n{item[1]}")
            else:
                made.append(item)
        return made

    def _take(self, event: Document) -> None:
        kind, links, content = event["type"], event.get("links", {}), event["content"]
        span, data = links.get("span_id", ""), content.get("data")
        self.usage.setdefault(span, Counter()).update(event.get("usage", {}))
        if kind == "span_start":
            self._start(span, links, data)
        elif kind == "message" and event["role"] == "assistant_thought":
            self._runs[span] += (
                [("assistant_thought", content["text"])] if content.get("text") else []
            )
        elif kind == "message":
            self._runs[span] += [(_role(event), word) for word in list_words(content) if word != ""]
        elif kind == "tool_use":
            given = (
                data["arguments"]
                if isinstance(data["arguments"], dict)
                else {"arguments": data["arguments"]}
            )
            call = {
                "tool": data["tool_name"],
                "arguments": given,
                "result": None,
                "failed": False,
                "runs": [],
            }
            self._calls[links["call_id"]] = call
            self._runs[span].append(call)
        elif kind == "tool_result":
            self._result(event, span)
        elif (
            kind == "annotation"
            and data.get("kind") == "result_facts"
            and links.get("parent_id") in self._failed
        ):
            self._failed[links["parent_id"]]["failed"] |= data.get("is_error") is True

    def _start(self, span: str, links: Document, data: Any) -> None:
        self._runs[span] = []
        if data.get("kind", "subagent") != "subagent" or "branch" in data:
            self.aside.add(span)
        elif links.get("call_id") in self._calls:
            self._calls[links["call_id"]]["runs"].append(span)
        else:
            self._runs[data.get("parent_span", "")].append(span)

    def _result(self, event: Document, span: str) -> None:
        call, content = self._calls.get(event["links"]["call_id"]), event["content"]
        if content.get("data") == {"missing_result": True}:
            return
        if call is None or call["result"] is not None:
            self._runs[span] += [
                (self._orphans, word) for word in list_words(content) if word != ""
            ]
            return
        call["result"] = [word for word in list_words(content) if word != ""]
        self._failed[event["id"]] = call


def _role(event: Document) -> str:
    return "system" if event["role"] == "developer" else str(event["role"])


def list_words(content: Document) -> list[Any]:
    """Texts and other blocks, each alone; JSON in a text is the same as JSON."""
    return list(_flat(content["text"] if "text" in content else content["data"]))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, str):
        try:
            parsed = json.loads(value)
        except ValueError:
            yield value
        else:
            yield from _flat(parsed)
    elif (
        isinstance(value, dict)
        and value.get("type") == "text"
        and isinstance(value.get("text"), str)
    ):
        yield from _flat(value["text"])
    else:
        yield _media(value) if isinstance(value, dict) else value


def _media(block: Document) -> Any:
    if "base64" in block:
        facts = (
            [f"{block['bytes']} bytes", f"sha256 {block['sha256']}"] if "sha256" in block else []
        )
        return f"[left out: {', '.join([block.get('media_type') or block['type'], *facts])}]"
    if block.get("type") in ("image", "audio", "video", "file", "document") and (
        "url" in block or "path" in block
    ):
        return f"media at {block.get('url') or block.get('path')}"
    return block
