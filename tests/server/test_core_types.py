"""Every field and every value of the core types, served: a session with the demo on a real port, received
in every way."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.live_events import run, summarize_turns
from helpers.server.reference_client import ReferenceClient
from helpers.server.rest_server import RestServer
from helpers.server.socket_server import Client
from open_token.server import listener
from open_token.server.agent.history import SUMMARY_HEADER
from open_token.server.agent.model_interface import ModelError, Piece, Request, Text, TextPiece
from open_token.server.agent.models import demo
from open_token.server.config import ServerConfig

Json = dict[str, Any]

FIELDS = {
    "Session": "id intent status created_at updated_at user_id solution_id biz_role_id model shared is_pinned "
    "memory_enabled is_persistent replay_state",
    "TurnProjection": "id sequence turn_id loop_id kind role status blocks tool_calls model usage duration_ms "
    "started_at context_window memory_refs parent_fork_tool_call_id",
    "ContentBlock": "type content tool_call_id tool_name display_name",
    "ToolCallProjection": "id tool_name display_name arguments status result duration_ms pending_question_ref",
    "PendingQuestionRef": "child_loop_name child_tool_call_id description",
    "MemoryRef": "id content_preview skill_name",
    "PatchEnvelope": "session_id sequence turn_id loop_id patch_type data",
    "Memory": "id type content skill_name record_type scope owner topic mem0_id superseded_by write_reason created_at "
    "updated_at hit_count last_hit_at disabled source_session",
    "ApiKey": "id name masked plaintext created_at last_used_at",
    "ScheduledTask": "id title prompt cron timezone enabled expires_at skip_confirmations model",
    "ScheduledTaskRun": "id task_id session_id status error triggered_at finished_at",
    "Bridge": "action payload",
    "UiCard": "resourceHTML target height title",
    "ReplayState": "source_session_id speed status position total",
    "HistoryNode": "id parent_id kind turn_id role created_at checkpoint_id active turn",
    "Checkpoint": "checkpoint_id turn_id parent_id label created_at is_leaf",
    "ContextStats": "model context_window used_tokens parts estimated",
}
SENT_LIVE = ("PatchEnvelope", "Bridge", "UiCard")
"""What is no answer of a route, but a part of the events."""
COMPACTION = "compaction_id summary_preview summary_full archived_count tokens_before tokens_after saved_ratio trigger".split()
VALUES = {
    "SessionStatus": "created running completed failed interrupted waiting_for_input",
    "TurnKind": "message compaction",
    "TurnRole": "user assistant system",
    "TurnStatus": "streaming completed paused failed interrupted",
    "Trigger": "auto manual forced_retry",
    "BlockType": "text thinking tool_use tool_result tool_ui tool_bridge system_notification mode_change "
    "planning_enter planning_exit plan_status ask_user_answer",
    "PlanStatus": "drafting ready approved rejected",
    "ToolStatus": "pending done error cancelled awaiting_answer",
    "PatchType": "add_content add_tool_call tool_result set_status set_tool_status",
}


def event(number: int, kind: str, role: str, **more: Any) -> Json:
    about = {
        "id": f"evt_{number:06d}",
        "seq": number,
        "type": kind,
        "role": role,
        "visibility": "public",
    }
    return {**about, "actor_id": "act_001", **more}


def words(text: str) -> Json:
    return {"mime": "text/plain", "text": text}


IMPORTED = {
    "open_token_version": "0.1",
    "conversation": {"id": "conv_1"},
    "participants": [{"actor_id": "act_001", "kind": "human"}],
    "events": [
        event(1, "message", "user", content=words("Hello")),
        event(2, "message", "assistant", content=words("Hello")),
        event(
            3,
            "annotation",
            "meta",
            content={"mime": "application/json", "data": {"kind": "notice", "text": "so"}},
        ),
        event(
            4, "tool_result", "tool", content=words("of no call"), links={"call_id": "call_lost"}
        ),
    ],
}


class Narrow(demo.DemoModel):
    """The demo with two more words: `overflow` is too long until it is compacted, `hang` never
    comes to an end."""

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        result = [
            part.text
            for message in request.messages[1:]
            for part in message.parts
            if isinstance(part, Text)
        ]
        if result[-1:] == ["overflow"] and not result[0].startswith(SUMMARY_HEADER):
            raise ModelError("too long", "context")
        async for piece in super().stream(request):
            yield piece
            if result[-1:] == ["hang"] and isinstance(piece, TextPiece):
                await asyncio.Event().wait()


class SessionClient:
    """A server on a port, its owner as a client of the older dialect, and all that is heard of
    it."""

    def __init__(
        self, server: listener.RunningServer, client: Client, http: httpx2.AsyncClient
    ) -> None:
        self._server, self._client, self._http = server, client, http
        self._last = 0
        self.heard: dict[str, list[Any]] = {"legacy": [], "raw": [], "sse": [], "rest": []}
        self.exported: Json = {}
        self.history: Json = {}

    async def get(self, path: str) -> Any:
        answer = await self._http.get(path)
        assert answer.status_code == 200, path
        self.heard["rest"].append(answer.json())
        return answer.json()

    async def post(self, path: str, body: Any = None, **more: Any) -> Any:
        answer = await self._http.post(path, **({"json": body} if body is not None else {}), **more)
        assert answer.status_code < 300, (path, answer.text)
        self.heard["rest"].append(answer.json())
        return answer.json()

    async def session(self) -> str:
        name: str = (await self.post("/api/sessions", {"intent": ""}))["session_id"]
        await self.get(f"/api/sessions/{name}")
        await self._client.io.call("session:subscribe", {"session_id": name})
        return name

    async def say(self, session_id: str, message: Any = "", **more: Any) -> Json:
        """Gives the last turn of the agent's, when it is over."""
        self._client.events.clear()
        ack = await self._client.io.call(
            "chat:send", {"session_id": session_id, "message": message, **more}
        )
        assert ack["status"] == "ok", ack
        if message == "hang":
            await self._client.first("turn:patch")
            assert (await self.get(f"/api/sessions/{session_id}"))["status"] == "running"
            stopped = await self._client.io.call("chat:stop", {"session_id": session_id})
            assert stopped == {"status": "ok", "stopped": True}
        self._last = (await self._client.first("chat:end"))["stream_sequence"]
        self.heard["legacy"] += [
            {"event": name, **payload} for name, payload in self._client.events
        ]
        turns = [payload for name, payload in self._client.events if name == "turn:end"]
        last: Json = turns[-1]
        return last

    async def compact(self, session_id: str) -> None:
        self._client.events.clear()
        ack = await self._client.io.call("chat:compact", {"session_id": session_id})
        assert {"status", "message", "code"} <= ack.keys()
        self._last = (await self._client.first("chat:end"))["stream_sequence"]
        self.heard["legacy"] += [
            {"event": name, **payload} for name, payload in self._client.events
        ]

    async def resumed(self, session_id: str, key: str) -> None:
        """Hear the whole session again in the raw dialect and as server-sent events: both come to
        what is served."""
        whole = await self.get(f"/api/sessions/{session_id}/messages")
        async with Client(self._server.address, key) as raw:
            await raw.subscribe(session_id, event_format="raw", after_sequence=0, resume=True)
            await raw.until(lambda: raw.mirror.seen >= self._last)
            assert summarize_turns(raw.mirror.branch()) == summarize_turns(whole)
            self.heard["raw"] += raw.items()
        mirror = ReferenceClient()
        async with self._http.stream("GET", f"/api/sessions/{session_id}/events") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    item = json.loads(line.removeprefix("data: "))
                    self.heard["sse"].append(item)
                    mirror.hear_raw(item)
                    if mirror.seen >= self._last:
                        break
        assert summarize_turns(mirror.branch()) == summarize_turns(whole)


