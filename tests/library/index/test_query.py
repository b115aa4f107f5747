"""Queries: what they match, and what they ask the full-text table for."""

import pytest

from open_token.errors import UsageError
from open_token.library.index.query import parse_query
from open_token.library.index.text import find_pairs, fold, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fix the Parser!", ["fix", "the", "parser"]),
        ("get_user(user.name)", ["get", "user", "user", "name"]),
        ("Crème Brûlée STRAẞE", ["creme", "brulee", "straße"]),
        ("時刻表を直す", ["時", "刻", "表", "を", "直", "す"]),
        ("x" * 129 + " short", ["short"]),
        ("", []),
    ],
)
def test_words_are_folded(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize("text", ["İstanbul İ", "ǅungla", "plain ASCII", "ﬁne Æsir ŉ"])
def test_folding_preserves_positions(text: str) -> None:
    assert len(fold(text)) == len(text)


def test_pairs_join_identifiers_and_paths() -> None:
    assert find_pairs("call get_user_name in src/app.py, then stop") == [
        "getx0xuser",
        "userx0xname",
        "srcx0xapp",
        "appx0xpy",
    ]


def test_a_query_has_words_phrases_prefixes_and_exclusions() -> None:
    query = parse_query('parser "read timeout" migrat* -test -"dead code"')
    assert [term.words for term in query.wanted] == [
        ("parser",),
        ("read", "timeout"),
        ("migrat",),
    ]
    assert [term.words for term in query.excluded] == [("test",), ("dead", "code")]
    # An excluded phrase is checked in the text, since its words may also occur apart.
    assert query.to_fts() == (
        '(("parser") AND ("read" AND "timeout") AND ("migrat"*)) NOT ("test")'
    )


@pytest.mark.parametrize(
    ("query", "text", "is_match"),
    [
        ('"read timeout"', "a read  timeout", True),
        ('"read timeout"', "read the timeout", False),
        ('"read timeout"', "spread timeout", False),
        ("get_user", "def get_user():", True),
        ("get_user", "get the user", False),
        ("get_us*", "def get_user():", True),
        ("時刻", "新しい時刻表", True),
        ("時刻", "時の刻", False),
        ('parser -"dead code"', "parser with dead code", False),
        ('parser -"dead code"', "parser: dead. Some code", True),
    ],
)
def test_phrases_are_checked_in_the_text(query: str, text: str, is_match: bool) -> None:
    assert parse_query(query).matches(fold(text)) is is_match


@pytest.mark.parametrize("text", ["-only", '-"only this"', " ".join(["word"] * 33)])
def test_a_query_that_cannot_be_answered_is_an_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_query(text)


@pytest.mark.parametrize("text", ['"', '""', "-", "*", "***", "-*", '"unfinished phrase', "''"])
def test_odd_punctuation_is_no_error(text: str) -> None:
    parse_query(text).to_fts()
