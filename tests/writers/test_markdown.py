"""The Markdown page: readable, and safe to paste."""

import re

import pytest

from helpers.handoff_conversation import SMALL, build_call, build_document, build_message
from helpers.page_checker import HOSTILE, build_document_with_text, build_page, render_markdown

pytest.importorskip("markdown_it")
OURS = re.compile(r"</?details>|<summary>|</summary>|</?b>")


def test_items_are_in_order() -> None:
    page, receipt = build_page(SMALL, "markdown")
    lines = [line for line in page.split("\n") if line]
    assert lines[0] == "# Tides"
    assert lines[1] == "1 prompt · 2 calls (1 failed) · 7.0 s"
    assert receipt.integrity is not None
    assert f"- integrity sha256:{receipt.integrity['events_hash']}" in lines
    assert (
        lines.index("> Fix the test.") < lines.index("I look.") < lines.index("Done, naïvely: 潮.")
    )
    assert "<details><summary><b>Bash</b> make test · failed · 2.0 s</summary>" in lines
    assert build_page(SMALL, "markdown")[0] == page


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_place_has_no_tag_and_no_picture(text: str) -> None:
    page, _ = build_page(build_document_with_text(text), "markdown")
    for found in render_markdown(page):
        kind, _, content = found.partition(" ")
        assert kind in ("html_block", "html_inline"), found
        words = OURS.sub("", content)
        assert "<" not in words, found
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


def test_what_is_missing_is_noted() -> None:
    page, _ = build_page(
        build_document(
            build_message("user", "go"),
            build_call(1, command="ls"),
            build_message("assistant", "w " * 3000),
        ),
        "markdown",
        max_bytes=5000,
    )
    assert "no result recorded" in page
    assert "1 event cut to fit max_bytes" in page


def test_messages_of_the_runtime_are_not_prompts() -> None:
    page, _ = build_page(
        build_document(
            {**build_message("user", "be brief"), "visibility": "internal"},
            build_message("user", "go"),
        ),
        "markdown",
    )
    assert "<b>internal</b> be brief" in page
