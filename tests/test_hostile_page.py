"""docs/reference/hostile.md names tests that there are."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "reference" / "hostile.md"
NAMED = sorted(
    set(re.findall(r"`((?:[\w/]+/)?test_\w+\.py)(?:::(\w+))?`", PAGE.read_text(encoding="utf-8")))
)


def test_there_are_names() -> None:
    assert len(NAMED) > 30


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_is_there(file: str, name: str) -> None:
    path = TESTS.parent / file if file.startswith("tests/") else TESTS / "server" / file
    assert not name or f"\ndef {name}(" in path.read_text(encoding="utf-8")
    assert path.exists()
