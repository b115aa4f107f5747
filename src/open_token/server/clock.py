"""Time and fresh names, read in one place and passed in, so that tests can say what they are."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from open_token.server.store.tokens import generate_random_word


def iso(moment: datetime) -> str:
    """A moment as the store wants it: UTC with milliseconds, so that times compare as text."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def moment_of(text: str) -> datetime:
    """The moment that such a text names."""
    return datetime.fromisoformat(text)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """What time it is, and names that nobody has yet."""

    moment: Callable[[], datetime] = _now
    word: Callable[[int], str] = generate_random_word

    def now(self, *, plus: float = 0) -> str:
        """The time, or the time some seconds from now."""
        return iso(self.moment() + timedelta(seconds=plus))

    def name(self, kind: str) -> str:
        """A fresh id: `sess_`, `turn_`, `run_` and so on with sixteen letters and digits."""
        return f"{kind}_{self.word(16)}"
