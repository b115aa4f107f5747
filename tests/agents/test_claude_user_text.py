"""Lossless separation of typed and injected user text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.agents.claude_code.user_text import parse_command, split_user_text

REMINDER = "<system-reminder>note</system-reminder>"
PARTS = st.sampled_from(
    [
        REMINDER,
        "<ide_selection>x</ide_selection>",
        " ",
        "\n",
        "words",
        "<system-reminder>",
        "</system-reminder>",
    ]
)


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("hello", ["typed"]),
        ("<b>bold</b>", ["typed"]),
        (REMINDER, ["injected"]),
        (f" {REMINDER}\n{REMINDER} \n", ["injected", "injected"]),
        (f"{REMINDER}\nhello", ["injected", "typed"]),
        (f"hello\n{REMINDER}\n{REMINDER}", ["typed", "injected", "injected"]),
        (f"{REMINDER} hello {REMINDER}", ["injected", "typed", "injected"]),
        (f"why does {REMINDER} come?", ["typed"]),
        ("<system-reminder>never closed", ["typed"]),
        ("<command-message>init</command-message>", ["command"]),
        ("<bash-input>ls</bash-input>", ["command"]),
        ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", ["injected"]),
        ("[Request interrupted by user]", ["interrupted"]),
    ],
)
def test_origins(text: str, origins: list[str]) -> None:
    assert [piece.origin for piece in split_user_text(text)] == origins


@given(st.lists(PARTS).map("".join))
def test_nothing_is_lost(text: str) -> None:
    assert "".join(piece.text for piece in split_user_text(text)) == text


def test_a_flood_of_reminders_ends() -> None:
    assert len(split_user_text(REMINDER * 1000)) <= 201


@pytest.mark.parametrize(
    ("text", "typed", "facts"),
    [
        ("<bash-input>git status</bash-input>", "git status", {"tool": "bash"}),
        ("<user-memory-input>use tabs</user-memory-input>", "use tabs", {"tool": "memory"}),
        (
            "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
            "<command-args>167 < 200</command-args>",
            "/review 167 < 200",
            {"name": "/review", "arguments": "167 < 200"},
        ),
        (
            "<command-name>init</command-name>\n"
            "<command-message>init is analyzing your codebase</command-message>",
            "/init",
            {"name": "/init", "message": "init is analyzing your codebase"},
        ),
        (
            "<command-message>pdf</command-message><skill-format>true</skill-format>",
            "/pdf",
            {"name": "/pdf", "skill_format": "true"},
        ),
    ],
)
def test_commands_are_taken_apart(text: str, typed: str, facts: dict[str, str]) -> None:
    assert parse_command(text) == (typed, facts)


@pytest.mark.parametrize(
    "text",
    [
        "<command-name>/clear</command-name> and more",
        "<command-name>/clear",
        "<command-args>x</command-args>",
        "<command-name></command-name>",
        "<bash-input>a</bash-input><bash-input>b</bash-input>",
    ],
)
def test_what_is_no_whole_command_is_not_taken_apart(text: str) -> None:
    assert parse_command(text) is None
