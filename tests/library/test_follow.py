"""A followed session gives the same events as an export of the finished file."""

import contextlib
import io
import json
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from helpers.golden_cases import CASES, GOLDEN, read_case
from open_token.context import Context
from open_token.errors import InputError
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.library.follow import Follower
from open_token.library.ndjson_stream import FollowStream, read_written_stream
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.registry import detect_format, list_conversations
from open_token.sources.source import Source
from open_token.validation.validate import validate_bytes

EXAMPLES = ROOT / "examples"
LINES = [path for path in sorted(EXAMPLES.glob("*.jsonl")) if path.stem != "open_token"]


NOW = "2026-04-01T10:00:00Z"


def context(**words: str) -> Context:
    words = {"mode": "ndjson", "exported_at": "omit", **words}
    return Context(ExportOptions.of(words), key=bytes(32), now=NOW)


def followed(
    path: Path,
    reader: str,
    *steps: Callable[[], object],
    conversation: str | None = None,
    **words: str,
) -> list[Any]:
    waiting = list(steps)

    def idle() -> bool:
        if not waiting:
            return False
        waiting.pop(0)()
        return True

    out = io.BytesIO()
    growing = FollowStream(out, context(**words), "out")
    record = Follower(path, path.name, reader, context(**words), growing, idle, conversation).run()
    growing.close(record)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def said(lines: list[Any]) -> list[Any]:
    """The events of a stream, without those that are added at the end for want of a better place."""
    list_events = [line for line in lines if line["type"] == "event"]
    return [
        (line["event_type"], line.get("role"), line["content"])
        for line in list_events
        if line["content"].get("data") not in ({"missing_result": True}, {"kind": "usage"})
    ]


@pytest.mark.parametrize("example", LINES, ids=lambda path: path.stem)
def test_a_session_that_grows_line_by_line(example: Path, tmp_path: Path) -> None:
    reader = detect_format(Source.of(example))
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


@pytest.mark.parametrize(("wish", "list_events"), [("now", NOW), ("keep", None), ("omit", None)])
def test_the_header_names_the_time_that_was_asked_for(wish: str, list_events: str | None) -> None:
    lines = followed(EXAMPLES / "claude_code.jsonl", "claude_code", exported_at=wish)
    assert lines[0].get("exported_at") == list_events


def test_a_document_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    recorded = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi, how can I"},
    ]

    def write(messages: list[Any]) -> Callable[[], object]:
        return lambda: path.write_text(json.dumps({"model": "m", "messages": messages}))

    write(recorded)()
    longer = [
        recorded[0],
        {"role": "assistant", "content": "hi, how can I help?"},
        {"role": "user", "content": "more"},
    ]
    broken: Callable[[], object] = lambda: path.write_text('{"messages": [')  # noqa: E731 - a step like the others
    lines = followed(path, "openai_chat", broken, write(longer))
    assert [content.get("text") for _, _, content in said(lines)] == [
        "hello",
        "hi, how can I",
        "more",
        None,
    ]
    assert said(lines)[-1][2]["data"]["content"]["text"] == "hi, how can I help?"


def test_a_call_without_a_result_is_closed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
    record = {
        "type": "assistant",
        "uuid": "u",
        "sessionId": "s",
        "message": {"role": "assistant", "content": [call]},
    }
    path.write_text(json.dumps(record) + "\n")
    lines = followed(path, "claude_code")
    assert [line.get("event_type") for line in lines] == [
        None,
        "annotation",
        "tool_use",
        "tool_result",
        None,
    ]
    assert lines[3]["links"] == lines[2]["links"]


