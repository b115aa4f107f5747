"""The brief: all sections, within its byte budget, and safe to paste."""

import re
from typing import Any

import pytest

from helpers.handoff_conversation import (
    SMALL,
    build_annotation,
    build_call,
    build_document,
    build_message,
    build_result,
)
from helpers.page_checker import HOSTILE, build_document_with_text, build_page, render_markdown
from open_token.errors import SizeLimitError
from open_token.writers.brief import DEFAULT_BYTES, MIN_BYTES

pytest.importorskip("markdown_it")
LONG = build_document(
    build_message("user", "Repair the lock gate. " * 400),
    *[build_message("user", f"And look at sluice {number}, please.") for number in range(300)],
    build_message("assistant", "The gate is shut. " * 900),
    *[event for number in range(1, 200) for event in (build_call(number, command=f"make gate-{number}"),
                                                     build_result(number, "ok\n" * 50))],
)  # fmt: skip


def brief(session: Any, **options: Any) -> str:
    """What is written of a conversation."""
    return build_page(session, "brief", **options)[0]


def parts(page: str) -> dict[str, str]:
    """What stands below each heading."""
    pieces = re.split(r"^## (.+)\n\n", page, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_brief_has_all_sections() -> None:
    page = brief(SMALL)
    assert page.startswith("# Tides\n\n1 prompt · 2 calls (1 failed) · 7.0 s\n\nconversation `")
    result = parts(page)
    assert result["Prompt"] == "```\nFix the test.\n```\n\n"
    assert result["Last answer"] == "```\nDone, naïvely: 潮.\n```\n\n"
    assert "- `Bash` `make test` · failed" in result["Last failures"]
    assert result["Last steps"].count("\n- ") + 1 == 2
    assert brief(SMALL) == page


def test_first_and_last_prompt_stand_whole_and_the_others_in_a_line() -> None:
    result = parts(
        brief(
            build_document(*[build_message("user", f"Ask {number}.\nMore.") for number in range(5)])
        )
    )
    assert result["First prompt"] == "```\nAsk 0.\nMore.\n```\n\n"
    assert result["Prompts in between"] == "- `Ask 1.`\n- `Ask 2.`\n- `Ask 3.`\n\n"
    assert result["Last prompt"] == "```\nAsk 4.\nMore.\n```\n\n"


@pytest.mark.parametrize("most", [MIN_BYTES, 3_000, DEFAULT_BYTES, 20_000])
def test_brief_keeps_its_budget_and_names_what_it_omits(most: int) -> None:
    page = brief(LONG, max_bytes=most)
    assert len(page.encode()) <= most
    assert len(page.encode()) > most * 2 // 3
    assert "bytes left out" in page
    assert re.search(r"^## Last steps \(the last \d+ of 199\)$", page, re.MULTILINE)


def test_without_a_word_it_keeps_within_its_own_budget() -> None:
    assert DEFAULT_BYTES // 2 < len(brief(LONG).encode()) <= DEFAULT_BYTES


@pytest.mark.parametrize(
    "text", ["\x1b" * 9_000, "`" * 9_000, "潮" * 9_000, "\ud800" * 9_000, "a\n" * 9_000]
)
def test_text_that_grows_when_it_is_shown_keeps_within_the_budget(text: str) -> None:
    assert len(brief(build_document_with_text(text)).encode()) <= DEFAULT_BYTES


def test_what_is_too_small_is_refused_with_the_smallest_size() -> None:
    with pytest.raises(SizeLimitError) as refused:
        brief(SMALL, max_bytes=MIN_BYTES - 1)
    assert refused.value.smallest == MIN_BYTES


def test_the_document_itself_is_not_cut_to_the_size_of_the_brief() -> None:
    _, receipt = build_page(LONG, "brief", max_bytes=MIN_BYTES)
    _, whole = build_page(LONG, "markdown")
    assert receipt.integrity == whole.integrity


def test_only_the_last_plan_is_shown() -> None:
    points = [{"content": "dig", "status": "completed"}, {"content": "fill", "status": "pending"}]
    plans = [build_call(1, "TodoWrite", todos=points[:1]), build_result(1, "ok")]
    plans += [build_call(2, "TodoWrite", todos=points), build_result(2, "ok")]
    result = parts(brief(build_document(build_message("user", "go"), *plans)))
    assert result["Plan"] == "- [x] `dig`\n- [ ] `fill`\n\n"
    assert "Last steps" not in result


def test_the_summary_of_a_compaction_is_included() -> None:
    mark = build_annotation(1, kind="compaction", summary="The gate was painted green.")
    assert parts(brief(build_document(build_message("user", "go"), mark, build_message("user", "on"))))[
        "Earlier conversation, as summarized by the agent"
    ] == "```\nThe gate was painted green.\n```\n\n"  # fmt: skip


def test_a_summary_in_a_linked_message_is_included() -> None:
    summary = {**build_message("user", "It is green now."), "visibility": "internal"}
    result = parts(
        brief(
            build_document(
                build_message("user", "go"),
                summary,
                build_annotation(2, kind="compaction"),
                build_message("user", "on"),
            )
        )
    )
    assert (
        result["Earlier conversation, as summarized by the agent"]
        == "```\nIt is green now.\n```\n\n"
    )


def test_an_unanswered_prompt_is_marked_as_such() -> None:
    result = parts(
        brief(
            build_document(
                build_message("user", "one"),
                build_message("assistant", "yes"),
                build_message("user", "two"),
            )
        )
    )
    assert result["Last answer, before the last prompt"] == "```\nyes\n```\n\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_place_has_no_tag_and_no_picture(text: str) -> None:
    page = brief(build_document_with_text(text))
    assert not render_markdown(page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


def test_secrets_are_masked_as_in_the_document() -> None:
    page = brief(
        build_document(build_message("user", "use password=Tr0ub4dor-and-3-horses")),
        redact="secrets",
    )
    assert "Tr0ub4dor" not in page
    assert "[REDACTED:password:" in page
