"""The bus inside one process."""

from open_token.server.bus.interface import LogAppended
from open_token.server.bus.local import LocalBus


def grown(name: str, last: int = 1) -> LogAppended:
    return LogAppended(name, "user_1", 1, last)


def test_who_listens_hears_of_that_session_alone() -> None:
    bus, heard = LocalBus(), []
    bus.listen("a", heard.append)
    bus.publish(grown("a"))
    bus.publish(grown("b"))
    assert [item.session_id for item in heard] == ["a"]


def test_one_listener_may_leave_while_it_hears() -> None:
    bus, heard = LocalBus(), []
    stops = []

    def once(item: LogAppended) -> None:
        heard.append(item)
        stops[0]()

    stops.append(bus.listen("a", once))
    bus.listen("a", heard.append)
    bus.publish(grown("a", 1))
    bus.publish(grown("a", 2))
    assert [item.last for item in heard] == [1, 1, 2]


async def _closed(bus: LocalBus) -> None:
    await bus.start()
    await bus.close()


def test_nobody_hears_after_the_end() -> None:
    import asyncio

    bus, heard = LocalBus(), []
    stop = bus.listen("a", heard.append)
    asyncio.run(_closed(bus))
    bus.publish(grown("a"))
    stop()
    assert heard == []
