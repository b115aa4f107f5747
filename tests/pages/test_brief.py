"""A conversation in short: what the next one needs, within its budget, and safe to paste."""

import re
from typing import Any

import pytest

from open_token.errors import SizeLimitError
from open_token.pages.brief import BUDGET, SMALLEST
from page_check import HOSTILE, everywhere, made, rendered
from talks import SMALL, answered, called, document, noted, said

pytest.importorskip("markdown_it")
LONG = document(
    said("user", "Repair the lock gate. " * 400),
    *[said("user", f"And look at sluice {number}, please.") for number in range(300)],
    said("assistant", "The gate is shut. " * 900),
    *[event for number in range(1, 200) for event in (called(number, command=f"make gate-{number}"),
                                                     answered(number, "ok\n" * 50))],
)  # fmt: skip


def brief(talk: Any, **options: Any) -> str:
    """What is written of a conversation."""
    return made(talk, "brief", **options)[0]


def parts(page: str) -> dict[str, str]:
    """What stands below each heading."""
    pieces = re.split(r"^## (.+)\n\n", page, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_it_tells_what_the_next_one_needs() -> None:
    page = brief(SMALL)
    assert page.startswith("# Tides\n\n1 prompt · 2 calls (1 failed) · 7.0 s\n\nconversation `")
    told = parts(page)
    assert told["What was asked"] == "```\nFix the test.\n```\n\n"
    assert told["What the agent said last"] == "```\nDone, naïvely: 潮.\n```\n\n"
    assert "- `Bash` `make test` · failed" in told["What failed last"]
    assert told["The last steps"].count("\n- ") + 1 == 2
    assert brief(SMALL) == page


def test_first_and_last_prompt_stand_whole_and_the_others_in_a_line() -> None:
    told = parts(brief(document(*[said("user", f"Ask {number}.\nMore.") for number in range(5)])))
    assert told["What was asked first"] == "```\nAsk 0.\nMore.\n```\n\n"
    assert told["What was asked in between"] == "- `Ask 1.`\n- `Ask 2.`\n- `Ask 3.`\n\n"
    assert told["What was asked last"] == "```\nAsk 4.\nMore.\n```\n\n"


@pytest.mark.parametrize("most", [SMALLEST, 3_000, BUDGET, 20_000])
def test_it_keeps_within_its_budget_and_says_what_it_leaves_out(most: int) -> None:
    page = brief(LONG, max_bytes=most)
    assert len(page.encode()) <= most
    assert len(page.encode()) > most * 2 // 3
    assert "bytes left out" in page
    assert re.search(r"^## The last steps \(the last \d+ of 199\)$", page, re.MULTILINE)


def test_without_a_word_it_keeps_within_its_own_budget() -> None:
    assert BUDGET // 2 < len(brief(LONG).encode()) <= BUDGET


@pytest.mark.parametrize(
    "text", ["\x1b" * 9_000, "`" * 9_000, "潮" * 9_000, "\ud800" * 9_000, "a\n" * 9_000]
)
def test_text_that_grows_when_it_is_shown_keeps_within_the_budget(text: str) -> None:
    assert len(brief(everywhere(text)).encode()) <= BUDGET


def test_what_is_too_small_is_refused_with_the_smallest_size() -> None:
    with pytest.raises(SizeLimitError) as refused:
        brief(SMALL, max_bytes=SMALLEST - 1)
    assert refused.value.smallest == SMALLEST


def test_the_document_itself_is_not_cut_to_the_size_of_the_brief() -> None:
    _, receipt = made(LONG, "brief", max_bytes=SMALLEST)
    _, whole = made(LONG, "markdown")
    assert receipt.integrity == whole.integrity


def test_the_plan_is_told_once_and_as_it_was_last() -> None:
    points = [{"content": "dig", "status": "completed"}, {"content": "fill", "status": "pending"}]
    plans = [called(1, "TodoWrite", todos=points[:1]), answered(1, "ok")]
    plans += [called(2, "TodoWrite", todos=points), answered(2, "ok")]
    told = parts(brief(document(said("user", "go"), *plans)))
    assert told["Its plan"] == "- [x] `dig`\n- [ ] `fill`\n\n"
    assert "The last steps" not in told


def test_what_the_agent_kept_at_its_compaction_is_told() -> None:
    mark = noted(1, kind="compaction", summary="The gate was painted green.")
    assert parts(brief(document(said("user", "go"), mark, said("user", "on"))))[
        "What was before, as the agent itself kept it"
    ] == "```\nThe gate was painted green.\n```\n\n"  # fmt: skip


def test_a_summary_that_hangs_on_a_message_is_told() -> None:
    summary = {**said("user", "It is green now."), "visibility": "internal"}
    told = parts(
        brief(
            document(said("user", "go"), summary, noted(2, kind="compaction"), said("user", "on"))
        )
    )
    assert told["What was before, as the agent itself kept it"] == "```\nIt is green now.\n```\n\n"


def test_an_unanswered_prompt_is_told_as_such() -> None:
    told = parts(
        brief(document(said("user", "one"), said("assistant", "yes"), said("user", "two")))
    )
    assert told["What the agent said last, before the last prompt"] == "```\nyes\n```\n\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_place_has_no_tag_and_no_picture(text: str) -> None:
    page = brief(everywhere(text))
    assert not rendered(page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


def test_secrets_are_masked_as_in_the_document() -> None:
    page = brief(document(said("user", "use password=Tr0ub4dor-and-3-horses")), redact="secrets")
    assert "Tr0ub4dor" not in page
    assert "[REDACTED:password:" in page