@contextlib.asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[tuple[SessionClient, str]]:
    config = ServerConfig(data=folder, port=0, compact_at=0.1)
    async with listener.run_server(config, {demo.DELAY: "0"}) as server:
        key = server.first_key or ""
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            Client(server.address, key) as client,
            httpx2.AsyncClient(base_url=server.address, headers=headers, timeout=60) as http,
        ):
            yield SessionClient(server, client, http), key


async def everything(client: SessionClient, key: str) -> None:
    """Steer the demo through all that there is; each exchange is heard by the older dialect as it
    happens."""
    one = await client.session()
    await client.post(
        "/api/memories", {"content": "has green tea for a friend", "skill_name": "tea"}
    )
    await client.say(
        one, "think, list files, read nothing.txt, a card, the bridge, a plan; remember green tea"
    )
    await client.say(one, "what about green tea?")
    asks = await client.say(one, "ask")
    await client.say(
        one, askuser_answer={"tool_call_id": asks["tool_calls"][0]["id"], "selections": {"0": [1]}}
    )
    asks = await client.say(one, "subagent ask")
    await client.get(f"/api/sessions/{one}")
    await client.say(one, [{"type": "text", "text": "never mind"}])
    await client.say(one, "how?", mode="planning")
    await client.say(one, "rather not", mode="planning")
    await client.say(one, "do it", mode="executing")
    await client.say(
        one,
        "json",
        headless=True,
        output_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
    )
    await client.say(one, "overflow")
    await client.say(one, "hang")
    await client.get(f"/api/sessions/{one}")
    await client.say(one, "fail")
    await client.get(f"/api/sessions/{one}")
    await client.say(one, "long")
    await client.say(one, "hello")
    await client.compact(one)
    await client.get(f"/api/sessions/{one}")
    await client.resumed(one, key)
    options = "format=json&include=include-internal&internal=full&branches=all"
    client.exported = await client.get(f"/api/sessions/{one}/export?{options}")
    client.history = await client.get(f"/api/sessions/{one}/history")
    await client.get(f"/api/sessions/{one}/checkpoints")
    await client.get(f"/api/sessions/{one}/context-stats")
    brought = await client.post(
        "/api/sessions/import", files={"file": ("session.json", json.dumps(IMPORTED))}
    )
    await client.get(f"/api/sessions/{brought['session_id']}/messages")
    await beside(client, one)


