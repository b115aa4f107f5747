"""The Claude Code reader on whole files: detection, and that nothing of real sessions is lost."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from open_token.errors import InputError
from open_token.jsontools.walk import iter_strings
from open_token.registry import READERS
from open_token.sources.source import Source
from readers.claude_lines import body, read

READER = READERS["claude_code"]

FILES = [
    "claude_code/agentcmd_askuserquestion.jsonl",
    "claude_code/agentcmd_image_interrupt.jsonl",
    "claude_code/agentcmd_missing_results.jsonl",
    "claude_code/cca_v0.2.105_first2.3MB.jsonl",
    "claude_code/ccl_assistant_sidechain.jsonl",
    "claude_code/ccl_task_result.jsonl",
    "claude_code/ccl_thinking.jsonl",
    "claude_code/ccl_user_image.jsonl",
    "claude_code/fixture_subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl",
    "claude_code/fixture_union_small.jsonl",
    "claude_code/simonw_sample_session.jsonl",
    "claude_code/sniffly_fed8ce56.jsonl",
    "native_minimal/claude/739eea71-3888-471c-9659-3af729b90c4c.jsonl",
]
MISSING = {
    "claude_code/agentcmd_askuserquestion.jsonl": 1,
    "claude_code/agentcmd_missing_results.jsonl": 3,
    "claude_code/fixture_subagent/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl": 1,
}
NEVER_EXPORTED = {"signature", "toolUseResult"}


def raw_records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file, each once."""
    seen = set()
    for line in path.read_bytes().splitlines():
        if line not in seen:
            yield json.loads(line)
        seen.add(line)


