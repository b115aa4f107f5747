"""The option table and its words."""

import re
from pathlib import Path

import pytest

from open_token.errors import UsageError
from open_token.options import OPTION_NAMES, OPTIONS, ExportOptions, split_option_words

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "options.md"


@pytest.mark.spec("mode-option", "internal-option", "redact-option")
def test_defaults() -> None:
    options = ExportOptions.of({})
    assert (options.mode, options.pretty, options.redact, options.include) == (
        "json",
        True,
        "secrets",
        "visible-only",
    )
    assert ExportOptions.of({"mode": "ndjson"}).pretty is False
    assert ExportOptions.of({"mode": "ndjson", "pretty": "true"}).pretty is True


@pytest.mark.spec("argument-syntax")
def test_words_and_values_mean_the_same() -> None:
    as_text = ExportOptions.of({"max_bytes": "200_000", "pretty": "false"})
    assert as_text == ExportOptions.of({"max_bytes": 200000, "pretty": False})


@pytest.mark.spec("argument-syntax")
@pytest.mark.parametrize(
    ("words", "options", "others"),
    [
        (["a.jsonl", "redact=pii"], {"redact": "pii"}, ["a.jsonl"]),
        (["mode=ndjson redact=none"], {"mode": "ndjson", "redact": "none"}, []),
        (
            ["mode=ndjson\nredact=none\tsession.json"],
            {"mode": "ndjson", "redact": "none"},
            ["session.json"],
        ),
        (["max-bytes=5"], {"max_bytes": "5"}, []),
        (["/tmp/a=b/session.json"], {}, ["/tmp/a=b/session.json"]),
        (["a file with spaces.json"], {}, ["a file with spaces.json"]),
        (["", " ", "mode=json", "mode=json"], {"mode": "json"}, []),
    ],
)
def test_words_are_reported_apart(
    words: list[str], options: dict[str, str], others: list[str]
) -> None:
    assert split_option_words(words) == (options, others)


@pytest.mark.parametrize("words", [["redcat=pii"], ["mode=json", "mode=ndjson"], ["a=1"]])
def test_wrong_words_are_errors(words: list[str]) -> None:
    with pytest.raises(UsageError):
        split_option_words(words)


@pytest.mark.spec("max-bytes-option")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("redact", "all"),
        ("max_bytes", "0"),
        ("max_bytes", "many"),
        ("pretty", "yes"),
        ("exported_at", "noon"),
        ("colour", "red"),
    ],
)
def test_wrong_values_are_errors_that_list_the_valid(name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        ExportOptions.of({name: value})
    assert caught.value.help


def test_a_typo_gets_one_guess() -> None:
    with pytest.raises(UsageError) as caught:
        split_option_words(["redcat=pii"])
    assert "did you mean redact?" in str(caught.value)


def test_exported_at_takes_a_time() -> None:
    assert (
        ExportOptions.of({"exported_at": "2026-01-31T01:00:00+01:00"}).exported_at
        == "2026-01-31T00:00:00Z"
    )


def test_as_words_says_what_is_not_usual() -> None:
    assert (
        ExportOptions.of({"mode": "ndjson", "redact": "pii"}).as_words() == "mode=ndjson redact=pii"
    )
    assert ExportOptions.of({}).as_words() == ""


def test_the_page_lists_every_option_with_every_value() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert set(rows) == set(OPTION_NAMES)
    for option in OPTIONS:
        assert all(f"`{value}`" in rows[option.name] for value in option.values)