def test_a_call_on_a_branch_that_was_left_has_a_result_too(tmp_path: Path) -> None:
    path = tmp_path / "run.traj"
    attempt = {"history": [{"role": "assistant", "action": "a"}]}
    path.write_text(
        json.dumps(
            {
                "attempts": [attempt],
                "trajectory": [{"action": "b", "observation": "", "thought": "c"}],
            }
        )
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


def chat(*texts: str) -> bytes:
    recorded = [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]
    return json.dumps({"model": "m", "messages": recorded}).encode()


def test_a_document_that_is_away_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_bytes(chat("hello"))
    back = [lambda: path.write_bytes(chat("hello", "hi")), path.unlink]
    lines = followed(path, "openai_chat", path.unlink, *back)
    assert [content.get("text") for _, _, content in said(lines)] == ["hello", "hi"]
    assert lines[-1]["type"] == "footer"


def test_lines_that_are_away_just_when_they_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "session.jsonl"
    message = {"role": "user", "content": "hello"}
    path.write_text(
        json.dumps({"type": "user", "uuid": "u", "sessionId": "s", "message": message}) + "\n"
    )
    opened, away = Source.open, [False, True, False, True, True]

    def not_always(source: Source) -> Any:
        if away and away.pop():
            raise FileNotFoundError(2, "No such file or directory")
        return opened(source)

    monkeypatch.setattr(Source, "open", not_always)
    lines = followed(path, "claude_code", *[lambda: None] * 6)
    assert [content.get("text") for kind, _, content in said(lines) if kind == "message"] == [
        "hello"
    ]
    assert not away


def test_a_session_with_subagents_in_files_of_their_own(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "claude_code" / "subagent_folder" / "input", tmp_path / "sessions")
    (path,) = (
        path
        for path in (tmp_path / "sessions").glob("*.jsonl")
        if not path.name.startswith("agent-")
    )
    whole = io.BytesIO()
    export(Source.of(path, path.name), whole, context(), "claude_code")
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first)
    grown = [first + b"".join(others[: place + 1]) for place in range(len(others))]
    steps: list[Callable[[], object]] = [lambda data=data: path.write_bytes(data) for data in grown]  # type: ignore[misc]
    lines = followed(path, "claude_code", *steps)
    assert said(lines) == said([json.loads(line) for line in whole.getvalue().splitlines()])
    assert [line["event_type"] for line in lines[1:-1]].count("span_start") > 1


def test_a_database_that_grows(tmp_path: Path) -> None:
    path, _ = read_case(GOLDEN / "goose" / "database", tmp_path)
    name = next(row[0] for row in rows(path, "select session_id from messages order by id"))
    last = rows(path, "select max(id), max(created_timestamp) from messages")[0]
    columns = [row[1] for row in rows(path, "pragma table_info(messages)")]

    def say(text: str) -> Callable[[], object]:
        given = {
            "content_json": json.dumps([{"type": "text", "text": text}]),
            "role": "user",
            "session_id": name,
        }
        facts = given | {
            "id": last[0] + len(text),
            "created_timestamp": last[1],
            "message_id": text,
        }
        fitting = {column: value for column, value in facts.items() if column in columns}
        holes = ", ".join("?" * len(fitting))
        command = f"insert into messages ({', '.join(fitting)}) values ({holes})"
        return lambda: rows(path, command, *fitting.values())

    lines = followed(path, "goose", say("one"), lambda: None, say("three"), conversation=name)
    texts = [content.get("text") for kind, _, content in said(lines) if kind == "message"]
    assert texts[-2:] == ["one", "three"]
    raw = "".join(json.dumps(line) + "\n" for line in lines).encode()
    assert [item for item in validate_bytes(raw) if item.severity == "error"] == []


def rows(path: Path, command: str, *values: object) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as store, store:
        return store.execute(command, values).fetchall()


class KilledError(Exception):
    """The end of a process, in the middle of its work."""


class Going:
    """A session that grows, and a stream of it that is killed or stopped again and again."""

    def __init__(self, path: Path, reader: str) -> None:
        self.path, self.reader = path, reader
        self.stream = b""

    def follow(self, *stages: bytes, killed: bool = False, **words: str) -> bytes:
        """Go on while the file becomes this and that."""
        waiting = list(stages)

        def idle() -> bool:
            if waiting:
                self.path.write_bytes(waiting.pop(0))
                return True
            if killed:
                raise KilledError
            return False

        out = io.BytesIO(self.stream)
        before = read_written_stream(out, "out") if self.stream else None
        growing = FollowStream(out, context(**words), "out", before)
        try:
            record = Follower(
                self.path, self.path.name, self.reader, context(**words), growing, idle
            ).run()
            growing.close(record)
        except KilledError:
            pass
        finally:
            self.stream = out.getvalue()
        return self.stream

    def list_events(self) -> list[Any]:
        return said([json.loads(line) for line in self.stream.splitlines()])

    def check(self) -> None:
        """The stream is whole, and all of the conversation is in it."""
        assert verify_bytes(self.stream).status == VERIFIED
        assert [item for item in validate_bytes(self.stream) if item.severity == "error"] == []
        whole = io.BytesIO()
        export(Source.of(self.path, self.path.name), whole, context(), self.reader)
        now = said([json.loads(line) for line in whole.getvalue().splitlines()])
        known = [content for _, _, content in self.list_events()]
        known += [
            content["data"]["content"] for content in known if is_revised(content.get("data"))
        ]
        kinds = ("message", "tool_use", "tool_result")
        assert [content for kind, _, content in now if kind in kinds and content not in known] == []