async def beside(client: SessionClient, session_id: str) -> None:
    """What is not said in a session: a session with all its fields, a replay, memories, keys, tasks by
    the clock."""
    made = {"solution_id": "sol_1", "biz_role_id": "role_1", "model": "demo", "is_persistent": True}
    whole = (await client.post("/api/sessions", {"intent": "All of it", **made}))["session_id"]
    played = (await client.post(f"/api/sessions/{session_id}/replay", {"speed": 5}))["session_id"]
    for name in (whole, played):
        await client.get(f"/api/sessions/{name}")
    notes = dict.fromkeys(
        ("skill_name", "scope", "owner", "topic", "mem0_id", "write_reason"), "a word"
    )
    memory = {"content": "likes tea", "type": "experience", "record_type": "skill_comment", **notes}
    old = (await client.post("/api/memories", memory))["id"]
    await client.post(
        "/api/memories", {"content": "likes coffee", "record_type": "memory", "supersedes": [old]}
    )
    await client.get("/api/memories?limit=100")
    await client.post("/api/user/api-keys/", {"name": "another"})
    await client.get("/api/user/api-keys/")
    task = {
        "title": "t",
        "prompt": "hello",
        "cron": "0 9 * * *",
        "model": "demo",
        "expires_at": "2999-01-01T00:00:00Z",
    }
    name = (await client.post("/api/scheduled-tasks", task))["id"]
    await client.post(f"/api/scheduled-tasks/{name}/run")
    await client.get(f"/api/scheduled-tasks/{name}/runs")


def walked(value: Any) -> Iterator[Json]:
    """Every object in a value."""
    if isinstance(value, dict):
        yield value
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from walked(inner)


