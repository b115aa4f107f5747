"""Time and fresh ids, injected everywhere so that tests can control them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from open_token.server.store.tokens import generate_random_word


def format_timestamp(moment: datetime) -> str:
    """Format as UTC with milliseconds; such timestamps compare correctly as text."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Parse a timestamp of `format_timestamp`."""
    return datetime.fromisoformat(text)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """The current time, and a source of fresh ids."""

    moment: Callable[[], datetime] = _now
    word: Callable[[int], str] = generate_random_word

    def now(self, *, plus: float = 0) -> str:
        """Return the current timestamp, or the one some seconds from now."""
        return format_timestamp(self.moment() + timedelta(seconds=plus))

    def name(self, kind: str) -> str:
        """Return a fresh id: the kind (`sess`, `turn`, `run`) and sixteen letters and digits."""
        return f"{kind}_{self.word(16)}"
