"""`open-token acp` as an editor sees it: a process that speaks JSON-RPC over pipes."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.server.acp_client import Editor, run_editor
from helpers.server.fake_provider import Provider, chat_answer, chat_call, provider

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "claude_code.jsonl"
MCP_SCRIPT = ROOT / "tests" / "helpers" / "server" / "mcp_test_server.py"
SERVER = {"name": "sums", "command": sys.executable, "args": [str(MCP_SCRIPT)], "env": []}
WAIT = 60.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a session of Claude Code, in which somebody pasted a secret."""
    folder = tmp_path_factory.mktemp("home")
    place = folder / ".claude" / "projects" / "-home-sam-tide-table"
    place.mkdir(parents=True)
    shutil.copy(EXAMPLE, place / "c0ffee42-7e57-4a11-8b0b-5eed0fca11ed.jsonl")
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project").resolve()
    (folder / "notes.txt").write_text("the tide is out")
    return folder


@pytest.fixture(scope="module")
def shared_editor(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    env = {"HOME": str(home)}
    with run_editor(tmp_path_factory.mktemp("data"), env=env, delay="0.002") as editor:
        yield editor


@pytest.fixture
def editor(shared_editor: Editor) -> Editor:
    """The same process for all tests; what it has shown is forgotten."""
    shared_editor.updates.clear()
    shared_editor.permissions.clear()
    shared_editor.choices.clear()
    return shared_editor


def create(editor: Editor, folder: Path, **more: Any) -> str:
    fields = {"cwd": str(folder), "mcpServers": [], **more}
    return str(editor.ask("session/new", **fields)["sessionId"])


def test_it_says_what_it_can(editor: Editor) -> None:
    said = editor.ask("initialize", protocolVersion=7, clientCapabilities={})
    assert said["protocolVersion"] == 1
    assert said["agentCapabilities"]["loadSession"] is True
    assert said["agentInfo"]["name"] == "open-token"
    assert said["authMethods"] == []


def test_a_prompt_streams_text_thoughts_and_calls_of_the_project(
    editor: Editor, project: Path
) -> None:
    session_id = create(editor, project)
    assert editor.prompt(session_id, "think read notes.txt") == "end_turn"
    assert "Let me see" in editor.text("agent_thought_chunk")
    assert "the tide is out" in editor.text()
    (call,) = editor.calls()
    assert (call["kind"], call["status"]) == ("read", "completed")
    assert call["title"] == "Read file notes.txt"
    assert call["locations"] == [{"path": str(project / "notes.txt")}]
    assert call["rawInput"] == {"file_path": "notes.txt"}
    assert call["content"][0]["content"]["text"] == "the tide is out"
    assert {"session_info_update", "usage_update"} <= editor.kinds()


def test_a_plan_arrives_with_its_steps(editor: Editor, project: Path) -> None:
    editor.prompt(create(editor, project), "plan")
    (plan,) = [update for update in editor.updates if update["sessionUpdate"] == "plan"]
    steps = [entry["content"] for entry in plan["entries"]]
    assert steps == ["Look at what is there.", "Change one thing.", "See that it works."]


def test_a_question_is_answered_by_a_choice(editor: Editor, project: Path) -> None:
    editor.choices = ["1"]
    assert editor.prompt(create(editor, project), "ask") == "end_turn"
    (request,) = editor.permissions
    assert request["toolCall"]["title"] == "Which way shall we go?"
    assert [option["name"] for option in request["options"]] == [
        "Left (By the river)",
        "Right (By the hill)",
    ]
    assert '"answer":"Right"' in editor.text()


def test_a_question_that_was_cancelled_is_answered_by_the_next_prompt(
    editor: Editor, project: Path
) -> None:
    session_id = create(editor, project)
    editor.choices = [None]
    assert editor.prompt(session_id, "ask") == "cancelled"
    assert editor.prompt(session_id, "Through the middle") == "end_turn"
    assert "Through the middle" in editor.text()


def test_a_prompt_is_cancelled(editor: Editor, project: Path) -> None:
    session_id = create(editor, project)
    block = {"type": "text", "text": "long"}
    number = editor.start("session/prompt", sessionId=session_id, prompt=[block])
    while not editor.text():
        editor.next()
    assert editor.refuse("session/prompt", sessionId=session_id, prompt=[block])
    editor.send({"method": "session/cancel", "params": {"sessionId": session_id}})
    assert editor.wait(number)["result"] == {"stopReason": "cancelled"}
    # What was said until then is kept.
    editor.updates.clear()
    editor.ask("session/load", sessionId=session_id, cwd=str(project), mcpServers=[])
    assert editor.text("user_message_chunk") == "long"
    assert editor.text()


def test_a_failure_of_the_agent_is_an_error(editor: Editor, project: Path) -> None:
    block = {"type": "text", "text": "fail"}
    error = editor.refuse("session/prompt", sessionId=create(editor, project), prompt=[block])
    assert error["message"] == "the demo fails because it was asked to"


def test_a_session_is_loaded_with_its_history_and_resumed_without(
    editor: Editor, project: Path
) -> None:
    session_id = create(editor, project)
    editor.prompt(session_id, "list files")
    editor.ask("session/close", sessionId=session_id)
    editor.updates.clear()
    loaded = editor.ask("session/load", sessionId=session_id, cwd=str(project), mcpServers=[])
    assert loaded["modes"]["currentModeId"] == "ask"
    assert editor.text("user_message_chunk") == "list files"
    assert [call["status"] for call in editor.calls()] == ["completed"]
    assert "notes.txt" in editor.text()
    editor.updates.clear()
    editor.ask("session/resume", sessionId=session_id, cwd=str(project))
    assert editor.updates == []
    assert editor.prompt(session_id, "hello") == "end_turn"


def test_sessions_of_this_machine_are_listed_loaded_and_continued(
    editor: Editor, project: Path, home: Path
) -> None:
    listed = editor.ask("session/list")["sessions"]
    (found,) = [item for item in listed if item["sessionId"].startswith("disk_")]
    assert found["cwd"] == "/home/sam/tide-table"
    assert found["title"] == "Fix tide table on clock change"
    session_id = found["sessionId"]
    params = {"sessionId": session_id, "cwd": str(project), "mcpServers": []}
    editor.ask("session/load", **params)
    assert "Can you fix it?" in editor.text("user_message_chunk")
    assert editor.text("agent_thought_chunk")
    statuses = [call["status"] for call in editor.calls()]
    assert statuses.count("completed") == 3
    assert set(statuses) <= {"completed", "failed"}
    # Its file has grown meanwhile: whoever loads it again sees the rest.
    place = next(home.glob(".claude/projects/*/*.jsonl"))
    record = {
        "parentUuid": None, "isSidechain": False, "cwd": "/home/sam/tide-table", "type": "user", "version": "2.1.40",
        "sessionId": "c0ffee42-7e57-4a11-8b0b-5eed0fca11ed", "uuid": "c0ffee42-0099-4000-8000-000000001eef",
        "message": {"role": "user", "content": "And one thing more."}, "timestamp": "2026-03-29T09:00:00.000Z",
    }  # fmt: skip
    with place.open("a") as out:
        out.write(json.dumps(record) + "\n")
    later = time.time() + 5
    os.utime(place, (later, later))
    editor.updates.clear()
    editor.ask("session/load", **params)
    assert "And one thing more." in editor.text("user_message_chunk")
    # Once it was continued here, it is a session of its own.
    assert editor.prompt(session_id, "list files") == "end_turn"
    editor.updates.clear()
    editor.ask("session/load", **params)
    assert "list files" in editor.text("user_message_chunk")
    ids = [item["sessionId"] for item in editor.ask("session/list")["sessions"]]
    assert ids.count(session_id) == 1
    listed = editor.ask("session/list", cwd=str(project))["sessions"]
    assert session_id in [item["sessionId"] for item in listed]
    assert {item["cwd"] for item in listed} == {str(project)}


def test_modes_and_models_are_chosen(editor: Editor, project: Path) -> None:
    session_id = create(editor, project)
    editor.ask("session/set_mode", sessionId=session_id, modeId="plan")
    editor.prompt(session_id, "list files")
    assert editor.calls() == []
    option = {"sessionId": session_id, "configId": "model", "value": "demo"}
    (model,) = editor.ask("session/set_config_option", **option)["configOptions"]
    assert (model["id"], model["currentValue"]) == ("model", "demo")
    for method, params in (
        ("session/set_mode", {"sessionId": session_id, "modeId": "yolo"}),
        ("session/set_config_option", {**option, "value": "nobody:none"}),
        ("session/set_config_option", {**option, "configId": "colour"}),
    ):
        assert editor.refuse(method, **params)["code"] == -32602


def test_wrong_requests_are_refused_and_the_next_one_is_answered(
    editor: Editor, project: Path
) -> None:
    def refuse(method: str, **params: Any) -> int:
        return int(editor.refuse(method, **params)["code"])

    servers: list[Any] = [{"name": "x", "type": "sse", "url": "http://127.0.0.1:1", "headers": []}]
    audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    session_id = create(editor, project)
    assert refuse("session/fly") == -32601
    assert refuse("session/new", cwd="relative", mcpServers=[]) == -32602
    assert refuse("session/new", mcpServers=[]) == -32602
    assert refuse("session/new", cwd=str(project), mcpServers=servers) == -32602
    assert refuse("session/new", cwd=str(project), mcpServers=[{"name": "x"}]) == -32602
    assert refuse("session/load", sessionId="disk_0", cwd=str(project), mcpServers=[]) == -32002
    assert refuse("session/prompt", sessionId="nobody", prompt=[]) == -32002
    assert refuse("session/prompt", sessionId=session_id, prompt=[audio]) == -32602
    assert refuse("session/prompt", sessionId=session_id, prompt=[]) == -32602
    assert refuse("session/list", cursor="next") == -32602
    for line in (b"{nonsense\n", b"[1]\n", b'{"id":{},"method":"x"}\n'):
        editor.process.stdin.write(line)
        editor.process.stdin.flush()
        answer = editor.next()
        assert answer["id"] is None
        assert answer["error"]["code"] in (-32700, -32600)
    assert editor.prompt(session_id, "hello") == "end_turn"


def test_what_is_embedded_in_a_prompt_reaches_the_agent(editor: Editor, project: Path) -> None:
    session_id = create(editor, project)
    blocks = [
        {"type": "text", "text": "read"},
        {"type": "resource_link", "uri": "file:///home/sam/a%20b.txt", "name": "a b.txt"},
        {"type": "resource", "resource": {"uri": "file:///c.txt", "text": "words of a file"}},
    ]
    editor.ask("session/prompt", sessionId=session_id, prompt=blocks)
    editor.updates.clear()
    editor.ask("session/load", sessionId=session_id, cwd=str(project), mcpServers=[])
    said = editor.text("user_message_chunk")
    assert "[/home/sam/a b.txt]" in said
    assert "[/c.txt]\nwords of a file" in said


def test_files_in_a_prompt_reach_the_agent_and_leave_the_project_alone(
    editor: Editor, project: Path
) -> None:
    session_id = create(editor, project)
    blob = base64.b64encode(b"%PDF-1.7").decode()
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    blocks = [
        {"type": "image", "data": picture, "mimeType": "image/png", "uri": "file:///shot.png"},
        {"type": "resource", "resource": {"uri": "file:///a/report.pdf", "blob": blob}},
    ]
    before = sorted(project.rglob("*"))
    editor.ask("session/prompt", sessionId=session_id, prompt=blocks)
    said = editor.text("agent_message_chunk")
    assert "shot.png (image/png, 8 bytes), report.pdf (application/pdf, 8 bytes)" in said
    assert sorted(project.rglob("*")) == before


def test_an_editor_whose_process_finds_the_data_locked_is_served_all_the_same(
    home: Path, project: Path, tmp_path: Path
) -> None:
    env = {"HOME": str(home)}
    with (
        run_editor(tmp_path, env=env, delay="0.05") as first,
        run_editor(tmp_path, env=env) as second,
    ):
        session_id = create(second, project)
        assert second.prompt(session_id, "list files") == "end_turn"
        assert "notes.txt" in second.text()
        block = {"type": "text", "text": "long"}
        second.updates.clear()
        number = second.start("session/prompt", sessionId=session_id, prompt=[block])
        while not second.text():
            second.next()
        # The process that has done the work ends; the other one takes over.
        first.process.stdin.close()
        assert first.process.wait(WAIT) == 0
        assert "send it again" in second.wait(number)["error"]["message"]
        assert second.prompt(session_id, "list files") == "end_turn"
        assert "notes.txt" in second.text()
        listed = second.ask("session/list", cwd=str(project))["sessions"]
        assert [item["sessionId"] for item in listed] == [session_id]


@contextlib.contextmanager
def provider_in_a_thread(*answers: str) -> Iterator[Provider]:
    started = threading.Event()
    made: list[Provider] = []
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def run() -> None:
        async with provider(*answers) as running:
            made.append(running)
            started.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert started.wait(WAIT)
    try:
        yield made[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(WAIT)
        loop.close()


def test_changes_of_files_need_permission_unless_the_mode_is_auto(
    home: Path, project: Path, tmp_path: Path
) -> None:
    def write(text: str, call_id: str) -> str:
        return chat_call("Write", {"file_path": "new.txt", "content": text}, call_id)

    answers = [write("one", "c1"), chat_answer("Pity."), write("two", "c2"), chat_answer("Good.")]
    answers += [write("three", "c3"), chat_answer("Better.")]
    with provider_in_a_thread(*answers) as service:
        words = ["--model", "openai:m", "--base-url", f"{service.url}/v1"]
        env = {"HOME": str(home), "OPENAI_API_KEY": "none"}
        with run_editor(tmp_path, *words, env=env) as editor:
            session_id = create(editor, project, mcpServers=[SERVER])
            editor.choices = ["2"]
            assert editor.prompt(session_id, "Write it") == "end_turn"
            offered = [tool["function"]["name"] for tool in service.asked[0][2]["tools"]]
            assert {"Write", "mcp__sums__add"} <= set(offered)
            (request,) = editor.permissions
            kinds = [option["kind"] for option in request["options"]]
            assert kinds == ["allow_once", "allow_always", "reject_once"]
            diff = {"type": "diff", "path": str(project / "new.txt"), "newText": "one"}
            assert request["toolCall"]["content"] == [diff]
            assert [item["status"] for item in editor.calls()] == ["failed"]
            assert not (project / "new.txt").exists()
            editor.choices = ["0"]
            assert editor.prompt(session_id, "Write it again") == "end_turn"
            assert (project / "new.txt").read_text() == "two"
            editor.permissions.clear()
            editor.ask("session/set_mode", sessionId=session_id, modeId="auto")
            assert editor.prompt(session_id, "And now?") == "end_turn"
            assert editor.text() == "Better."
            assert editor.permissions == []
            assert (project / "new.txt").read_text() == "three"


def test_files_instead_of_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("")
    command = [sys.executable, "-m", "open_token", "acp", "--data", str(tmp_path / "data")]
    with (tmp_path / "in").open() as given:
        done = subprocess.run(command, stdin=given, capture_output=True, timeout=WAIT)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: standard input and output must be pipes")
    assert not (tmp_path / "data").exists()
