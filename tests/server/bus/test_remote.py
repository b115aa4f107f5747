"""What every bus must do, and what those between nodes do when messages are lost and links
break."""

import asyncio
import contextlib
from collections.abc import Callable, Collection

import pytest

from helpers.server.buses import (
    KINDS,
    REMOTE,
    Heads,
    Received,
    build_log_appended,
    run_with_buses,
    wait_until_connected,
    wait_until_followed,
)
from open_token.errors import StoreError
from open_token.server.bus.interface import Bus, LogAppended
from open_token.server.bus.remote import RemoteBus


@pytest.mark.parametrize("kind", KINDS)
class TestEveryBus:
    def test_who_listens_hears_of_that_session(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            near, far, outsider = Received(), Received(), Received()
            one.listen("sess_1", near)
            other.listen("sess_1", far)
            other.listen("sess_2", outsider)
            await wait_until_followed(other, "sess_2")
            one.publish(build_log_appended(3, first=1))
            assert near.received == [build_log_appended(3, first=1)]
            await far.until(3)
            assert (far.received[-1].session_id, far.received[-1].owner) == ("sess_1", "user_anna")
            assert outsider.received == []

        run_with_buses(kind, play)

    def test_events_are_received_in_order(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            far = Received()
            other.listen("sess_1", far)
            await wait_until_followed(other, "sess_1")
            for last in range(1, 301):
                one.publish(build_log_appended(last))
                if last % 50 == 0:
                    await far.until(last)
            lasts = [result.last for result in far.received]
            assert lasts == sorted(set(lasts))
            firsts = [result.first for result in far.received]
            assert firsts == [1, *(last + 1 for last in lasts[:-1])]

        run_with_buses(kind, play)

    def test_who_stopped_hears_nothing(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            gone, stays = Received(), Received()
            stop = other.listen("sess_1", gone)
            other.listen("sess_1", stays)
            await wait_until_followed(other, "sess_1")
            stop()
            stop()
            one.publish(build_log_appended(1))
            await stays.until(1)
            assert gone.received == []

        run_with_buses(kind, play)

    def test_to_publish_never_fails(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            await one.close()
            one.publish(build_log_appended(1))

        run_with_buses(kind, play)


@pytest.mark.parametrize("kind", REMOTE)
class TestBetweenNodes:
    def test_only_pointers_travel(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            far = Received()
            other.listen("sess_1", far)
            await wait_until_followed(other, "sess_1")
            one.publish(build_log_appended(1))
            await far.until(1)
            assert [result.entries for result in far.received] == [()]

        run_with_buses(kind, play)

    def test_a_message_that_is_lost_is_found_in_the_store(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            far = Received()
            other.listen("sess_1", far)
            await wait_until_followed(other, "sess_1")
            one.publish(build_log_appended(2, first=1))
            await far.until(2)
            heads["sess_1"] = ("user_anna", 7)
            await far.until(7)
            assert (far.received[-1].first, far.received[-1].last) == (3, 7)

        run_with_buses(kind, play, poll=0.05)

    def test_what_was_written_before_the_channel_is_followed_is_reported(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            heads["sess_1"] = ("user_anna", 5)
            far = Received()
            other.listen("sess_1", far)
            await far.until(5)

        run_with_buses(kind, play)

    def test_many_sessions_each_have_their_channel(self, kind: str) -> None:
        async def play(one: Bus, other: Bus, heads: Heads) -> None:
            names = [f"sess_{number} größer '{number}\" 数据" for number in range(60)]
            heard = {name: Received() for name in names}
            stops = [other.listen(name, heard[name]) for name in names]
            await wait_until_followed(other, names[-1])
            for name in names:
                one.publish(build_log_appended(4, name))
            await asyncio.gather(*(each.until(4) for each in heard.values()))
            assert all(
                {result.session_id for result in heard[name].received} == {name} for name in names
            )
            for stop in stops:
                stop()
            assert other._listening == {}  # type: ignore[attr-defined]

        run_with_buses(kind, play)


class FakeLink:
    """A link that a test breaks, loses messages of, and makes speak nonsense."""

    def __init__(self, hub: "list[FakeLink]") -> None:
        self.hub, self.hear = hub, None
        self.lost = asyncio.Event()
        self.is_away = self.is_deaf = False
        self.followed: set[str] = set()
        self.opened = 0

    async def open(self, hear: Callable[[bytes | str], None]) -> None:
        if self.is_away:
            raise ConnectionRefusedError
        self.hear, self.opened = hear, self.opened + 1
        self.followed = set()
        self.hub.append(self)

    async def close(self) -> None:
        with contextlib.suppress(ValueError):
            self.hub.remove(self)

    async def send(self, messages: Collection[tuple[str, bytes]]) -> None:
        if self.is_away:
            raise BrokenPipeError
        for link in self.hub:
            for name, message in messages:
                if name in link.followed and not link.is_deaf:
                    assert link.hear
                    link.hear(message)

    async def follow(self, sessions: Collection[str], dropped: Collection[str]) -> None:
        if self.is_away:
            raise BrokenPipeError
        self.followed = (self.followed | set(sessions)) - set(dropped)

    def cut(self) -> None:
        self.is_away = True
        self.lost.set()


def with_fakes(play: Callable[..., object], poll: float = 30.0) -> None:
    async def whole() -> None:
        hub: list[FakeLink] = []
        heads, links = Heads(), [FakeLink(hub) for _ in range(2)]
        buses = [RemoteBus(link, heads, poll, 0.01) for link in links]
        for bus in buses:
            await bus.start()
        await wait_until_connected(*buses)
        try:
            await play(buses, links, heads)  # type: ignore[misc]
        finally:
            for bus in buses:
                await bus.close()

    asyncio.run(whole())


class TestFaults:
    def test_without_the_link_the_store_is_looked_into(self) -> None:
        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            near, far = Received(), Received()
            buses[0].listen("sess_1", near)
            buses[1].listen("sess_1", far)
            await wait_until_followed(buses[1], "sess_1")
            for link in links:
                link.cut()
            heads["sess_1"] = ("user_anna", 3)
            buses[0].publish(build_log_appended(3, first=1))
            assert near.last == 3
            await far.until(3)
            for link in links:
                link.is_away = False
            await wait_until_connected(*buses)
            await wait_until_followed(buses[1], "sess_1")
            buses[0].publish(build_log_appended(4))
            await far.until(4)
            assert links[1].opened == 2
            lasts = [result.last for result in far.received]
            assert lasts == sorted(set(lasts))

        with_fakes(play)

    def test_a_driver_that_swallows_a_cancellation_does_not_keep_the_server_from_stopping(
        self,
    ) -> None:
        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            sending = asyncio.Event()

            async def swallows(messages: Collection[tuple[str, bytes]]) -> None:
                sending.set()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

            links[0].send = swallows  # type: ignore[method-assign]
            buses[0].publish(build_log_appended(1))
            await sending.wait()
            closing = asyncio.create_task(buses[0].close())
            links[0].send = FakeLink.send.__get__(links[0])  # type: ignore[method-assign]
            done, _ = await asyncio.wait([closing], timeout=60)
            assert done

        with_fakes(play)

    def test_what_waits_is_bounded_and_sent_when_the_link_is_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("open_token.server.bus.remote._MAX_PENDING", 10)

        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            links[0].cut()
            far = Received()
            buses[1].listen("sess_99", far)
            for number in range(100):
                for last in (1, 2):
                    buses[0].publish(build_log_appended(last, f"sess_{number}"))
            assert len(buses[0]._pending) == 10
            links[0].is_away = False
            await far.until(2)
            assert (far.received[-1].first, far.received[-1].last) == (1, 2)

        with_fakes(play)

    def test_a_store_that_is_away_too_is_waited_for(self) -> None:
        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            asked: list[int] = []
            answer = buses[1]._heads

            async def failing(names: Collection[str]) -> object:
                asked.append(1)
                if len(asked) < 3:
                    raise StoreError("away", code="store.away")
                return await answer(names)

            buses[1]._heads = failing  # type: ignore[assignment]
            heads["sess_1"] = ("user_anna", 9)
            links[1].cut()
            far = Received()
            buses[1].listen("sess_1", far)
            await far.until(9)

        with_fakes(play)

    @pytest.mark.parametrize("nonsense", [b"", b"{", b"\xff", "[]", b'{"node":1}', b'{"node":"x"}'])
    def test_invalid_notifications_are_ignored(self, nonsense: bytes | str) -> None:
        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            far = Received()
            buses[1].listen("sess_1", far)
            await wait_until_followed(buses[1], "sess_1")
            assert links[1].hear
            links[1].hear(nonsense)
            assert far.received == []
            buses[0].publish(build_log_appended(1))
            await far.until(1)

        with_fakes(play)

    def test_an_old_message_is_not_reported_again(self) -> None:
        async def play(buses: list[RemoteBus], links: list[FakeLink], heads: Heads) -> None:
            far = Received()
            buses[1].listen("sess_1", far)
            await wait_until_followed(buses[1], "sess_1")
            buses[0].publish(build_log_appended(5))
            await far.until(5)
            buses[0].publish(build_log_appended(4))
            buses[0].publish(LogAppended("sess_1", "user_anna", 6, 6))
            await far.until(6)
            lasts = [result.last for result in far.received]
            assert lasts == sorted(set(lasts))

        with_fakes(play)