def is_revised(data: Any) -> bool:
    return isinstance(data, dict) and data.get("kind") == "revised"


def in_parts(going: Going, stages: list[bytes], seed: int) -> None:
    """Killed or stopped at random, each time with some more of the session; a kill may cut what was
    written last."""
    chance = random.Random(seed)
    place = 1
    going.path.write_bytes(stages[0])
    while place < len(stages):
        count = chance.randint(1, 3)
        killed = chance.random() < 0.5 or not going.stream
        going.follow(*stages[place : place + count], killed=killed)
        if killed and chance.random() < 0.7:
            going.stream = going.stream[: chance.randint(0, len(going.stream))]
        place += count
    going.follow()


LINE_CASES = [
    case for case in CASES if (case / "input.jsonl").is_file() and case.parent.name != "open_token"
]
UNLIKE = (
    "codex/aborted",
    "gemini_cli/lines",
    "kimi_cli/agent_alone",
    "claude_code/resumed",
    "ag_ui/subagents",
)
"""Those of which a reading returns another beginning when there is more, or more at an end."""


def go_on_with(case: Path, tmp_path: Path, seeds: range) -> None:
    path = case / "input.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    stages = [b"".join(lines[: place + 1]) for place in range(len(lines))]
    reader = case.parent.name
    while stages and not can_be_read(tmp_path / path.name, stages[0], reader):
        stages.pop(0)
    for seed in seeds:
        going = Going(tmp_path / path.name, reader)
        in_parts(going, stages, seed)
        going.check()


def counted(lines: list[Any]) -> Counter[str]:
    """All tokens of a stream."""
    spent: Counter[str] = Counter()
    for line in lines:
        spent.update(line.get("usage", {}))
    return spent


def spoken(lines: list[Any]) -> Counter[str]:
    return Counter(json.dumps(item) for item in said(lines) if item[0] == "message")


