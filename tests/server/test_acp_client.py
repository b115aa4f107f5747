"""The official client of the Agent Client Protocol against `open-token acp`; `make test-full`
installs it."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.server.fake_provider import chat_answer, chat_call, provider

pytestmark = pytest.mark.full
acp = pytest.importorskip(
    "acp", reason="agent-client-protocol is not installed; see scripts/full.sh"
)


class Client:
    """An editor that chooses the first option and keeps what it is shown.

    The package validates every message by the models of the protocol."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.permissions: list[Any] = []

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **more: Any
    ) -> Any:
        self.permissions.append((tool_call, options))
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return acp.schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, agent: Any) -> None:
        """Nothing to remember."""

    def kinds(self) -> set[str]:
        return {update.session_update for update in self.updates}

    def text(self) -> str:
        return "".join(
            update.content.text
            for update in self.updates
            if update.session_update == "agent_message_chunk"
        )


@contextlib.asynccontextmanager
async def connected(folder: Path, *words: str, **env: str) -> Any:
    client = Client()
    command = (sys.executable, "-m", "open_token", "acp", "--data", str(folder), *words)
    variables = os.environ | {"OPEN_TOKEN_DEMO_DELAY": "0"} | env
    async with acp.spawn_agent_process(
        client, *command, env=variables, use_unstable_protocol=True
    ) as (agent, _):
        said = await agent.initialize(acp.PROTOCOL_VERSION)
        assert said.protocol_version == acp.PROTOCOL_VERSION
        yield client, agent


def test_the_official_client_holds_conversations(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("words of a file")

    async def scenario() -> None:
        async with connected(tmp_path / "data") as (client, agent):
            session = await agent.new_session(cwd=str(project), mcp_servers=[])

            async def say(text: str) -> str:
                client.updates.clear()
                answer = await agent.prompt(session.session_id, [acp.text_block(text)])
                return str(answer.stop_reason)

            assert {mode.id for mode in session.modes.available_modes} == {"ask", "auto", "plan"}
            assert await say("think read a.txt") == "end_turn"
            wanted = {"agent_thought_chunk", "agent_message_chunk", "tool_call", "tool_call_update"}
            assert wanted <= client.kinds()
            assert "words of a file" in client.text()
            assert await say("plan") == "end_turn"
            assert "plan" in client.kinds()
            assert await say("ask") == "end_turn"
            assert len(client.permissions) == 1
            assert "Left" in client.text()
            listed = await agent.list_sessions()
            assert [item.session_id for item in listed.sessions] == [session.session_id]
            client.updates.clear()
            await agent.load_session(
                cwd=str(project), session_id=session.session_id, mcp_servers=[]
            )
            assert {"user_message_chunk", "plan", *wanted} <= client.kinds() | {"tool_call_update"}
            running = asyncio.ensure_future(say("long long"))
            while not client.kinds():
                await asyncio.sleep(0.01)
            await agent.cancel(session.session_id)
            assert await running in ("cancelled", "end_turn")
            await agent.set_session_mode(session.session_id, "plan")
            await agent.close_session(session.session_id)

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_change_of_a_file_needs_the_permission_of_the_official_client(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()

    async def scenario() -> None:
        answers = (
            chat_call("Write", {"file_path": "b.txt", "content": "b"}, "c1"),
            chat_answer("Good."),
        )
        async with provider(*answers) as service:
            words = ("--model", "openai:m", "--base-url", f"{service.url}/v1")
            async with connected(tmp_path / "data", *words, OPENAI_API_KEY="none") as (
                client,
                agent,
            ):
                session = await agent.new_session(cwd=str(project), mcp_servers=[])
                await agent.prompt(session.session_id, [acp.text_block("Write it")])
                (asked, options) = client.permissions[0]
                assert asked.content[0].path == str(project / "b.txt")
                assert [option.kind for option in options] == [
                    "allow_once",
                    "allow_always",
                    "reject_once",
                ]
                assert (project / "b.txt").read_text() == "b"

    asyncio.run(asyncio.wait_for(scenario(), 120))
