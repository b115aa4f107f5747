"""Fold traffic of Bedrock Converse without our reader: pairs, streams, messages, invocation logs."""

import json
from pathlib import Path
from typing import Any

from compare_readers.common import (
    MAIN,
    Fold,
    describe_call,
    describe_result,
    dump,
    read_json_lines,
)

_MEDIA = {"image": "image", "video": "video", "audio": "audio", "document": "file"}


def is_session(path: Path) -> bool:
    """Return whether a file below a folder is to be compared."""
    return path.suffix in (".json", ".jsonl")


def fold_session(path: Path) -> Fold:
    """Fold one file."""
    if path.suffix == ".json":
        value = json.loads(path.read_text("utf-8"))
        records = value if isinstance(value, list) else [value]
    else:
        records = list(read_json_lines(path))
    folder = _Folder()
    for record in records:
        folder.add_record(record)
    folder.end_stream()
    folder.close()
    return folder.fold


class _Folder:
    """The messages so far: a request that begins with them adds only the rest."""

    def __init__(self) -> None:
        self.fold = Fold()
        self._known: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._open: dict[str, None] = {}

    def add_record(self, record: dict[str, Any]) -> None:
        if "role" in record:
            self._add_message(record)
        elif record.get("schemaType") == "ModelInvocationLog":
            self._add_request(record.get("input", {}).get("inputBodyJson") or {})
            self._add_answer(record.get("output", {}).get("outputBodyJson"))
        elif "request" in record:
            self._add_request(record["request"])
            self._add_answer(record.get("response"))
        elif "output" in record:
            self._add_answer(record)
        elif "messages" in record:
            self._add_request(record)
        else:
            if "messageStart" in record:
                self.end_stream()
            self._events.append(record)

    def _add_request(self, request: dict[str, Any]) -> None:
        same = 0
        messages = request.get("messages", [])
        for message, known in zip(messages, self._known, strict=False):
            if _mark(message) != known:
                break
            same += 1
        del self._known[same:]
        for message in messages[same:]:
            self._add_message(message)

    def _add_answer(self, answer: Any) -> None:
        if isinstance(answer, list):
            self._events = answer
            self.end_stream()
        elif isinstance(answer, dict):
            usage = answer.get("usage", {})
            cached = usage.get("cacheReadInputTokens", 0)
            written = usage.get("cacheWriteInputTokens", 0)
            self.fold.add_tokens(
                {
                    "input_tokens": usage.get("inputTokens", 0) + cached + written,
                    "output_tokens": usage.get("outputTokens", 0),
                    "cache_read_tokens": cached,
                    "cache_write_tokens": written,
                }
            )
            if answer.get("output", {}).get("message", {}).get("content"):
                self._add_message(answer["output"]["message"])

    def end_stream(self) -> None:
        """Join the events of a stream to an answer."""
        blocks: dict[int, dict[str, Any]] = {}
        answer: dict[str, Any] = {}
        for event in self._events:
            for name, value in event.items():
                if name == "contentBlockStart":
                    blocks[value["contentBlockIndex"]] = json.loads(json.dumps(value["start"]))
                elif name == "contentBlockDelta":
                    _join(blocks.setdefault(value["contentBlockIndex"], {}), value["delta"])
                elif name == "metadata":
                    answer["usage"] = value.get("usage", {})
        self._events = []
        for block in blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"].get("input") or "{}")
        if blocks or answer:
            content = [blocks[index] for index in sorted(blocks)]
            answer["output"] = {"message": {"role": "assistant", "content": content}}
            self._add_answer(answer)

    def _add_message(self, message: dict[str, Any]) -> None:
        self._known.append(_mark(message))
        kind = "human" if message["role"] == "user" else "answer"
        said: list[Any] = []
        count = sum(map(len, self.fold.threads.values()))
        for block in [*message["content"], {"end": {}}]:
            name, value = next(iter(block.items()))
            if name in ("reasoningContent", "toolUse", "toolResult", "end"):
                if said:
                    self._say(kind, said)
                said = []
            if name == "reasoningContent":
                self.fold.add(MAIN, "thought", value.get("reasoningText", {}).get("text", ""))
            elif name == "toolUse":
                self._open[value["toolUseId"]] = None
                call = describe_call(value["toolUseId"], value["name"], value["input"])
                self.fold.add(MAIN, "call", call)
            elif name == "toolResult":
                self._open.pop(value["toolUseId"], None)
                output = _read_output(value["content"])
                self.fold.add(MAIN, "result", describe_result(value["toolUseId"], output))
            elif name == "citationsContent":
                said += map(_convert, value["content"])
            elif name not in ("cachePoint", "end"):
                said.append(_convert(block))
        if sum(map(len, self.fold.threads.values())) == count:
            self.fold.add(MAIN, kind, "")

    def _say(self, kind: str, blocks: list[Any]) -> None:
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text" and blocks[0]["text"]
        self.fold.add(MAIN, kind, blocks[0]["text"] if is_text else dump(blocks))

    def close(self) -> None:
        for call_id in self._open:
            self.fold.add(MAIN, "missing", call_id)


def _join(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "text":
            block["text"] = block.get("text", "") + value
        elif name == "toolUse":
            block["toolUse"]["input"] = block["toolUse"].get("input", "") + value["input"]
        elif name == "toolResult":
            block["toolResult"].setdefault("content", []).extend(value)
        elif name == "reasoningContent":
            reasoning = block.setdefault("reasoningContent", {})
            if "text" in value:
                text = reasoning.setdefault("reasoningText", {"text": ""})
                text["text"] += value["text"]


def _convert(block: dict[str, Any]) -> dict[str, Any]:
    name, value = next(iter(block.items()))
    if name == "text":
        return {"type": "text", "text": value}
    if name == "guardContent":
        return {"type": "text", "text": value["text"]["text"]}
    if name == "searchResult":
        return {"type": "search_result", **value}
    return {"type": _MEDIA[name]}


def _read_output(content: list[Any]) -> Any:
    parts = [part["json"] if "json" in part else _convert(part) for part in content]
    if len(parts) == 1 and "json" in content[0]:
        return parts[0]
    if len(parts) == 1 and "text" in content[0]:
        return content[0]["text"]
    return parts


def _mark(message: dict[str, Any]) -> str:
    """Return what a message and its copy in a later request have in common."""
    words = []
    for block in message["content"]:
        name, value = next(iter(block.items()))
        if name == "toolUse":
            words.append(dump([value["name"], value["input"]]))
        elif name == "text" and not value.startswith("<think>"):
            words.append(" ".join(value.split()))
        elif name == "citationsContent":
            words += [" ".join(part["text"].split()) for part in value["content"]]
        elif name not in ("cachePoint", "reasoningContent", "text"):
            words.append(dump(value))
    return dump([message["role"], words])