class Served:
    """What was served, by type."""

    def __init__(self, values: list[Any]) -> None:
        found = [value for item in values for value in walked(item)]
        self.of: dict[str, list[Json]] = {
            "Session": [value for value in found if "is_pinned" in value],
            "TurnProjection": [
                value for value in found if "blocks" in value and "sequence" in value
            ],
            "PatchEnvelope": [value for value in found if "patch_type" in value],
            "ReplayState": [value for value in found if "source_session_id" in value],
            "HistoryNode": [value for value in found if "active" in value],
            "Checkpoint": [value for value in found if "is_leaf" in value],
            "ContextStats": [value for value in found if "used_tokens" in value],
            "Memory": [value for value in found if "mem0_id" in value],
            "ApiKey": [value for value in found if "masked" in value],
            "ScheduledTask": [value for value in found if "cron" in value],
            "ScheduledTaskRun": [
                value for value in found if "task_id" in value and "triggered_at" in value
            ],
        }
        turns, patches = self.of["TurnProjection"], self.of["PatchEnvelope"]
        self.of["ContentBlock"] = [block for turn in turns for block in turn["blocks"]]
        self.of["ToolCallProjection"] = [call for turn in turns for call in turn["tool_calls"]]
        calls = self.of["ToolCallProjection"]
        shown = self.of["ContentBlock"]
        self.of["Bridge"] = [block["content"] for block in shown if block["type"] == "tool_bridge"]
        self.of["UiCard"] = [block["content"] for block in shown if block["type"] == "tool_ui"]
        self.of["PendingQuestionRef"] = [
            ref for call in calls if (ref := call["pending_question_ref"])
        ]
        self.of["MemoryRef"] = [ref for turn in turns for ref in turn["memory_refs"] or ()]
        added = [patch["data"] for patch in patches]
        blocks = [*self.of["ContentBlock"], *(data for data in added if "type" in data)]
        plans = [block["content"] for block in blocks if block["type"] == "plan_status"]
        ends = [value["session_status"] for value in found if value.get("session_status")]
        self.values = {
            "SessionStatus": {*ends, *(session["status"] for session in self.of["Session"])},
            "TurnKind": {turn["kind"] for turn in turns},
            "TurnRole": {turn["role"] for turn in turns},
            "TurnStatus": {turn["status"] for turn in turns},
            "Trigger": {turn["trigger"] for turn in turns if turn.get("trigger")},
            "BlockType": {block["type"] for block in blocks},
            "PlanStatus": {plan["status"] for plan in plans},
            "ToolStatus": {call["status"] for call in calls}
            | {patch["data"]["status"] for patch in patches if "tool" in patch["patch_type"]},
            "PatchType": {patch["patch_type"] for patch in patches},
        }


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}

    async def test() -> None:
        async with talking(tmp_path_factory.mktemp("core") / "data") as (client, key):
            await everything(client, key)
            found.update(client.heard, exported=[client.exported], history=[client.history])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(demo, "open_model", lambda *_: Narrow())
        run(test(), 300)
    return found


def all_of(heard: dict[str, list[Any]]) -> Served:
    return Served([item for way in ("legacy", "raw", "sse", "rest") for item in heard[way]])


@pytest.mark.spec(
    "chat-stop",
    "chat-compact",
    "demo-keywords",
    "type-session-status",
    "type-turn-kind",
    "type-turn-role",
    "type-turn-status",
    "type-trigger",
    "type-block-type",
    "type-tool-status",
    "type-patch-type",
    "type-plan-status",
)
@pytest.mark.parametrize("name", VALUES)
def test_every_value_is_served(heard: dict[str, list[Any]], name: str) -> None:
    assert all_of(heard).values[name] == set(VALUES[name].split())


@pytest.mark.spec("older-dialect", "raw-dialect", "server-sent-events")
@pytest.mark.parametrize(
    "name", ["TurnKind", "TurnRole", "Trigger", "PlanStatus", "ToolStatus", "PatchType"]
)
def test_both_dialects_and_event_streams_send_the_same(
    heard: dict[str, list[Any]], name: str
) -> None:
    result = {way: Served(heard[way]).values[name] for way in ("legacy", "raw", "sse")}
    assert result == {way: set(VALUES[name].split()) for way in result}


