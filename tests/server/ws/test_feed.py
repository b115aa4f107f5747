"""A client that watches a session receives everything once and in order: live, late, with gaps, in both
dialects."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.server.live_events import (
    ANNA,
    BEN,
    RecordingClient,
    append_events,
    create_session,
    ended,
    fold_turns,
    opened,
    read_copy,
    read_stored_turns,
    run,
    run_services_in,
    summarize_turns,
    word,
)
from helpers.server.random_sessions import SessionLog, session_logs
from open_token.server.bus.interface import LogAppended
from open_token.server.core.services import Services
from open_token.server.errors import ApiError
from open_token.server.ws import sse
from open_token.server.ws.frames import BATCH_EVENT, Frame


def join_deltas(ears: RecordingClient) -> str:
    """All the words that came."""
    patches = [item["payload"] for item in ears.items() if item["type"] == "turn:patch"]
    return "".join(patch["data"]["text_delta"] for patch in patches)


async def last(services: Services) -> int:
    session = await services.store.session(ANNA, "sess_1")
    assert session
    return session.stream_sequence


@pytest.mark.parametrize("dialect", ["raw", "legacy"])
def test_from_now_on(tmp_path: Path, dialect: Any) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            await append_events(services, opened("turn_0"), word("old", "turn_0"), ended("turn_0"))
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", dialect, None, ears)
            await append_events(services, opened(), word("new"), ended())
            await ears.until(
                lambda: (
                    bool(ears.mirror.turns()) and ears.mirror.turns()[0]["status"] == "completed"
                )
            )
            assert [turn["turn_id"] for turn in ears.mirror.turns()] == ["turn_1"]
            assert ears.numbers == sorted(set(ears.numbers))

    run(test())


@pytest.mark.spec("session-subscribe")
@pytest.mark.parametrize("dialect", ["raw", "legacy"])
def test_the_past_then_what_comes(tmp_path: Path, dialect: Any) -> None:
    """More than a page of it, while the session goes on."""

    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            await append_events(services, opened())
            for number in range(25):
                await append_events(services, *[word(f"{number}.{part} ") for part in range(10)])
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", dialect, 0, ears)
            for number in range(30):
                await append_events(services, word(f"live {number} "))
            await append_events(services, ended())
            final = await last(services)
            await ears.until(lambda: ears.mirror.seen >= final)
            assert (
                summarize_turns(ears.mirror.branch())
                == await fold_turns(services)
                == await read_stored_turns(services)
            )
            assert ears.numbers == sorted(set(ears.numbers))
            assert ears.rooms > 2

    run(test())


def test_words_wait_a_moment_and_all_else_does_not(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "raw", None, ears)
            await append_events(services, opened())
            await asyncio.gather(
                *(append_events(services, word(f"{number} ")) for number in range(50))
            )
            await append_events(services, ended())
            final = await last(services)
            await ears.until(lambda: ears.mirror.seen >= final)
            assert set(ears.names()) == {BATCH_EVENT}
            assert len(ears.items()) == 52
            assert len(ears.frames) < 40
            assert len(join_deltas(ears).split()) == 50

    run(test())


@pytest.mark.spec("older-dialect")
def test_older_clients_get_words_put_together_with_the_whole_turn(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "legacy", None, ears)
            await append_events(services, opened())
            await append_events(services, *[word(f"{number} ") for number in range(20)])
            await append_events(services, ended())
            await ears.until(lambda: "turn:end" in ears.names())
            patch = ears.frames[1].payload
            whole = "".join(f"{number} " for number in range(20))
            assert ears.names() == ["turn:start", "turn:patch", "turn:end"]
            assert patch["data"]["text_delta"] == patch["data"]["content"] == whole
            assert patch["data"]["turn"]["blocks"][0]["content"] == whole
            assert [frame.payload["stream_sequence"] for frame in ears.frames] == [2, 22, 23]

    run(test())


@pytest.mark.spec("chat-end")
@pytest.mark.parametrize("dialect", ["raw", "legacy"])
def test_the_end_of_a_chat_is_an_event_of_its_own(tmp_path: Path, dialect: Any) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", dialect, None, ears)
            made = {"run_id": "run_1"}
            await append_events(
                services, ("run.started", made), ("run.ended", {**made, "output": "done"})
            )
            await ears.until(lambda: "chat:end" in ears.names())
            end = ears.frames[-1].payload
            assert end["session_id"] == "sess_1"
            assert (end["status"], end["finish_reason"], end["stream_sequence"]) == (
                "completed",
                "completed",
                3,
            )
            assert end["result"]["result"] == "done"
            assert ("output" in end["result"]) == (dialect == "legacy")
            assert [item["type"] for item in ears.items()] == (
                ["chat:start", "chat:end"] if dialect == "raw" else []
            )

    run(test())


def test_a_gap_is_healed_from_the_log(tmp_path: Path) -> None:
    """Another node's words come without entries, twice, in the wrong order, or not at all."""

    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            publish, held = services.bus.publish, list[LogAppended]()
            services.bus.publish = held.append  # type: ignore[method-assign]
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "raw", None, ears)
            await append_events(services, opened())
            for text in "abcdef":
                await append_events(services, word(text))
            first, a, _, c, d, e, f = held
            publish(LogAppended(first.session_id, ANNA, first.first, first.last))
            publish(c)
            publish(c)
            publish(a)
            publish(LogAppended("sess_1", ANNA, 99, f.last - 1))
            publish(d)
            publish(e)
            publish(f)
            await ears.until(lambda: ears.mirror.seen == f.last)
            assert join_deltas(ears) == "abcdef"
            assert ears.numbers == list(range(2, 9))

    run(test())


