"""Access tokens over sockets: one session only, and no longer than they last."""

from pathlib import Path

from helpers.server.live_events import create_session, run
from helpers.server.socket_server import Client, listening
from open_token.server.core.access_tokens import NewToken, mint_token


def test_a_token_opens_its_session_until_it_ends(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as there:
            services = there.services
            await create_session(services)
            await create_session(services, "sess_2")
            owner = (await services.store.users())[0]
            _, key = await services.store.add_key(owner.id, "x", "full", services.clock.now())
            caller = await services.store.check_key(key, services.clock.now())
            assert caller is not None
            wanted = NewToken(session_id="sess_1", ttl_seconds=2)
            token = (await mint_token(services, caller, wanted)).token
            async with Client(there.address, token) as client:
                answer = await client.io.call("session:subscribe", {"session_id": "sess_1"})
                assert answer["status"] == "ok"
                answer = await client.io.call("session:subscribe", {"session_id": "sess_2"})
                assert answer["code"] == "not_found"
                answer = await client.io.call("chat:send", {"session_id": "sess_2", "message": "x"})
                assert answer["code"] == "not_found"
                problem = await client.first("disconnect")
                assert problem is not None
            assert (await Client(there.address, token).refusal())["data"]["code"] == "unauthorized"

    run(test())
