"""Markdown inside Markdown, read by another parser: nothing of a stranger is a tag, a picture or a
strange link."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from open_token.pages.quoted import fenced, prose
from page_check import HOSTILE, rendered

pytest.importorskip("markdown_it")
SIGNS = st.text("<>&\"'`*_[]()|#->~=\n\t \\!:/bai.", max_size=60)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    assert rendered(prose(text)) == []
    assert rendered(fenced(text)) == []


@settings(max_examples=60)
@given(SIGNS, SIGNS)
def test_any_signs_are_only_text(first: str, second: str) -> None:
    assert rendered(prose(f"{first}<img src=x>{second}`<b>`\n{first}\n<i>")) == []


def test_code_stays_code() -> None:
    assert prose("use `a < b` and x < y") == "use `a < b` and x &#60; y"
    assert prose("```py\n<b> ```` x\n```\nafter") == "`````py\n<b> ```` x\n`````\nafter"
    assert fenced("a\n```\nb") == "````\na\n```\nb\n````\n\n"
    assert prose("a\\`b`") == "a&#92;`b`"
    assert prose("[a](https://ok.test) [b](x.md)") == "[a](https://ok.test) [b]&#40;x.md)"


def test_fence_with_more_than_a_language_is_a_fence() -> None:
    assert (
        prose('```py title="a.py"\nx = "<b>"\n```\nafter <b>')
        == '```py\nx = "<b>"\n```\nafter &#60;b>'
    )


@pytest.mark.parametrize(
    "line", ["~~~ a `b` c", "- ~~~", "> ~~~~", "~~~~~~ x y", "``` a b", "    ~~~"]
)
def test_no_fence_of_a_stranger_hides_what_follows(line: str) -> None:
    assert rendered(f"{prose(line)}\n\n<details>\n\n") == ["html_block <details>\n"]
