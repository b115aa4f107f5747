"""Each mode has its writer."""

import pytest

from open_token.model.document import Record
from open_token.options import OPTIONS
from open_token.writers import create_writer

MODES = next(option.values for option in OPTIONS if option.name == "mode")


@pytest.mark.spec("mode-option")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pretty", [True, False])
def test_a_mode_has_a_writer_whose_bytes_end_with_a_line(mode: str, pretty: bool) -> None:
    writer = create_writer(mode, pretty)
    empty = Record({}, [], [])
    assert (writer.head(empty) + writer.tail(empty, None, 0)).endswith(b"\n")


@pytest.mark.spec("pretty-option")
def test_pretty_is_for_documents() -> None:
    event = {"id": "evt_000001", "type": "message"}
    assert create_writer("json", True).event(event, 1) != create_writer("json", False).event(
        event, 1
    )
    assert create_writer("ndjson", True).event(event, 1) == create_writer("ndjson", False).event(
        event, 1
    )
