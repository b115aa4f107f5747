"""What the specification says of the core types, as clients of both dialects receive it."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.agent_session import FakeTool, ScriptedModel, build_call_pieces, run
from helpers.server.socket_server import Client
from open_token.server import listener
from open_token.server.agent.model_interface import (
    CallArgumentsPiece,
    CallStart,
    FinishPiece,
    ModelError,
    ThinkingPiece,
)
from open_token.server.agent.models import demo
from open_token.server.config import ServerConfig

Fakes = Callable[..., None]
Json = dict[str, Any]


class Listeners:
    """A session on a server, and a client of each dialect."""

    def __init__(self, http: httpx2.AsyncClient, legacy: Client, raw: Client) -> None:
        self.http, self.legacy, self.raw = http, legacy, raw
        self.session_id = ""

    async def create_session(self, **body: Any) -> None:
        """Create a session that both clients listen to."""
        answer = await self.http.post("/api/sessions", json=body)
        await self.listen(answer.json()["session_id"])

    async def listen(self, session_id: str) -> None:
        """Subscribe both clients from the first event of a session."""
        self.session_id = session_id
        await self.legacy.subscribe(session_id, after_sequence=0, resume=True)
        await self.raw.subscribe(session_id, event_format="raw", after_sequence=0, resume=True)

    async def send(self, message: Any = "", **more: Any) -> None:
        """Send a message and wait until both clients have received the end of its run."""
        count = len(self.find("chat:end")[0])
        sent = {"session_id": self.session_id, "message": message, **more}
        ack = await self.legacy.io.call("chat:send", sent)
        assert ack["status"] == "ok", ack
        await self.until_both("chat:end", lambda ends: len(ends) > count)

    def find(self, name: str) -> list[list[Json]]:
        """Return the events of a name, or the data of patches of a type: legacy, then raw."""
        raw = [(item["type"], item["payload"]) for item in self.raw.items()]
        found = []
        for events in (self.legacy.events, raw):
            payloads = [payload for known, payload in events if known == name]
            patches = [payload for known, payload in events if known == "turn:patch"]
            payloads += [patch["data"] for patch in patches if patch["patch_type"] == name]
            found.append(payloads)
        return found

    async def until_both(self, name: str, is_so: Callable[[list[Json]], bool]) -> None:
        """Wait until something holds for the events of a name at each of the clients."""
        await self.legacy.until(lambda: is_so(self.find(name)[0]))
        await self.raw.until(lambda: is_so(self.find(name)[1]))

    async def until_status(self, status: str) -> None:
        """Wait until both clients were sent a status of the session."""
        await self.until_both(
            "session:updated", lambda updates: status in [item["status"] for item in updates]
        )


@contextlib.asynccontextmanager
async def open_listeners(folder: Path) -> AsyncIterator[Listeners]:
    config = ServerConfig(data=folder, port=0)
    async with listener.run_server(config, {demo.DELAY: "0"}) as server:
        key = server.first_key or ""
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(base_url=server.address, headers=headers) as http,
            Client(server.address, key) as legacy,
            Client(server.address, key) as raw,
        ):
            yield Listeners(http, legacy, raw)


@pytest.mark.spec("type-patch-envelope", "older-dialect", "raw-dialect")
def test_a_call_is_sent_with_its_whole_arguments(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        pieces = ['{"command"', ': "ls ', '-l"', "}"]
        call = [CallStart("c1", "Look"), *(CallArgumentsPiece("c1", piece) for piece in pieces)]
        thinking = [ThinkingPiece("Hm, "), ThinkingPiece("so.")]
        fakes(ScriptedModel([*thinking, *call], "end"), FakeTool("Look", lambda _: "seen"))
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            await listeners.send("go")
            for calls in listeners.find("add_tool_call"):
                (sent,) = calls
                assert json.loads(sent["arguments"]) == {"command": "ls -l"}
            for turns in listeners.find("turn:end"):
                blocks = [block for turn in turns for block in turn["blocks"]]
                thoughts = [block["content"] for block in blocks if block["type"] == "thinking"]
                assert thoughts == ["Hm, so."]

    run(scenario())


@pytest.mark.spec("type-content-block", "older-dialect", "raw-dialect")
def test_each_part_of_a_message_is_a_block_of_text(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel("end"))
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
            await listeners.send(parts)
            for name in ("turn:start", "turn:end"):
                for turns in listeners.find(name):
                    contents = [block["content"] for block in turns[0]["blocks"]]
                    assert contents == ["one", "two"]

    run(scenario())


@pytest.mark.spec("tool-result-meta", "type-ui-card", "type-bridge")
@pytest.mark.parametrize(
    "meta",
    [
        {"ui": {"resourceUri": "javascript:alert(1)", "target": "inline"}},
        {"ui": {"resourceHTML": "<p>", "target": "sideways"}},
        {"ui": {"resourceHTML": "<p>", "target": "inline", "height": "tall"}},
        {"ui": {"resourceHTML": "<p>", "resourceUri": "https://x", "target": "inline"}},
        {"ui": {"target": "inline"}},
        {"bridge": {"payload": 1}},
    ],
)
def test_a_wrong_card_is_sent_as_a_notification(tmp_path: Path, fakes: Fakes, meta: Json) -> None:
    async def scenario() -> None:
        tool = FakeTool("Show", lambda _: {"text": "shown", "_meta": meta})
        fakes(ScriptedModel(build_call_pieces("Show"), "end"), tool)
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            await listeners.send("go")
            for blocks in listeners.find("add_content"):
                kinds = [block["type"] for block in blocks if "type" in block]
                assert "system_notification" in kinds
                assert not {"tool_ui", "tool_bridge"} & set(kinds)

    run(scenario())


@pytest.mark.spec("client-tools", "type-session-status", "type-block-type")
def test_a_result_of_the_client_and_each_status_are_sent(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel(build_call_pieces("look"), "end"))
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session(settings={"client_tools": [{"name": "look"}]})
            await listeners.send("go")
            await listeners.until_status("waiting_for_input")
            await listeners.send(tool_results=[{"tool_call_id": "c1", "result": {"found": 3}}])
            await listeners.until_status("completed")
            for updates in listeners.find("session:updated"):
                statuses = [update["status"] for update in updates]
                assert statuses[-4:] == ["running", "waiting_for_input", "running", "completed"]
            for turns in listeners.find("turn:end"):
                blocks = [block for turn in turns for block in turn["blocks"]]
                (shown,) = [block for block in blocks if block["type"] == "tool_result"]
                assert (shown["tool_call_id"], shown["tool_name"]) == ("c1", "look")

    run(scenario())


@pytest.mark.spec("compaction-turn", "type-turn-role")
def test_a_compaction_is_a_turn_of_the_system(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel("one", "two", "three", "a summary"))
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            for message in ("a", "b", "c"):
                await listeners.send(message)
            sent = {"session_id": listeners.session_id}
            await listeners.legacy.io.call("chat:compact", sent)

            await listeners.until_both(
                "turn:end", lambda turns: any(turn["role"] == "system" for turn in turns)
            )
            for turns in listeners.find("turn:end"):
                (turn,) = [turn for turn in turns if turn["role"] == "system"]
                assert (turn["kind"], turn["summary_full"]) == ("compaction", "a summary")

    run(scenario())


@pytest.mark.spec("replay-start", "type-session-status")
def test_a_replay_of_an_import_is_sent_as_completed(tmp_path: Path) -> None:
    async def scenario() -> None:
        document = {"messages": [{"role": "user", "content": "hi"}]}
        document["messages"].append({"role": "assistant", "content": "hello"})
        async with open_listeners(tmp_path) as listeners:
            files = {"file": ("chat.json", json.dumps(document))}
            made = await listeners.http.post("/api/sessions/import", files=files)
            route = f"/api/sessions/{made.json()['session_id']}/replay"
            started = await listeners.http.post(route, json={"speed": 5})
            replay = started.json()["session_id"]
            await listeners.listen(replay)
            await listeners.until_status("completed")
            stored = (await listeners.http.get(f"/api/sessions/{replay}")).json()
            assert (stored["status"], stored["replay_state"]["status"]) == ("completed", "finished")

    run(scenario())


@pytest.mark.spec("memory-routes", "type-memory")
def test_a_memory_names_the_session_that_it_is_from(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            await listeners.send("remember green tea")
            memory = {"content": "likes coffee", "source_session": listeners.session_id}
            await listeners.http.post("/api/memories", json=memory)
            await listeners.http.post("/api/memories", json={"content": "works at night"})
            items = (await listeners.http.get("/api/memories")).json()["items"]
            sources = [item["source_session"] for item in items]
            assert sorted(sources) == ["", listeners.session_id, listeners.session_id]

    run(scenario())


@pytest.mark.spec("type-scheduled-task-run")
def test_a_scheduled_run_with_a_question_is_not_completed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with open_listeners(tmp_path) as listeners:
            task = {"title": "t", "prompt": "ask", "cron": "0 9 * * *"}
            task_id = (await listeners.http.post("/api/scheduled-tasks", json=task)).json()["id"]
            started = await listeners.http.post(f"/api/scheduled-tasks/{task_id}/run")
            await listeners.listen(started.json()["session_id"])
            await listeners.until_status("waiting_for_input")
            route = f"/api/scheduled-tasks/{task_id}/runs"
            (item,) = (await listeners.http.get(route)).json()
            assert (item["status"], "question" in item["error"]) == ("failed", True)

    run(scenario())


@pytest.mark.spec("early-end", "attempts", "type-attempt")
def test_a_retried_and_filtered_answer_says_so_everywhere(tmp_path: Path, fakes: Fakes) -> None:
    async def scenario() -> None:
        failed = ["some ", ModelError("overloaded", "server")]
        fakes(ScriptedModel(failed, ["half of", FinishPiece("content_filter")]))
        async with open_listeners(tmp_path) as listeners:
            await listeners.create_session()
            await listeners.send("go")
            for ends in listeners.find("chat:end"):
                assert [end["finish_reason"] for end in ends] == ["content_filter"]
            for turns in listeners.find("turn:end"):
                (turn,) = [turn for turn in turns if turn["role"] == "assistant"]
                assert (turn["status"], turn["finish_reason"]) == ("completed", "content_filter")
                (attempt,) = turn["attempts"]
                assert (attempt["failure_reason"], attempt["code"]) == ("overloaded", "server")
                assert [block["content"] for block in attempt["blocks"]] == ["some "]
            route = f"/api/sessions/{listeners.session_id}/export"
            options = {"format": "json", "include": "include-internal", "internal": "full"}
            exported = (await listeners.http.get(route, params=options)).json()
            annotations = [
                event["content"]["data"]
                for event in exported["events"]
                if event["type"] == "annotation"
            ]
            (retried,) = [item for item in annotations if item["kind"] == "failed_attempt"]
            assert (retried["failure_reason"], retried["code"]) == ("overloaded", "server")
            reasons = [item["finish_reason"] for item in annotations if "finish_reason" in item]
            assert "content_filter" in reasons
            messages = [event for event in exported["events"] if event["type"] == "message"]
            assert [event["content"]["text"] for event in messages[:2]] == ["go", "half of"]

    run(scenario())
