"""The rows of OpenCode's version 2 in the form of version 1, so that one teller does for both."""

from collections.abc import Iterator
from typing import Any

from open_token.readers._fields import Record, name_of, record_in, records_in, word_in
from open_token.readers._opencode_store import Message, Skip

_KEPT = ("id", "time", "agent", "finish", "cost", "tokens", "error")


def turned(record: Record, kind: Any, place: str, skip: Skip) -> Iterator[Message]:
    """The message or messages that a row is."""
    said = {"id": record.get("id"), "time": record.get("time"), "role": "user"}
    if kind == "assistant":
        yield _assistant(record), list(_content(record, place, skip))
    elif kind == "user":
        yield said, list(_prompt(record, place, skip))
    elif kind in ("synthetic", "skill"):
        yield said, [{"type": "text", "text": record.get("text"), "synthetic": True}]
    elif kind == "system":
        yield said | {"system": record.get("text")}, []
    elif kind == "shell":
        yield said, [{**record, "type": "shell"}]
    elif kind == "compaction":
        yield from _compaction(record, said, place, skip)
    elif kind in ("agent-switched", "location-switched"):
        folder = word_in(record_in(record, "location"), "directory")
        yield said | {"agent": record.get("agent"), "path": folder}, []
    elif kind in ("idle", "model-switched"):
        skip("bookkeeping", place, f"record {kind}")
    else:
        skip("unknown-record", place, f"record {name_of(kind)}")


def _assistant(record: Record) -> Record:
    model = record_in(record, "model")
    info = {name: record[name] for name in _KEPT if record.get(name) is not None}
    named = {
        "modelID": model.get("id"),
        "providerID": model.get("providerID"),
        "variant": model.get("variant"),
    }
    error = record_in(record, "error")
    if error:
        info["error"] = {"name": error.get("type"), "data": error}
    return info | named | {"role": "assistant"}


def _prompt(record: Record, place: str, skip: Skip) -> Iterator[Record]:
    yield {"type": "text", "text": record.get("text")}
    for file in records_in(record, "files"):
        yield _file(file)
    for agent in records_in(record, "agents"):
        yield {"type": "agent", "name": agent.get("name"), "source": agent.get("source")}
    for name in ("skills", "references"):
        if records_in(record, name):
            skip("unknown-part", place, f"part {name}")


def _file(file: Record) -> Record:
    return {
        "type": "file",
        "mime": file.get("mime"),
        "filename": file.get("name"),
        "url": file.get("uri"),
    }


def _content(record: Record, place: str, skip: Skip) -> Iterator[Record]:
    for item in records_in(record, "content"):
        kind = item.get("type")
        if kind == "tool":
            yield _tool(item)
        elif kind in ("text", "reasoning"):
            metadata = item.get("native", item.get("state", item.get("providerMetadata")))
            yield {
                **item,
                "metadata": metadata,
                "time": {"start": record_in(item, "time").get("created")},
            }
        else:
            skip("unknown-part", place, f"part {name_of(kind)}")
    retry = record_in(record, "retry")
    if retry:
        yield {
            "type": "retry",
            "attempt": retry.get("attempt"),
            "error": {"data": retry.get("error")},
        }
    snapshot = record_in(record, "snapshot")
    if snapshot.get("files"):
        yield {"type": "patch", "hash": snapshot.get("end"), "files": snapshot["files"]}


def _tool(item: Record) -> Record:
    state, time = record_in(item, "state"), record_in(item, "time")
    given, content = state.get("input"), records_in(state, "content")
    texts = [block.get("text") for block in content if block.get("type") == "text"]
    output = "\n".join(text for text in texts if isinstance(text, str))
    made: Record = {
        "status": state.get("status"),
        "input": given if type(given) is dict else {},
        "raw": given,
    }
    made["metadata"] = record_in(state, "metadata")
    made["time"] = {"start": time.get("ran", time.get("created")), "end": time.get("completed")}
    if state.get("status") == "completed":
        made["output"] = output
    elif state.get("status") == "error":
        made["error"] = word_in(record_in(state, "error"), "message") or ""
        if output:
            made["metadata"] = {**made["metadata"], "interrupted": True, "output": output}
    made["attachments"] = [_file(block) for block in content if block.get("type") == "file"]
    return {"type": "tool", "callID": item.get("id"), "tool": item.get("name"), "state": made}


def _compaction(record: Record, said: Record, place: str, skip: Skip) -> Iterator[Message]:
    yield said, [{"type": "compaction", "auto": record.get("reason") == "auto"}]
    if record.get("recent"):
        skip("replacement-history", place, "the copied context after a compaction")
    summary = word_in(record, "summary")
    if summary or record.get("error"):
        yield _assistant(record) | {"summary": True}, [{"type": "text", "text": summary}]