@pytest.mark.spec(
    "type-session",
    "type-turn-projection",
    "type-content-block",
    "type-tool-call-projection",
    "type-pending-question-ref",
    "type-memory-ref",
    "type-patch-envelope",
    "type-memory",
    "type-api-key",
    "type-scheduled-task",
    "type-scheduled-task-run",
    "type-bridge",
    "type-ui-card",
    "type-replay-state",
    "type-history-node",
    "type-checkpoint",
    "type-context-stats",
)
@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_served(heard: dict[str, list[Any]], name: str) -> None:
    fields = set(FIELDS[name].split())
    found = all_of(heard).of[name]
    assert found
    assert [item for item in found if not fields <= item.keys()] == []
    given = {field for item in found for field in fields if item[field] is not None}
    later = {
        "ScheduledTaskRun": {"error", "finished_at"},
        "Memory": {"updated_at"},
        "Checkpoint": {"label"},
    }
    assert fields - given <= later.get(name, set())


@pytest.mark.spec("compaction-turn")
def test_a_compaction_has_all_its_fields(heard: dict[str, list[Any]]) -> None:
    turns = all_of(heard).of["TurnProjection"]
    made = [
        turn for turn in turns if turn["kind"] == "compaction" and turn["status"] == "completed"
    ]
    assert made
    assert all(turn[field] is not None for turn in made for field in COMPACTION)
    assert not any(
        field in turn for turn in turns if turn["kind"] == "message" for field in COMPACTION
    )


ANNOTATED = (
    "compaction tool_ui tool_bridge mode_change planning_enter planning_exit plan_status memory_refs call_status "
    "result_facts error interrupted message_facts run"
)


@pytest.mark.spec("compaction-turn")
def test_all_of_it_is_in_the_history_and_in_the_export(heard: dict[str, list[Any]]) -> None:
    """What a compaction put by too; each thing under the name that the format has for it."""
    turns = [node["turn"] for node in heard["history"][0]["nodes"]]
    events = heard["exported"][0]["events"]
    said = [
        content
        for turn in turns
        for block in turn["blocks"]
        if isinstance(content := block["content"], str)
    ]
    result = {item["content"].get("text") for item in events}
    assert len(said) > 20
    assert [content for content in said if content not in result] == []
    notes = [item["content"]["data"] for item in events if item["type"] == "annotation"]
    assert set(ANNOTATED.split()) - {note["kind"] for note in notes} == set()
    put_by = [note for note in notes if note["kind"] == "compaction"]
    assert {note["trigger"] for note in put_by} == set(VALUES["Trigger"].split())
    assert all(
        note["summary"] and note["tokens_before"] and note["compaction_id"] for note in put_by
    )
    assert {note["status"] for note in notes if note["kind"] == "plan_status"} == set(
        VALUES["PlanStatus"].split()
    )
    assert "ask_user_answer" in str(
        [item["content"] for item in events if item.get("role") == "user"]
    )
    assert {item["content"]["data"]["kind"] for item in events if item["type"] == "span_start"} >= {
        "subagent"
    }
    calls = [item for item in events if item["type"] == "tool_use"]
    made = [call["id"] for turn in turns for call in turn["tool_calls"]]
    assert [call["content"]["data"]["native_call_id"] for call in calls] == made
    assert sum(item.get("usage", {}).get("output_tokens", 0) for item in events) == sum(
        turn["usage"]["output_tokens"] for turn in turns if turn["usage"]
    )


def test_times_are_utc_and_say_so(heard: dict[str, list[Any]]) -> None:
    times = [
        value[name]
        for item in all_of(heard).of.values()
        for value in item
        for name in value
        if name.endswith("_at") and value[name] is not None
    ]
    assert times
    assert [time for time in times if not time.endswith("Z")] == []


@pytest.mark.parametrize("name", [name for name in FIELDS if name not in SENT_LIVE])
def test_the_document_of_the_routes_knows_every_field(document: Json, name: str) -> None:
    assert set(FIELDS[name].split()) <= document["components"]["schemas"][name]["properties"].keys()


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Json:
    rest = RestServer(tmp_path_factory.mktemp("routes") / "data")
    made: Json = rest.get("/openapi.json", key=None)
    rest.close()
    return made
