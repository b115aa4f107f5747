"""The HTML page: well formed, safe on hostile input, an anchor per event, deterministic."""

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import open_token
from helpers.handoff_conversation import (
    SMALL,
    build_annotation,
    build_call,
    build_document,
    build_message,
    build_result,
)
from helpers.page_checker import (
    HOSTILE,
    block,
    build_document_with_text,
    build_page,
    check_page,
    span,
)
from open_token.context import Context
from open_token.options import ExportOptions
from open_token.pipeline import export
from open_token.sources.source import Source
from open_token.writers.html.assets import load_script, load_style


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_in_every_place_is_only_text(text: str) -> None:
    page, _ = build_page(build_document_with_text(text))
    reader = check_page(page)
    assert "https://evil.test/a.png" not in re.findall(r'src="([^"]*)"', page)
    assert len([name for name in reader.ids if name.startswith("evt_")]) == 29


@settings(max_examples=8)
@given(st.text(max_size=60) | st.text("<>&\"'`*_[]()|#->\n\t \\!:/ahtps.", max_size=80))
def test_any_text_appears_only_escaped(text: str) -> None:
    check_page(build_page(build_document_with_text(text))[0])


def test_every_event_has_its_place_and_the_story_is_in_order() -> None:
    page, receipt = build_page(SMALL)
    reader = check_page(page)
    assert [name for name in reader.ids if name.startswith("evt_")] == [
        f"evt_{n:06d}" for n in (1, 2, 3, 5, 6, 4, 7, 8)
    ]
    words = " ".join("".join(reader.words).split())
    assert (
        words.index("Fix the test.")
        < words.index("I look.")
        < words.index("make test")
        < words.index("naïvely")
    )
    assert "failed · 2.0 s" in words
    assert receipt.integrity is not None
    assert receipt.integrity["events_hash"] in words


def test_same_input_gives_the_same_bytes() -> None:
    assert build_page(SMALL)[0] == build_page(SMALL)[0]


def test_page_shows_the_hash_of_the_document_that_the_same_options_give() -> None:
    page, receipt = build_page(SMALL, redact="secrets", max_bytes=100_000)
    other = open_token.export(
        json.dumps(SMALL).encode(), include="include-internal", internal="full", max_bytes=100_000
    )
    assert receipt.integrity is not None
    assert other["integrity"]["events_hash"] == receipt.integrity["events_hash"]
    assert other["integrity"]["events_hash"] in page


def test_script_and_style_are_small_and_ask_nobody() -> None:
    assert len(load_script()) < 16_000
    for text in (load_script(), load_style()):
        assert not re.search(
            r"https?://|@import|url\(|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(|document\.write",
            text,
        )
    assert "prefers-color-scheme:dark" in load_style()
    assert "prefers-reduced-motion" in load_style()


def test_image_is_shown_and_a_drawing_that_can_run_is_not() -> None:
    image = {"media_type": "image/png", "encoding": "base64", "bytes": 4, "base64": "iVBORw=="}
    drawing = {
        "media_type": "image/svg+xml",
        "encoding": "base64",
        "bytes": 4,
        "base64": "PHN2Zz4=",
    }
    page, _ = build_page(
        build_document(build_call(1, "view_image", path="a.png"), block(1, [image, drawing]))
    )
    assert re.findall(r'<img alt="([^"]*)" src="([^"]*)">', page) == [
        ("image/png, 4 bytes", "data:image/png;base64,iVBORw==")
    ]
    assert "image/svg+xml, 4 bytes: not shown here" in page


def test_the_header_says_what_is_missing() -> None:
    secret = "ghp_" + "a1B2" * 9
    events = [
        build_message("user", f"my key is {secret}"),
        build_call(1, command="ls"),
        build_message("assistant", "w " * 4000),
    ]
    page, _ = build_page(build_document(*events), redact="secrets", max_bytes=6000)
    words = "".join(check_page(page).words)
    assert secret not in page
    assert re.search(
        r'<mark title="redacted: github_token">\[REDACTED:github_token:\w{8}\]</mark>', page
    )
    assert "no result recorded" in words
    assert re.search(r"cut to fit: [\d,]+ of 8,000 characters are left", words)


