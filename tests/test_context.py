"""The time that an export names."""

import pytest

from open_token.context import Context
from open_token.options import ExportOptions

NOW, BEFORE, ASKED = "2026-04-01T10:00:00Z", "2026-03-01T10:00:00Z", "2020-02-02T00:00:00Z"


@pytest.mark.parametrize(
    ("wish", "is_export", "result"),
    [
        (None, False, NOW),
        (None, True, BEFORE),
        ("now", True, NOW),
        ("keep", False, BEFORE),
        ("omit", True, None),
        (ASKED, True, ASKED),
    ],
)
def test_the_time_that_an_export_names(
    wish: str | None, is_export: bool, result: str | None
) -> None:
    context = Context(ExportOptions.of({"exported_at": wish}), now=NOW)
    assert context.exported_at(BEFORE, is_export=is_export) == result
