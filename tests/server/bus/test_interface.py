"""Every bus that there is fits the interface."""

from open_token.server.bus.interface import Bus, LogAppended
from open_token.server.bus.local import LocalBus


def test_the_local_bus_is_one() -> None:
    bus: Bus = LocalBus()
    assert bus.listen("a", lambda grown: None) is not None


def test_a_pointer_needs_no_entries() -> None:
    assert LogAppended("sess_1", "user_1", 3, 5).entries == ()