def test_headings_stand_in_order_and_files_are_counted_from_what_succeeded() -> None:
    edit = {"file_path": "a.py", "old_string": "one\ntwo\n", "new_string": "one\nthree\n"}
    failed = {"file_path": "b.py", "old_string": "x", "new_string": "y"}
    session = build_document(
        build_message("user", "# Go"), build_call(1, "Edit", **edit), build_result(1, "ok"), build_call(2, "Edit", **failed),
        build_result(2, "no"), build_annotation(5, kind="result_facts", is_error=True),
    )  # fmt: skip
    page, _ = build_page(session)
    assert page.count("<h1") == 1
    assert page.count("<h2>") == 2  # one prompt, and the list of keys
    assert "1 file changed" in page
    assert '<b class="plus">+1</b> <b class="minus">-1</b>' in page
    assert "<del>- t<b>wo</b></del>" in page or "<del>- two</del>" in page


def test_long_conversation_is_in_blocks_and_deep_nesting_does_no_harm() -> None:
    deep: list[dict[str, Any]] = []
    for n in range(1, 400):
        inner = build_call(n, "Task", prompt="p")
        inner["links"]["span_id"] = f"span_{n - 1:06d}"
        deep += [inner, span("span_start", n, n, kind="subagent")]
    deep += [span("span_end", n, n) for n in range(399, 0, -1)]
    page, _ = build_page(
        build_document(
            build_message("user", "go"),
            *deep,
            *[build_message("assistant", f"line {n}") for n in range(200)],
        )
    )
    check_page(page)
    assert page.count('class="blk h') >= 5


def test_unexpected_shapes_do_not_break_it() -> None:
    odd: list[Any] = [None, 3, [], {}, "x", [[]], {"a": {"b": [1, None, True, 1e300]}}]
    events = [build_call(n, "Edit") for n in range(1, 8)]
    for event, value in zip(events, odd, strict=True):
        event["content"]["data"]["arguments"] = value
    for tool in ("TodoWrite", "AskUserQuestion", "Bash", "Task", "Grep", "MultiEdit"):
        keys = ("todos", "questions", "edits", "command", "prompt", "pattern", "options")
        events += [
            build_call(len(events) + n, tool, **dict.fromkeys(keys, value))
            for n, value in enumerate(odd, 1)
        ]
    check_page(build_page(build_document(*events))[0])


@pytest.mark.parametrize("value", [{"a": 1}, [1], 3, None])
def test_kinds_that_are_not_strings_do_not_break_it(value: Any) -> None:
    image = {"media_type": value, "base64": "aaaa", "bytes": value}
    check_page(
        build_page(
            build_document(
                build_annotation(1, kind=value, text="x"), build_call(1), block(1, [image])
            )
        )[0]
    )


def test_title_of_the_window_has_no_tags() -> None:
    page, _ = build_page(
        build_document(build_message("user", "x"), title="key [REDACTED:token:abcd1234] 1 < 2")
    )
    assert "<title>key [REDACTED:token:abcd1234] 1 &lt; 2</title>" in page


def test_what_stands_beside_words_and_what_a_plan_is_answered_with_are_shown() -> None:
    cited = {"type": "text", "text": "It rains.", "citations": [{"title": "almanac"}]}
    session = build_document(
        {
            **build_message("assistant", ""),
            "content": {"mime": "application/json", "data": [cited, {"type": "text", "text": "b"}]},
        },
        build_call(1, "TodoWrite", todos=[{"content": "one", "status": "completed"}]),
        build_result(1, "Todos were kept."),
    )
    words = "".join(check_page(build_page(session)[0]).words)
    assert "almanac" in words
    assert "Todos were kept." in words


def test_paths_are_cut_only_where_the_folder_begins_and_something_is_left() -> None:
    commands = ("cat /srv/app/one.py", "cat /app/two.py", "rm -r /app/ x")
    calls = [build_call(n, command=command) for n, command in enumerate(commands, 1)]
    page, _ = build_page(build_document(build_annotation(1, kind="context", cwd="/app"), *calls))
    assert re.findall(r'<span class="w" dir="auto">([^<]+)</span>', page) == [
        "cat /srv/app/one.py", "cat two.py", "rm -r /app/ x",
    ]  # fmt: skip


def test_edit_whose_end_is_not_known_changed_nothing_that_is_known() -> None:
    missing = {
        **build_result(1, ""),
        "content": {"mime": "application/json", "data": {"missing_result": True}},
    }
    page, _ = build_page(
        build_document(
            build_call(1, "Edit", file_path="a.py", old_string="x", new_string="y"), missing
        )
    )
    assert "changed <b" not in page


CHROMIUM = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --dump-dom"
).split()