def test_another_s_session_is_not_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            anna = await services.feed.subscribe(ANNA, "sess_1", "raw", None, RecordingClient())
            for owner, name in ((BEN, "sess_1"), (ANNA, "sess_2")):
                with pytest.raises(ApiError) as caught:
                    await services.feed.subscribe(owner, name, "raw", 0, RecordingClient())
                assert caught.value.status == 404
            anna.close()
            anna.close()
            assert services.feed._channels == {}

    run(test())


def test_who_left_hears_no_more_and_others_do(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            stays, goes = RecordingClient(), RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "raw", None, stays)
            leaving = await services.feed.subscribe(ANNA, "sess_1", "raw", None, goes)
            await append_events(services, opened())
            await stays.until(lambda: bool(stays.frames))
            leaving.close()
            await append_events(services, ended())
            await stays.until(lambda: len(stays.items()) == 2)
            assert len(goes.items()) == 1

    run(test())


def test_a_sequence_beyond_the_log_is_the_end_of_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            ears = RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "raw", 10**12, ears)
            await append_events(services, opened())
            await ears.until(lambda: bool(ears.items()))
            assert ears.items()[0]["stream_sequence"] == 2

    run(test())


def test_a_deleted_session_and_a_stopping_server_say_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with run_services_in(tmp_path) as services:
            await create_session(services)
            await create_session(services, "sess_2")
            gone, stopped = RecordingClient(), RecordingClient()
            await services.feed.subscribe(ANNA, "sess_1", "legacy", None, gone)
            await services.feed.subscribe(ANNA, "sess_2", "raw", None, stopped)
            await services.store.delete_session(ANNA, "sess_1")
            services.bus.publish(LogAppended("sess_1", ANNA, 2, 2))
            await services.feed.poll()
            await gone.until(lambda: gone.problem is not None)
            assert gone.problem
            assert gone.problem.status == 404
        assert stopped.problem
        assert stopped.problem.code == "stopping"

    run(test())


class EventSource(RecordingClient):
    """A sink that reads what is sent as an event stream."""

    def send(self, frame: Frame) -> None:
        stream = sse._Stream(1 << 30)
        stream.send(frame)
        for event in b"".join(stream._parts).split(b"\n\n")[:-1]:
            number, data = event.split(b"\n")
            item = json.loads(data.removeprefix(b"data: "))
            assert number == b"id: %d" % item["stream_sequence"]
            super().send(Frame(BATCH_EVENT, {"events": [item]}, [item]))


@settings(max_examples=15)
@given(session_logs(), st.data())
def test_what_a_client_has_is_the_fold_is_what_is_stored(
    tmp_path_factory: pytest.TempPathFactory, session_log: SessionLog, data: st.DataObject
) -> None:
    """Clients of both dialects and event streams that come and go at random and resume have the
    turns of the log."""
    cuts = sorted(data.draw(st.lists(st.integers(1, 60), max_size=6)))
    size = data.draw(st.integers(1, 9))

    async def test() -> None:
        async with run_services_in(tmp_path_factory.mktemp("data")) as services:
            writing = asyncio.create_task(read_copy(services, session_log.entries, size=size))
            while await services.store.session(ANNA, "sess_1") is None:
                await asyncio.sleep(0)
            everybody: list[tuple[Any, RecordingClient]] = [
                ("raw", RecordingClient()),
                ("legacy", RecordingClient()),
                ("raw", EventSource()),
            ]
            for cut in cuts:
                for dialect, ears in everybody:
                    there = await services.feed.subscribe(
                        ANNA, "sess_1", dialect, ears.mirror.seen, ears
                    )
                    for _ in range(cut):
                        await asyncio.sleep(0)
                    there.close()
            await writing
            for dialect, ears in everybody:
                await services.feed.subscribe(ANNA, "sess_1", dialect, ears.mirror.seen, ears)
            await append_events(services, ("notice.given", {"message": "the end"}))
            final = await last(services)
            expected = await fold_turns(services)
            assert expected == await read_stored_turns(services)
            for _, ears in everybody:
                await ears.until(lambda ears=ears: ears.mirror.seen >= final)
                assert ears.numbers == sorted(set(ears.numbers))
                assert summarize_turns(ears.mirror.branch()) == expected

    run(test())
