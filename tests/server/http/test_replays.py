"""The routes of replays: who may use them, and what they refuse."""

from pathlib import Path
from typing import Any

import pytest

from helpers.server.server_client import ServerClient, run_with_server


@pytest.mark.spec("replay-start")
@pytest.mark.parametrize(
    "body",
    [
        b'{"speed": 3}',
        b'{"speed": "fast"}',
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"speed": 1e400}',
        b"\xff",
    ],
)
def test_speeds_that_there_are_not(tmp_path: Path, body: bytes) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        made = await ask(
            "POST",
            "/api/sessions/sess_1/replay",
            content=body,
            headers={"content-type": "application/json"},
        )
        replay = (await ask("POST", "/api/sessions/sess_1/replay")).json()["session_id"]
        route = f"/api/sessions/{replay}/replay"
        changed = await ask(
            "PATCH", route, content=body, headers={"content-type": "application/json"}
        )
        return made, changed, (await ask.services.store.sessions(ask.owner)).total

    made, changed, total = run_with_server(tmp_path, test)
    assert {made.status_code, changed.status_code} <= {400, 422}
    assert made.json()["detail"]
    assert total == 2


@pytest.mark.spec("replay-control")
@pytest.mark.parametrize(
    "body", [{"status": "finished"}, {"status": "mismatch"}, {"status": 5}, {"speed": 4}]
)
def test_states_that_nobody_sets(tmp_path: Path, body: Any) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        replay = (await ask("POST", "/api/sessions/sess_1/replay", json={"speed": 2})).json()[
            "session_id"
        ]
        return await ask("PATCH", f"/api/sessions/{replay}/replay", json=body)

    assert run_with_server(tmp_path, test).status_code == 422


def test_who_may_replay(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        codes = []
        for method, path in (("POST", "replay"), ("GET", "replay/preview"), ("PATCH", "replay")):
            for who in ("nobody", "ben", "reader"):
                answer = await ask(
                    method,
                    f"/api/sessions/sess_1/{path}",
                    who=who,
                    **({"json": {}} if method != "GET" else {}),
                )
                codes.append(answer.status_code)
        no_replay = await ask("PATCH", "/api/sessions/sess_1/replay", json={"speed": 1})
        return codes, no_replay

    codes, no_replay = run_with_server(tmp_path, test)
    assert codes == [401, 404, 403, 401, 404, 200, 401, 404, 403]
    assert (no_replay.status_code, no_replay.json()["code"]) == (409, "no_replay")