@pytest.mark.full
def test_browser_runs_our_script_and_no_other(tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not on this machine")
    page = tmp_path / "page.html"
    page.write_text(build_page(build_document_with_text("\n\n".join(HOSTILE)))[0], "utf-8")
    words = [
        browser,
        *CHROMIUM,
        f"--user-data-dir={tmp_path / 'profile'}",
        f"{page.as_uri()}#evt_000008",
    ]
    done = subprocess.run(words, capture_output=True, timeout=300, check=True)
    seen = done.stdout.decode()
    assert '<html lang="en" class="js">' in seen  # our script ran: the policy lets it
    assert (
        '<details class="row tool k-shell at" id="evt_000008" open="">' in seen
    )  # and the link opened its row
    assert b"CONSOLE" not in done.stderr  # nothing else tried to, and nothing was asked for


def test_many_choices_are_not_looked_for_one_by_one() -> None:
    few = [{"question": "Which?", "options": ["red", "blue"]}]
    many = [{"question": "Which?", "options": [f"{'a' * 200}{n}" for n in range(20_000)]}]
    calls = (
        build_call(1, "AskUserQuestion", questions=few),
        build_call(2, "AskUserQuestion", questions=many),
    )
    page, _ = build_page(
        build_document(
            calls[0], build_result(1, "blue"), calls[1], build_result(2, "a" * 1_000_000)
        )
    )
    assert "<li>red</li><li><strong>blue</strong>, chosen</li>" in page


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [
        ('"Where?"="Yes", "Also here, Yes?"="No".', ["Yes", "No"]),
        (
            '"Where?"="Yes, everywhere", "Also here, Yes?"="No, Yes".',
            ["Yes, everywhere", "No", "Yes"],
        ),
        ('"Where?"="Yes and no", "Also here, Yes?"="None of them".', []),
        ("No", ["No"]),
    ],
)
def test_choice_counts_as_chosen_only_where_the_answer_names_it(
    answer: str, chosen: list[str]
) -> None:
    asked = [
        {"question": "Where?", "options": ["Yes", "Yes, everywhere"]},
        {"question": "Also here, Yes?", "options": ["No", "Yes"]},
    ]
    page, _ = build_page(
        build_document(build_call(1, "AskUserQuestion", questions=asked), build_result(1, answer))
    )
    assert re.findall(r"<li><strong>([^<]*)</strong>, chosen</li>", page) == chosen


def test_outline_has_what_the_agent_said_below_its_prompt() -> None:
    session = build_document(
        build_message("assistant", "A word before anybody asked for anything."),
        build_message("user", "The first question of the day."),
        build_message("assistant", "An answer that is long enough for a chapter."),
        build_message("user", "The second question of the day."),
        build_message("assistant", "Another answer that is long enough as well."),
    )
    outline = build_page(session)[0].partition('id="ot-outline"')[2].partition("</nav>")[0]
    assert re.findall(r'href="#evt_00000(\d)"', outline) == ["1", "2", "3", "4", "5"]


def test_paper_is_white_and_has_everything_open() -> None:
    dark = [place.start() for place in re.finditer("--bg:#0f1318", load_style())]
    assert dark
    assert all(
        "@media screen" in load_style()[load_style().rindex("\n", 0, place) : place]
        for place in dark
    )
    assert (
        "details::details-content{content-visibility:visible}"
        in load_style().partition("@media print{")[2]
    )


def test_words_that_run_from_right_to_left_decide_that_themselves() -> None:
    session = build_document(
        build_message("assistant", "\u05e9\u05dc\u05d5\u05dd"),
        build_message("assistant_thought", "\u05e9\u05dc\u05d5\u05dd"),
    )
    page, _ = build_page(session)
    # Where dir is auto the first letter decides that is in no element with a dir of its own.
    firsts = re.findall(
        r'<div[^>]* dir="auto"[^>]*>(?:<a [^>]*dir="ltr"[^>]*>[^<]*</a>)?<p>(.)', page
    )
    assert firsts == ["\u05e9", "\u05e9"]


def test_what_cannot_be_seen_is_shown() -> None:
    unseen = "\u00ad\u180e\u200b\u2060\u206a\u3164\ufeff\uffa0\U0001d173\U000e0041"
    page, _ = build_page(build_document(build_message("assistant", f"a{unseen}b")))
    assert not set(unseen) & set(page)
    assert "\\u3164" in page


def test_search_leaves_the_page_where_it_is() -> None:
    # With a padding of the page, a browser scrolls whenever the field in the bar gets the focus or
    # a letter.
    assert "scroll-padding" not in load_style()
    assert "main *{scroll-margin-top:" in load_style()
    assert "find.focus({ preventScroll: true })" in load_script()


