"""What a reader makes of a value: shared by the tests of the provider readers."""

import base64
import json
from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.model.document import Event, Record, Usage
from open_token.registry import Reader
from open_token.sources.source import Source

PNG = base64.b64encode(b"\x89PNG tiny").decode()


def build_read_function(reader: Reader) -> Callable[..., tuple[Record, list[Event]]]:
    """Reads JSON, or the bytes themselves, with a reader that must claim them."""

    def read(value: Any, **options: Any) -> tuple[Record, list[Event]]:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        source = Source("input", data=data)
        assert reader.sniff(source)
        draft = Draft(**options)
        reader.read(source, draft)
        record = draft.finish(lambda: "0" * 64)
        return record, list(record.events)

    return read


def tokens(**counts: int) -> dict[str, int]:
    """A usage as events have it: every count, 0 where none is given."""
    return dict.fromkeys(Usage.__annotations__, 0) | counts


def summarize_events(events: list[Event]) -> list[Any]:
    """Type or role, and what was said."""
    return [
        (
            event.get("role", event["type"]),
            event["content"].get("text", event["content"].get("data")),
        )
        for event in events
    ]
