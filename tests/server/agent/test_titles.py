"""What a session is called when nobody named it."""

import pytest

from open_token.server.agent.titles import build_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("  \n\n", ""),
        ("# Fix the   build\nplease", "Fix the build"),
        ("word " * 40, "word word word word word word word word word word word word..."),
        ("x" * 100, "x" * 60 + "..."),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert build_title(text) == title
