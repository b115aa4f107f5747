"""Live clients: every event of the protocol, both dialects, order, refusals, limits, keys that end,
slow readers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from helpers.server.live_events import (
    ANNA,
    AT,
    BEN,
    append_events,
    create_key,
    create_session,
    ended,
    fold_turns,
    opened,
    read_stored_turns,
    run,
    summarize_turns,
    word,
)
from helpers.server.socket_server import Client, Sleeper, listening
from open_token.model.log_events import NewEvent

RAW = {"event_format": "raw", "after_sequence": 0}


@pytest.mark.spec("socket-event-order", "raw-dialect", "type-raw-event")
def test_an_exchange_as_newer_clients_hear_it(tmp_path: Path) -> None:
    """Subscribe and send follow each other without waiting, as published clients do it."""

    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                await client.subscribe(**RAW)
                sent = {"session_id": "sess_1", "message": "one two", "client_message_id": "m1"}
                ack = await client.io.call("chat:send", sent)
                assert ack == {
                    "status": "ok",
                    "session_id": "sess_1",
                    "turn_id": "turn_1",
                    "chat_run_id": "run_1",
                    "queued": False,
                }
                end = await client.first("chat:end")
                assert set(client.names()) == {"turn:events", "chat:end"}
                assert {
                    "session_id",
                    "status",
                    "result",
                    "finish_reason",
                    "chat_run_id",
                } <= end.keys()
                types = [item["type"] for item in client.items()]
                words = ["turn:patch"] * 2
                turns = ["turn:start", "turn:end", "turn:start", *words, "turn:end"]
                assert types == ["chat:start", *turns, "chat:end"]
                assert (
                    end["stream_sequence"]
                    == client.items()[-1]["stream_sequence"]
                    == client.mirror.seen
                )
                assert (
                    summarize_turns(client.mirror.branch())
                    == await fold_turns(server.services)
                    == await read_stored_turns(server.services)
                )
                assert all(
                    set(item) == {"type", "payload", "stream_sequence"} for item in client.items()
                )

    run(test())


@pytest.mark.spec("older-dialect")
def test_an_exchange_as_older_clients_hear_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                await client.subscribe()
                await client.io.emit("chat:send", {"session_id": "sess_1", "message": "one two"})
                end = await client.first("chat:end")
                turns = ["turn:start", "turn:end", "turn:start", "turn:patch", "turn:end"]
                assert client.names() == ["chat:start", *turns, "chat:end"]
                assert end["result"] == {"result": "one two", "output": "one two", "schema": None}
                assert all(payload["session_id"] == "sess_1" for _, payload in client.events)
                patch = await client.first("turn:patch")
                assert {"type", "content", "text_delta", "turn", "block_index"} == patch[
                    "data"
                ].keys()
                assert summarize_turns(client.mirror.branch()) == await fold_turns(server.services)

    run(test())


BESIDE: list[tuple[NewEvent, str, Any]] = [
    (
        ("session.changed", {"changes": {"intent": "New"}}),
        "session:updated",
        {"intent": "New", "id": "sess_1"},
    ),
    (
        ("signal.sent", {"event": "workspace:files_changed", "payload": {"paths": ["a"]}}),
        "",
        {"paths": ["a"]},
    ),
    (("signal.sent", {"event": "task:updated", "payload": {"id": "task_1"}}), "", {"id": "task_1"}),
    (
        ("signal.sent", {"event": "replay:input_mismatch", "payload": {"expected": "a"}}),
        "",
        {"expected": "a"},
    ),
    (("notice.given", {"message": "soon"}), "system:notification", {"message": "soon"}),
    (
        ("error.raised", {"message": "no", "code": "E1", "detail": "why"}),
        "system:error",
        {"message": "no", "code": "E1", "detail": "why"},
    ),
]


@pytest.mark.spec("session-notifications")
def test_everything_beside_the_turns(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            token = await create_key(server.services)
            async with Client(server.address, token) as old, Client(server.address, token) as new:
                await old.io.call("session:subscribe", {"session_id": "sess_1"})
                await new.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                refs = (
                    "memory.recalled",
                    {"turn_id": "turn_1", "refs": [{"id": 1, "content_preview": "p"}]},
                )
                await append_events(
                    server.services, opened(), refs, *[step for step, _, _ in BESIDE], ended()
                )
                await old.first("turn:end")
                await new.until(lambda: new.mirror.seen == old.mirror.seen)
                result = dict(old.events)
                items = {item["type"]: item["payload"] for item in new.items()}
                for step, name, payload in BESIDE:
                    event = name or step[1]["event"]
                    for heard in (result[event], items[event]):
                        assert heard["session_id"] == "sess_1"
                        assert payload.items() <= heard.items()
                assert result["memory:inject:done"]["memory_refs"] == [
                    {"id": 1, "content_preview": "p"}
                ]
                assert (await new.first("system:error"))["code"] == "E1"

    run(test())


@pytest.mark.spec("session-subscribe")
def test_only_who_resumes_is_reported_the_past(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            await append_events(
                server.services, opened(), word("old"), ended(), ("run.started", {"run_id": "r"})
            )
            await append_events(server.services, ("run.ended", {"run_id": "r"}))
            token = await create_key(server.services)
            async with (
                Client(server.address, token) as fresh,
                Client(server.address, token) as back,
            ):
                await fresh.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                await back.io.call(
                    "session:subscribe", {"session_id": "sess_1", **RAW, "resume": True}
                )
                await append_events(server.services, ("notice.given", {"message": "now"}))
                for client in (fresh, back):
                    await client.until(lambda client=client: client.mirror.seen == 7)
                assert fresh.numbers == [7]
                assert back.numbers == [1, 2, 3, 4, 5, 6, 7]
                assert "chat:end" in back.names()
                assert "chat:end" not in fresh.names()

    run(test())


@pytest.mark.spec("session-unsubscribe")
def test_one_subscription_for_a_session_and_none_after_unsubscribing(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                await client.subscribe()
                await client.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                await append_events(server.services, opened())
                await client.first("turn:events")
                assert client.names() == ["turn:events"]
                await client.io.call("session:unsubscribe", {"session_id": "sess_1"})
                await append_events(server.services, ended())
                ack = await client.io.call("chat:stop", {"session_id": "sess_1"})
                assert ack == {"status": "ok", "stopped": False}
                assert client.names() == ["turn:events"]

    run(test())


@pytest.mark.spec("chat-stop", "chat-compact")
def test_stop_and_compact_are_acknowledged(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            listening(tmp_path) as server,
            Client(server.address, await create_key(server.services)) as client,
        ):
            assert await client.io.call("chat:stop", {"session_id": "s"}) == {
                "status": "ok",
                "stopped": False,
            }
            ack = await client.io.call("chat:compact", {"session_id": "s"})
            assert ack == {"status": "ok", "message": "nothing to do", "code": "too_short"}

    run(test())


@pytest.mark.spec("socket-authentication")
@pytest.mark.parametrize("token", ["", "nobody", None, 5, {"a": 1}, "x" * 10_000])
def test_a_key_that_is_none_is_a_connect_error(tmp_path: Path, token: Any) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            refusal = await Client(server.address, token).refusal()
            assert refusal["data"] == {"code": "unauthorized"}
            assert "valid API key" in refusal["message"]

    run(test())


@pytest.mark.spec("socket-authentication")
def test_other_words_of_newer_clients_do_no_harm(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            client = Client(server.address, "")
            token = await create_key(server.services)
            auth = {"token": token, "sdk": "some-kit", "sdk_version": "0.1.0"}
            await client.io.connect(server.address, auth=auth)
            assert client.io.connected
            await client.io.disconnect()
            await client.io.connect(server.address, headers={"Authorization": f"Bearer {token}"})
            assert client.io.connected
            await client.io.disconnect()

    run(test())


def test_keys_that_only_read_watch_and_do_not_send(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(
                server.address, await create_key(server.services, scope="read")
            ) as client:
                await client.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                for name in ("chat:send", "chat:stop", "chat:compact"):
                    ack = await client.io.call(name, {"session_id": "sess_1", "message": "hi"})
                    assert (ack["status"], ack["code"]) == ("error", "read_only")
                await append_events(server.services, opened())
                await client.first("turn:events")

    run(test())


def test_a_session_of_another_is_not_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services, BEN)) as client:
                await client.subscribe(**RAW)
                error = await client.first("system:error")
                assert error == {
                    "message": "no such session",
                    "session_id": "sess_1",
                    "code": "not_found",
                    "detail": "no such session",
                }

    run(test())


WRONG: list[tuple[str, Any, str]] = [
    ("session:subscribe", None, "bad_request"),
    ("session:subscribe", "sess_1", "bad_request"),
    ("session:subscribe", [], "bad_request"),
    ("session:subscribe", {}, "bad_request"),
    ("session:subscribe", {"session_id": 7}, "bad_request"),
    ("session:subscribe", {"session_id": "x" * 501}, "bad_request"),
    ("session:subscribe", {"session_id": "sess_9"}, "not_found"),
    ("session:subscribe", {"session_id": "sess_1", "event_format": "other"}, "bad_request"),
    ("session:subscribe", {"session_id": "sess_1", "event_format": {}}, "bad_request"),
    ("session:subscribe", {"session_id": "sess_1", "after_sequence": -1}, "bad_request"),
    ("session:subscribe", {"session_id": "sess_1", "after_sequence": "1"}, "bad_request"),
    ("session:subscribe", {"session_id": "sess_1", "after_sequence": True}, "bad_request"),
    ("session:unsubscribe", {"session_id": []}, "bad_request"),
    ("chat:send", {"message": "hi"}, "bad_request"),
    ("chat:send", {"session_id": "sess_1", "message": 7}, "bad_request"),
    ("chat:send", {"session_id": "sess_9", "message": "hi"}, "not_found"),
    ("chat:send", {"session_id": "sess_1", "message": "boom"}, "internal"),
    ("chat:stop", 1.5, "bad_request"),
    ("chat:compact", False, "bad_request"),
]


@pytest.mark.spec("socket-errors")
def test_an_invalid_message_is_reported_and_the_socket_stays_open(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                for name, payload, code in WRONG:
                    ack = await client.io.call(name, payload)
                    assert (ack["status"], ack["code"]) == ("error", code), (name, payload)
                    assert "must not be sent" not in str(ack)
                await client.until(lambda: len(client.events) == len(WRONG))
                assert set(client.names()) == {"system:error"}
                given = [
                    payload.get("session_id") if isinstance(payload, dict) else None
                    for _, payload, _ in WRONG
                ]
                named = [
                    name if isinstance(name, str) and len(name) <= 500 else None for name in given
                ]
                assert [payload["session_id"] for _, payload in client.events] == named
                assert (await client.io.call("chat:stop", {"session_id": "sess_1"}))[
                    "status"
                ] == "ok"

    run(test())


PACKETS = [
    "",
    "4",
    "42",
    "42{}",
    "42[]",
    "42[1]",
    "42[{}]",
    '42["connect",{}]',
    '42["disconnect"]',
    '42["nothing"]',
]
PACKETS += [
    '42["chat:send"',
    "4x",
    "43",
    "431[]",
    "44",
    "45",
    '451-["chat:send",{"_placeholder":true,"num":0}]',
    "49",
]
PACKETS += [
    "42" + "[" * 100_000,
    "4" + "9" * 500 + "[]",
    '42/other,["chat:send",{}]',
    "8",
    "zzz",
    '42["chat:send",1,2]',
]


@pytest.mark.spec("socket-errors")
def test_packets_that_are_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                for packet in PACKETS:
                    await client.io.eio.ws.send_str(packet) if packet else None
                await client.io.eio.ws.send_bytes(b"\x00\xff")
                assert (await client.io.call("chat:stop", {"session_id": "sess_1"}))[
                    "status"
                ] == "ok"
                assert set(client.names()) == {"system:error"}
                assert {payload["code"] for _, payload in client.events} == {
                    "bad_packet",
                    "unknown_event",
                    "bad_request",
                }

    run(test())


def test_events_that_are_too_long_or_too_many(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, event_bytes=2000, events_per_minute=3) as server:
            await create_session(server.services)
            async with Client(server.address, await create_key(server.services)) as client:
                await client.io.emit("chat:send", {"session_id": "sess_1", "message": "x" * 3000})
                assert (await client.first("system:error"))["code"] == "too_large"
                acks = [
                    await client.io.call("chat:stop", {"session_id": "sess_1"}) for _ in range(3)
                ]
                assert [ack.get("code") for ack in acks] == [None, None, "rate_limited"]
                for _ in range(4):
                    await client.io.emit("chat:stop", {"session_id": "sess_1"})
                await client.first("disconnect")
            async with Client(server.address, await create_key(server.services)) as again:
                await again.io.emit("chat:stop", {"session_id": "sess_1"})
                await again.first("disconnect")

    run(test())


def test_so_many_connections_of_one_user(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, connections_per_user=1) as server:
            token = await create_key(server.services)
            async with Client(server.address, token):
                refusal = await Client(server.address, token).refusal()
                assert refusal["data"] == {"code": "too_many_connections"}
            while server.services.connections.count():
                await asyncio.sleep(0)
            async with Client(server.address, token):
                pass

    run(test())


def test_a_revoked_key_ends_its_sockets(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            token, other = await create_key(server.services), await create_key(server.services)
            async with (
                Client(server.address, token) as client,
                Client(server.address, other) as stays,
            ):
                await stays.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                caller = await server.services.store.check_key(token, AT)
                assert caller
                await server.services.store.revoke_key(ANNA, caller.key.id, AT)
                server.services.connections.recheck()
                await client.first("disconnect")
                assert (await client.first("system:error"))["code"] == "unauthorized"
                await append_events(server.services, opened())
                await stays.first("turn:events")

    run(test())


@pytest.mark.spec("socket-transports")
@pytest.mark.parametrize("transport", ["polling", "websocket"])
def test_both_ways_to_connect(tmp_path: Path, transport: str) -> None:
    async def test() -> None:
        async with listening(tmp_path) as server:
            await create_session(server.services)
            async with Client(
                server.address, await create_key(server.services), [transport]
            ) as client:
                assert client.io.transport() == transport
                await client.subscribe(**RAW)
                await client.io.emit("chat:send", {"session_id": "sess_1", "message": "a b c"})
                await client.first("chat:end")
                assert summarize_turns(client.mirror.branch()) == await fold_turns(server.services)

    run(test())


@pytest.mark.spec("slow-clients")
def test_who_takes_nothing_is_cut_off_and_others_get_everything(tmp_path: Path) -> None:
    async def test() -> None:
        async with listening(tmp_path, pending_packets=50, pending_bytes=200_000) as server:
            await create_session(server.services)
            token = await create_key(server.services)
            async with Client(server.address, token) as client:
                await client.io.call("session:subscribe", {"session_id": "sess_1", **RAW})
                slow = await Sleeper.wake(server.address, token)
                slow.emit("session:subscribe", {"session_id": "sess_1", **RAW})
                (channel,) = server.services.feed._channels.values()
                while channel.users < 2:
                    await asyncio.sleep(0.01)
                await append_events(server.services, opened())
                for number in range(400):
                    if server.services.connections.count() == 1:
                        break
                    await append_events(
                        server.services, ("notice.given", {"message": "x" * 100_000})
                    )
                    final = 3 + number
                    await client.until(lambda final=final: client.mirror.seen >= final)
                assert server.services.connections.count() == 1
                await slow.close()
                await append_events(server.services, ended())
                await client.until(lambda: client.items()[-1]["type"] == "turn:end")
                assert client.numbers == sorted(set(client.numbers))

    run(test(), 120)
