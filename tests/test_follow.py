"""A running session as a stream: the same talk as an export of the finished file, for every way of reading."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from open_token.checking.validate import validate_bytes
from open_token.context import Context
from open_token.follow import Follower
from open_token.growing import Growing
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.readers import choose
from open_token.source import Source

EXAMPLES = Path(__file__).parent.parent / "examples"
LINES = [path for path in sorted(EXAMPLES.glob("*.jsonl")) if path.stem != "open_token"]


def context(**words: str) -> Context:
    words = {"mode": "ndjson", "exported_at": "omit", **words}
    return Context(ExportOptions.of(words), key=bytes(32))


def followed(path: Path, reader: str, *steps: Callable[[], object], **words: str) -> list[Any]:
    waiting = list(steps)

    def idle() -> bool:
        if not waiting:
            return False
        waiting.pop(0)()
        return True

    out = io.BytesIO()
    growing = Growing(out, context(**words), "out")
    record = Follower(path, path.name, reader, context(**words), growing, idle).run()
    growing.close(record)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def said(lines: list[Any]) -> list[Any]:
    """What a stream tells, without what it tells at the end for want of a better place."""
    told = [line for line in lines if line["type"] == "event"]
    return [
        (line["event_type"], line.get("role"), line["content"])
        for line in told
        if line["content"].get("data") not in ({"missing_result": True}, {"kind": "usage"})
    ]


@pytest.mark.parametrize("example", LINES, ids=lambda path: path.stem)
def test_a_session_that_grows_line_by_line(example: Path, tmp_path: Path) -> None:
    reader = choose(Source.of(example))
    first, *others = example.read_bytes().splitlines(keepends=True)
    path = tmp_path / example.name
    path.write_bytes(first)

    def append(data: bytes) -> Callable[[], object]:
        def step() -> None:
            with path.open("ab") as out:
                out.write(data)

        return step

    lines = followed(path, reader, *(append(line) for line in others))
    whole = io.BytesIO()
    export(Source.of(example, example.name), whole, context(), reader)
    assert said(lines) == said([json.loads(line) for line in whole.getvalue().splitlines()])
    assert lines[0]["type"] == "header"
    assert lines[-1]["type"] == "footer"
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert [item for item in validate_bytes(raw) if item.severity == "error"] == []


def test_a_document_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi, how can I"}]

    def write(messages: list[Any]) -> Callable[[], object]:
        return lambda: path.write_text(json.dumps({"model": "m", "messages": messages}))

    write(talk)()
    longer = [talk[0], {"role": "assistant", "content": "hi, how can I help?"}, {"role": "user", "content": "more"}]
    broken: Callable[[], object] = lambda: path.write_text('{"messages": [')  # noqa: E731 - a step like the others
    lines = followed(path, "openai_chat", broken, write(longer))
    assert [content.get("text") for _, _, content in said(lines)] == ["hello", "hi, how can I", "more", None]
    assert said(lines)[-1][2]["data"]["content"]["text"] == "hi, how can I help?"


def test_a_call_without_a_result_is_closed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    record = {"type": "assistant", "uuid": "u", "sessionId": "s", "message": {"role": "assistant", "content": [call]}}
    path.write_text(json.dumps(record) + "\n")
    lines = followed(path, "claude_code")
    assert [line.get("event_type") for line in lines] == [None, "annotation", "tool_use", "tool_result", None]
    assert lines[3]["links"] == lines[2]["links"]


def test_a_call_on_a_branch_that_was_left_has_a_result_too(tmp_path: Path) -> None:
    path = tmp_path / "run.traj"
    attempt = {"history": [{"role": "assistant", "action": "a"}]}
    path.write_text(
        json.dumps({"attempts": [attempt], "trajectory": [{"action": "b", "observation": "", "thought": "c"}]})
    )
    lines = followed(path, "swe_agent")
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert [item.id for item in validate_bytes(raw) if item.severity == "error"] == []


def test_a_session_with_files_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "0198" / "chat_history.jsonl"
    path.parent.mkdir()
    (path.parent / "summary.json").write_text('{"title": "x"}')
    path.write_text('{"type":"user","content":[{"type":"text","text":"hello"}],"prompt_index":0}\n')
    lines = followed(path, "grok_cli")
    assert [content.get("text") for _, _, content in said(lines)][:1] == ["hello"]