def texts(value: Any) -> Iterator[str]:
    """What people, models and tools said in a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in NEVER_EXPORTED and key not in (
                "id",
                "type",
                "role",
                "model",
                "usage",
                "stop_reason",
                "stop_sequence",
            ):
                yield from texts(item)


@pytest.fixture(params=FILES)
def real(request: pytest.FixtureRequest, corpus: Path) -> Path:
    path = corpus / request.param
    if not path.exists():
        pytest.skip("this file is not in the corpus here")
    return path


def test_real_files_are_claimed_and_paired(real: Path) -> None:
    made = list(read(real).events)
    calls = Counter(e["links"]["call_id"] for e in made if e["type"] == "tool_use")
    results = Counter(e["links"]["call_id"] for e in made if e["type"] == "tool_result")
    assert set(calls.values()) <= {1}
    assert set(results.values()) <= {1}
    assert set(calls) <= set(results)
    name = "/".join(real.parts[real.parts.index("corpus") + 1 :])
    assert sum(body(e) == {"missing_result": True} for e in made) == MISSING.get(name, 0)


@pytest.mark.spec("whole-conversation")
def test_real_files_lose_no_word(real: Path) -> None:
    kept = {text.strip() for event in read(real).events for text in iter_strings(event["content"])}
    blob = "\0".join(kept)
    for record in raw_records(real):
        message = record.get("message")
        for said in texts(message.get("content") if isinstance(message, dict) else None):
            assert said.strip() in kept or said.strip() in blob, said[:80]


def test_real_files_count_usage_once(real: Path) -> None:
    best: dict[str, int] = {}
    for record in raw_records(real):
        message = record.get("message")
        if (
            record["type"] == "assistant"
            and isinstance(message, dict)
            and "usage" in message
            and "id" in message
        ):
            output = message["usage"].get("output_tokens", 0)
            best[message["id"]] = max(best.get(message["id"], 0), output)
    made = list(read(real).events)
    assert sum(e["usage"]["output_tokens"] for e in made if "usage" in e) == sum(best.values())
    assert len([e for e in made if "usage" in e]) <= len(best)


@pytest.mark.parametrize("subagents", ["inline", "reference", "none"])
def test_real_files_read_with_every_option(real: Path, subagents: str) -> None:
    assert list(read(real, subagents=subagents, branches="all").events)


def test_the_oldest_format_repeats_itself(corpus: Path) -> None:
    path = corpus / "claude_code/cca_v0.2.105_first2.3MB.jsonl"
    if not path.exists():
        pytest.skip("this file is not in the corpus here")
    record = read(path)
    calls = {body(e)["native_call_id"] for e in record.events if e["type"] == "tool_use"}
    assert len(calls) == sum(e["type"] == "tool_use" for e in record.events)
    assert ("duplicate-record", 227) in [(note.code, note.count) for note in record.notes]


def test_files_of_other_runtimes_are_not_claimed(corpus: Path) -> None:
    claimed = []
    for path in sorted(corpus.rglob("*.json*")):
        if (
            "claude" in path.parent.as_posix().removeprefix(corpus.as_posix())
            and path.suffix == ".jsonl"
        ):
            continue
        if path.stat().st_size < 1 << 22:
            try:
                if READER.sniff(Source.of(path)):
                    claimed.append(path.name)
            except InputError:
                continue
    assert claimed == []


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


@pytest.mark.parametrize(
    "data",
    [
        line(type="summary", summary="x", leafUuid="u"),
        line(type="user", uuid="u", parentUuid=None, message={"content": "hi"}),
        line(type="assistant", uuid="u", sessionId="s", message={"content": []}),
        line(type="queue-operation", operation="enqueue", sessionId="s") * 70,
        line(type="system", uuid="u", parentUuid=None, sessionId="s", subtype="compact_boundary"),
    ],
)
def test_claimed(data: bytes) -> None:
    assert READER.sniff(Source("x", data=data))


@pytest.mark.parametrize(
    "data",
    [
        line(type="user", uuid="u", parentUuid=None, message={"parts": []}),
        line(type="user", message={"content": "hi"}),
        line(type="user", uuid="u", parentUuid=None, message="hi"),
        line(
            type="assistant",
            uuid="u",
            parentUuid=None,
            sessionId="session-1",
            message={"content": []},
        ),
        line(
            type="assistant", uuid="u", parentUuid=None, message={"id": "response-1", "content": []}
        ),
        line(
            type="user",
            uuid="u",
            parentUuid=None,
            message={"content": [{"type": "tool_result", "content": {"responseParts": {}}}]},
        ),
        line(type="message", uuid="u"),
        line(role="user", content="hi"),
        line(type=["user"], uuid="u", parentUuid=None, message={"content": [3, None]}),
        b"[1, 2]",
        b'"user"\n',
        b"text\n",
    ],
)
def test_not_claimed(data: bytes) -> None:
    assert not READER.sniff(Source("x", data=data))


def test_the_last_title_is_the_one_of_a_list() -> None:
    def titled(**words: object) -> dict[str, object]:
        return {"type": "title", **words}

    records = [titled(aiTitle="a"), titled(aiTitle="b"), titled(aiTitle=5), "odd", None]
    assert READER.peek_tail(records) == {"title": "b"}
    assert READER.peek_tail([titled(customTitle="mine"), titled(aiTitle="b")]) == {"title": "mine"}
    assert READER.peek_tail([titled(customTitle="")]) == {}


def test_a_summary_is_no_title() -> None:
    summary = {
        "type": "user",
        "isCompactSummary": True,
        "message": {"role": "user", "content": "What was said so far."},
    }
    typed = {"type": "user", "message": {"role": "user", "content": "go on"}}
    assert READER.peek([summary, typed])["title"] == "go on"


def test_an_accepted_plan_is_a_title_but_no_prompt() -> None:
    content = "Implement the following plan:\n\n# Sort the cart"
    plan = {"type": "user", "planContent": "# Sort the cart", "message": {"content": content}}
    typed = {"type": "user", "message": {"role": "user", "content": "go on"}}
    assert READER.peek([plan]) == {"title": "# Sort the cart"}
    assert READER.peek([plan, typed]) == {"words": "go on", "title": "go on"}
