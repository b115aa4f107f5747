"""Every mode has its writer."""

import pytest

from open_token.model.document import Record
from open_token.options import OPTIONS
from open_token.writers import writer_for

MODES = next(option.values for option in OPTIONS if option.name == "mode")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pretty", [True, False])
def test_a_mode_has_a_writer_whose_bytes_end_with_a_line(mode: str, pretty: bool) -> None:
    writer = writer_for(mode, pretty)
    empty = Record({}, [], [])
    assert (writer.head(empty) + writer.tail(empty, None, 0)).endswith(b"\n")


def test_pretty_is_for_documents() -> None:
    event = {"id": "evt_000001", "type": "message"}
    assert writer_for("json", True).event(event, 1) != writer_for("json", False).event(event, 1)
    assert writer_for("ndjson", True).event(event, 1) == writer_for("ndjson", False).event(event, 1)
