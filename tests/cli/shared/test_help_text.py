"""Help texts: alignment, wrapping and grouping."""

import argparse

import pytest

from open_token.cli.shared.help import Help, Section
from open_token.cli.shared.help_text import choose_width, collect_options, render_help

HELP = Help(
    summary="Do something.",
    usage=("do THING [OPTIONS]", "do --all"),
    sections=(Section("Arguments", (("THING", "What to do"),)),),
    notes=("A note.",),
    exit_codes=(("0", "Done"), ("130", "Interrupted")),
    examples=(("open-token do it", "Do it"), ('open-token do "one long thing" --right-now', "")),
)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    output = parser.add_argument_group("Output")
    output.add_argument("-o", "--output", metavar="FILE", help="Where to write [default: stdout]")
    other = parser.add_argument_group("Other")
    other.add_argument("--max_size", "--max-size", metavar="N", help="Limit")
    other.add_argument("--how", choices=("fast", "slow"), help="How to do it")
    parser.add_argument_group("Output").add_argument("--all", action="store_true", help="All")
    parser.add_argument_group("Hidden").add_argument("--hidden", help=argparse.SUPPRESS)
    return parser


def test_everything_is_aligned_and_groups_of_one_title_are_merged() -> None:
    assert (
        render_help(HELP, collect_options(build_parser()), 80)
        == """Do something.

Usage: open-token do THING [OPTIONS]
       open-token do --all

Arguments:
  THING              What to do

Output:
  -o, --output FILE  Where to write [default: stdout]
  --all              All

Other:
  --max-size N       Limit
  --how fast|slow    How to do it

A note.

Exit status:
  0    Done
  130  Interrupted

Examples:
  # Do it
  open-token do it
  open-token do "one long thing" --right-now"""
    )


def test_a_narrow_terminal_breaks_lines_but_neither_defaults_nor_quotes() -> None:
    text = render_help(HELP, collect_options(build_parser()), 40)
    assert max(map(len, text.split("\n"))) <= 40
    assert "\n                     [default: stdout]\n" in text
    assert '\n  open-token do "one long thing" \\\n    --right-now' in text


def test_a_long_term_stands_above_its_description() -> None:
    long_term = Section("Commands", (("a very long command with words", "What it does"),))
    text = render_help(Help("Do.", ("do",), (long_term,)), (), 60)
    assert "\n  a very long command with words\n    What it does" in text


def test_headings_can_be_styled() -> None:
    text = render_help(HELP, (), 80, lambda heading: f"<{heading}>")
    assert "\n<Usage:> open-token do" in text
    assert "\n<Exit status:>\n" in text


@pytest.mark.parametrize(("columns", "width"), [("200", 80), ("60", 60), ("5", 40)])
def test_the_width_follows_the_terminal(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert choose_width() == width
