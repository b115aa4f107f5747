"""Sanitized Markdown, read by another parser: no tags, images or unsafe links."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.page_checker import HOSTILE, render_markdown
from open_token.writers.markdown import render_fence, sanitize_markdown

pytest.importorskip("markdown_it")
SIGNS = st.text("<>&\"'`*_[]()|#->~=\n\t \\!:/bai.", max_size=60)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_only_text(text: str) -> None:
    assert render_markdown(sanitize_markdown(text)) == []
    assert render_markdown(render_fence(text)) == []


@settings(max_examples=60)
@given(SIGNS, SIGNS)
def test_any_signs_are_only_text(first: str, second: str) -> None:
    assert (
        render_markdown(sanitize_markdown(f"{first}<img src=x>{second}`<b>`\n{first}\n<i>")) == []
    )


def test_code_stays_code() -> None:
    assert sanitize_markdown("use `a < b` and x < y") == "use `a < b` and x &#60; y"
    assert sanitize_markdown("```py\n<b> ```` x\n```\nafter") == "`````py\n<b> ```` x\n`````\nafter"
    assert render_fence("a\n```\nb") == "````\na\n```\nb\n````\n\n"
    assert sanitize_markdown("a\\`b`") == "a&#92;`b`"
    assert (
        sanitize_markdown("[a](https://ok.test) [b](x.md)") == "[a](https://ok.test) [b]&#40;x.md)"
    )


def test_fence_with_more_than_a_language_is_a_fence() -> None:
    assert (
        sanitize_markdown('```py title="a.py"\nx = "<b>"\n```\nafter <b>')
        == '```py\nx = "<b>"\n```\nafter &#60;b>'
    )


@pytest.mark.parametrize(
    "line", ["~~~ a `b` c", "- ~~~", "> ~~~~", "~~~~~~ x y", "``` a b", "    ~~~"]
)
def test_no_fence_hides_what_follows(line: str) -> None:
    assert render_markdown(f"{sanitize_markdown(line)}\n\n<details>\n\n") == [
        "html_block <details>\n"
    ]
