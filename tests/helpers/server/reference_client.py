"""A reference client: rebuilds a session from the events it receives, in either dialect."""

from open_token.client import SessionFold
from open_token.model.log_events import Json


class ReferenceClient(SessionFold):
    """A session as a subscriber sees it."""

    def hear_raw(self, item: Json) -> None:
        """Apply an item of `turn:events`; repeated items are ignored."""
        self.apply(item)

    def hear(self, name: str, payload: Json) -> None:
        """Apply an event."""
        self.take(name, payload)
