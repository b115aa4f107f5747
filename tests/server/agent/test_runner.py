"""A run from its claim to its end: what it refuses, and what it writes off."""

from collections.abc import Callable
from pathlib import Path

from helpers.server.agent_session import ScriptedModel, open_agent_session, run
from open_token.server.agent import runner
from open_token.server.core.exchanges import end_run
from open_token.session import actions


def test_a_model_that_is_gone_fails_the_run(tmp_path: Path, fakes: Callable[..., None]) -> None:
    async def scenario() -> None:
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            room.services.env = {"ANTHROPIC_API_KEY": "k"}
            ack = await room.services.chat.send(
                room.caller, {"session_id": room.id, "message": "hi", "model": "anthropic:x"}
            )
            room.services.env = {}
            await room.rest()
            assert room.mirror.ended
            assert room.mirror.ended["chat_run_id"] == ack["chat_run_id"]
            assert "ANTHROPIC_API_KEY" in room.mirror.ended["result"]["err_msg"]
            await room.check()

    run(scenario())


def test_a_run_that_was_stopped_before_it_began_is_written_off(
    tmp_path: Path, fakes: Callable[..., None]
) -> None:
    async def scenario() -> None:
        fakes(ScriptedModel("never", "second"))
        async with open_agent_session(tmp_path) as opened:
            room = await opened()
            await room.services.runner.close()
            await room.send("go", wait=False)
            owner = room.caller.user.id
            await end_run(
                room.services,
                owner,
                room.id,
                lambda state: actions.interrupt_run(state),
                fence=None,
                how=None,
            )
            (row,) = await room.services.store.runs(owner, room.id)
            assert row.status == "queued"
            clock = room.services.clock
            claimed = await room.services.store.claim_run("w", clock.now(), clock.now(plus=30))
            assert claimed is not None
            await runner.AgentRun(room.services, claimed, lambda: False).execute()
            (row,) = await room.services.store.runs(owner, room.id)
            assert row.status == "interrupted"
            assert room.mirror.session["status"] == "interrupted"
            await room.check()

    run(scenario())
