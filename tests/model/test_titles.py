"""What a conversation is called when it is shown."""

import pytest

from open_token.model.titles import choose_title, iter_prompts, make_title, normalize_title, shorten


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("  \n\n", ""),
        ("# Fix the   build\nplease", "Fix the build"),
        ("<b>Fix the build</b>\nplease", "Fix the build"),
        ("**Fix** the `build` of [the parser](https://x.example/a)", "Fix the build of the parser"),
        ("`make` fails in **`src`**", "make fails in src"),
        ("why is 2 ** 3 in __init__ ** not 9", "why is 2 ** 3 in __init__ ** not 9"),
        ("* **Fix the build", "Fix the build"),
        ("a lone ` and [a bracket] stay", "a lone ` and [a bracket] stay"),
        ("hi\nfix the build please", "fix the build please"),
        ("hi\nok", "hi"),
        ("# Files\nmain.py is open\n## My request for Codex:\nfix the build", "fix the build"),
        ("one line\\nof\\na\\ntext\\nescaped\\ntwice\\nover", "one line"),
        ("one\r\ntwo words\r\n", "two words"),
    ],
)
def test_the_first_line_that_says_something(text: str, title: str) -> None:
    assert normalize_title(text) == title


@pytest.mark.parametrize("limit", [20, 60, 80])
def test_long_lines_are_cut_at_a_word_boundary(limit: int) -> None:
    title = make_title("word " * 400, limit)
    assert limit - 8 < len(title) <= limit
    assert title.endswith("word...")


def test_a_long_word_is_cut_inside() -> None:
    assert shorten("x" * 100, 60) == "x" * 57 + "..."
    assert shorten("a " + "x" * 100, 60) == "a " + "x" * 55 + "..."


def test_a_line_that_fits_is_not_cut() -> None:
    assert shorten("x" * 60, 60) == "x" * 60
    assert shorten("word word. another", 13) == "word word..."


def test_the_explicit_title_comes_first() -> None:
    assert choose_title("  two\n words ", [], "id") == "two words"
    assert len(choose_title("word " * 100, [], "id")) > 100
    assert choose_title("Tides of the north", ["fix the build"], "id") == "Tides of the north"


@pytest.mark.parametrize("explicit", [None, "", "  ", 5, ["x"]])
def test_else_the_first_prompt_that_says_something(explicit: object) -> None:
    assert choose_title(explicit, ["fix the build"], "id") == "fix the build"
    assert choose_title(explicit, ["/clear", "ok", "fix the build"], "id") == "fix the build"
    assert choose_title(explicit, ["", "ok", "/clear"], "id") == "ok"


def test_else_the_id() -> None:
    assert choose_title(None, [], "conv_1") == "conv_1"
    assert choose_title(None, [" \n"], "conv_1") == "conv_1"


def test_only_the_first_prompts_are_read() -> None:
    assert choose_title(None, ["ok"] * 20 + ["a better title"], "conv_1") == "ok"


def test_prompts_of_a_document() -> None:
    events = [
        {"type": "message", "role": "system", "content": {"text": "be kind"}},
        {"type": "message", "role": "user", "visibility": "internal", "content": {"text": "env"}},
        {"type": "message", "role": "user", "content": {"data": [1]}},
        {"type": "message", "role": "user", "content": {"text": "fix the build"}},
        {"type": "tool_use", "content": None},
    ]
    assert list(iter_prompts(events)) == ["fix the build"]