def test_prompt_is_left_to_its_heading_only_where_it_fits() -> None:
    short, middle, long = (
        "Fix it, please.",
        "Fix the table of the tides, please, by noon.",
        "Fix the tides, please. " * 5,
    )
    page, _ = build_page(
        build_document(*(build_message("user", text.strip()) for text in (short, middle, long)))
    )
    assert re.findall(r'<div class="(prompt[^"]*)" dir="auto">([^<]*)<', page) == [
        ("prompt same", middle),
        ("prompt", long.strip()),
    ]
    assert "@media screen and (min-width:70rem){.same{display:none}}" in load_style()


def test_injected_messages_are_marked_so_that_the_page_can_hide_them() -> None:
    caveat = {**build_message("user", "Caveat: written by the runtime"), "visibility": "internal"}
    page, _ = build_page(build_document(caveat, build_message("user", "Fix the tides, please.")))
    assert '<div class="run inj"><details class="row sys inj"' in page
    assert ">1 injected</button>" in page
    assert ".js .full:not(.injected) .inj:not(:target)" in load_style()


def test_images_of_tools_are_shown_below_the_closed_row() -> None:
    image = {"type": "image", "media_type": "image/png", "base64": "aGVsbG8=", "bytes": 5}
    result = build_result(1, "")
    result["content"] = {"mime": "application/json", "data": [image]}
    page, _ = build_page(build_document(build_call(1, "Read", file_path="a.png"), result))
    check_page(page)
    row, _, after = page.partition('</details></div><div class="shots">')
    assert "<img" not in row
    assert after.startswith('<figure><img alt="image/png, 5 bytes"')


def test_answers_of_a_person_are_rows_of_their_own() -> None:
    question = {"question": "Which **way**?", "options": [{"label": "Left"}, {"label": "Right"}]}
    page, _ = build_page(
        build_document(
            build_call(1, "AskUserQuestion", questions=[question]),
            build_result(1, 'User has answered: "Which **way**?"="Left". Go on.'),
            build_call(2, "ExitPlanMode", plan="## Plan: go *left*"),
            build_result(2, "User has approved your plan."),
        )
    )
    check_page(page)
    assert '<span class="k">answered</span><ul><li>Which way? <b>Left</b></li></ul>' in page
    assert "<p>User has approved your plan.</p></div>" in page
    assert '<span class="w" dir="auto">Plan: go *left*</span>' in page


def test_head_names_place_usage_and_how_to_resume() -> None:
    answer = build_message("assistant", "Done.")
    answer["usage"] = {"input_tokens": 1000, "output_tokens": 200, "cache_read_tokens": 600}
    place = build_annotation(1, kind="context", cwd="/home/x/tides", git_branch="fix/a")
    document = build_document(place, build_message("user", "Fix it."), answer)
    document["participants"].append({"actor_id": "rt", "kind": "system", "name": "Claude Code"})
    page, _ = build_page(document)
    header = page[page.index("<header>") : page.index("</header>")]
    for fact in (
        "Claude Code",
        "tides",
        "branch fix/a",
        "1,200 tokens, 200 of them output",
        "60 % of the input cached",
    ):
        assert f"<span>{fact}</span>" in header
    identity = document["conversation"]["id"]
    assert f"<code>claude --resume {identity}</code>" in header
    document["conversation"]["id"] = "x; rm -rf ~"
    assert "resume with" not in build_page(document)[0]


def test_costs_are_estimated_where_prices_are_given() -> None:
    answer = build_message("assistant", "Done.")
    answer["usage"] = {"input_tokens": 1000, "output_tokens": 200}
    raw = json.dumps(build_document(answer)).encode()
    out = io.BytesIO()
    context = Context(
        ExportOptions.of({}), estimate_cost=lambda model, usage: usage["output_tokens"] / 100
    )
    export(Source("<bytes>", data=raw), out, context, to="html")
    assert "<span>$2.00 estimated</span>" in out.getvalue().decode()


def test_words_that_differ_are_marked_in_a_diff() -> None:
    page, _ = build_page(
        build_document(
            build_call(
                1,
                "Edit",
                file_path="a.py",
                old_string="x = find(old, 1) + 2",
                new_string="x = find(new, 1) + 3",
            ),
            build_result(1, "ok"),
        )
    )
    assert '<pre class="diff" data-lang="py">' in page
    assert "<del>- x = find(<b>old</b>, 1) + <b>2</b></del>" in page
    assert "<ins>+ x = find(<b>new</b>, 1) + <b>3</b></ins>" in page


def test_outline_shows_markdown_as_text() -> None:
    text = "I will **first** read `a.py` and [the notes](https://a.test/x) of my_own_module."
    page, _ = build_page(
        build_document(build_message("user", "Go on."), build_message("assistant", text))
    )
    outline = page[page.index("<nav") : page.index("</nav>")]
    assert "I will first read a.py and the notes of my_own_module." in outline