@pytest.mark.parametrize("case", LINE_CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_no_word_and_no_token_is_reported_twice(case: Path, tmp_path: Path) -> None:
    path, reader = tmp_path / "input.jsonl", case.parent.name
    lines = (case / path.name).read_bytes().splitlines(keepends=True)
    stages = [b"".join(lines[: place + 1]) for place in range(len(lines))]
    if len(list_conversations(Source("x", data=stages[-1]), reader)) > 1:
        return  # one of them must be chosen
    while not can_be_read(path, stages[0], reader):
        stages.pop(0)
    path.write_bytes(stages[0])
    live = followed(
        path, reader, *(lambda data=data: path.write_bytes(data) for data in stages[1:])
    )  # type: ignore[misc]
    whole = io.BytesIO()
    export(Source.of(path, path.name), whole, context(), reader)
    finished = [json.loads(line) for line in whole.getvalue().splitlines()]
    list_events = spoken(live)
    assert [words for words, count in spoken(finished).items() if list_events[words] > count] == []
    if '"kind": "abandoned_branch"' not in json.dumps(live):  # whose tokens the stream has reported
        assert counted(live) == counted(finished)


def can_be_read(path: Path, data: bytes, reader: str) -> bool:
    path.write_bytes(data)
    try:
        export(Source.of(path, path.name), io.BytesIO(), context(), reader)
    except InputError:
        return False
    return True


class TestGoingOn:
    """--append."""

    @pytest.mark.parametrize(
        "case", [GOLDEN / name for name in UNLIKE], ids=lambda case: case.parent.name
    )
    def test_readers_that_add_events_at_the_end(self, case: Path, tmp_path: Path) -> None:
        go_on_with(case, tmp_path, range(2))

    @pytest.mark.full
    @pytest.mark.parametrize("case", LINE_CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
    def test_lines_of_every_reader(self, case: Path, tmp_path: Path) -> None:
        # The parts of one answer, of which nothing stays as it was: it cannot be seen that
        # it is the same.
        if not (case / "options.txt").exists() and case.name != "stream":
            go_on_with(case, tmp_path, range(6))

    def test_a_document(self, tmp_path: Path) -> None:
        texts = ["one", "two", "three", "four", "five", "six"]
        for seed in range(3):
            going = Going(tmp_path / "chat.json", "openai_chat")
            in_parts(going, [chat(*texts[: place + 1]) for place in range(len(texts))], seed)
            going.check()
            assert [content.get("text") for _, _, content in going.list_events()] == texts

    def test_a_document_whose_last_words_grow(self, tmp_path: Path) -> None:
        answer = "an answer that comes word by word"
        grown = [chat("one", answer[:length]) for length in (3, 10, 19, 29)]
        for seed in range(3):
            going = Going(tmp_path / "chat.json", "openai_chat")
            in_parts(
                going,
                [
                    chat("one"),
                    *grown,
                    chat("one", answer, "three"),
                    chat("one", answer, "three", "4"),
                ],
                seed,
            )
            going.check()

    def test_marks_stay_the_same(self, tmp_path: Path) -> None:
        secret = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
        going = Going(tmp_path / "chat.json", "openai_chat")
        going.path.write_bytes(chat(f"use {secret}"))
        going.follow(killed=True)
        going.follow(chat(f"use {secret}", f"I used {secret}"))
        first, second = (content["text"].split()[-1] for _, _, content in going.list_events())
        assert first == second
        assert first.startswith("[REDACTED:")
        assert len(going.list_events()) == 2

    def test_another_conversation_is_refused_and_the_file_stays(self, tmp_path: Path) -> None:
        going = Going(tmp_path / "chat.json", "openai_chat")
        going.path.write_bytes(chat("one", "two"))
        before = going.follow()
        going.path.write_bytes(chat("other", "session", "altogether"))
        with pytest.raises(InputError) as caught:
            going.follow()
        assert caught.value.code == "follow.append"
        assert going.stream == before

    def test_other_lines_are_refused_and_the_file_stays(self, tmp_path: Path) -> None:
        going = Going(tmp_path / "session.jsonl", "claude_code")
        for session in ("one", "two"):
            message = {"role": "user", "content": f"words of {session}"}
            record = {"type": "user", "uuid": session, "sessionId": session, "message": message}
            going.path.write_bytes(json.dumps(record).encode() + b"\n")
            if session == "one":
                before = going.follow()
        with pytest.raises(InputError) as caught:
            going.follow()
        assert caught.value.code == "follow.append"
        assert going.stream == before

    def test_another_level_of_redaction_is_refused(self, tmp_path: Path) -> None:
        going = Going(tmp_path / "chat.json", "openai_chat")
        going.path.write_bytes(chat("one", "two"))
        before = going.follow(redact="none")
        with pytest.raises(InputError):
            going.follow()
        assert going.stream == before

    def test_options_that_show_more_are_refused(self, tmp_path: Path) -> None:
        """Thoughts that were left out would come behind the words that they led to."""
        going = Going(tmp_path / "session.jsonl", "claude_code")
        going.path.write_bytes(
            (GOLDEN / "claude_code" / "split_message" / "input.jsonl").read_bytes()
        )
        before = going.follow()
        with pytest.raises(InputError) as caught:
            going.follow(include="include-internal", internal="full")
        assert caught.value.code == "follow.append"
        assert going.stream == before

    def test_a_stream_that_got_no_further_than_its_header_begins_anew(self, tmp_path: Path) -> None:
        going = Going(tmp_path / "chat.json", "openai_chat")
        going.path.write_bytes(chat("one", "two"))
        whole = going.follow()
        going.stream = whole[: whole.index(b"\n") + 1]
        assert going.follow() == whole
