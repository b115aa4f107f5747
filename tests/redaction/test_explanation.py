"""Explanations of why a rule matches, and why another does not."""

from typing import Any

import pytest

from open_token.context import AllowEntry, Context, CustomRule, RedactionOverrides
from open_token.options import ExportOptions
from open_token.redaction.explanation import Explanation, explain
from open_token.redaction.rule_catalogue import fill_placeholders

GITHUB = fill_placeholders("ghp_{alnum:36}", "explain")[0]
CARD = fill_placeholders("{luhn:4,16}", "explain")[0]


def explain_text(text: str, level: str = "secrets", **rest: Any) -> Explanation:
    context = Context(ExportOptions(), key=bytes(32), **rest)
    return explain(text.encode(), context, level)


def near(text: str, level: str = "secrets", **rest: Any) -> dict[str, str]:
    return {item.rule: item.why for item in explain_text(text, level, **rest).near}


def test_what_fires_is_reported_with_its_line() -> None:
    explained = explain_text(f"hello\nsee {GITHUB}\n")
    assert [(item.rule, item.places[0].where) for item in explained.findings] == [
        ("github-token", "line 2")
    ]
    assert explained.near == []


@pytest.mark.parametrize(
    ("text", "level", "rule", "why"),
    [
        ("ghp_" + "x" * 36, "secrets", "github-token", "a placeholder"),
        (
            f"order {CARD[:-1]}{(int(CARD[-1]) + 1) % 10}",
            "pii",
            "card",
            "its checksum or its first digits",
        ),
        ("ip 127.0.0.1", "pii", "ipv4", "not somebody's host"),
        (
            fill_placeholders("eyJ{alnum:30}.{alnum:30}.{alnum:20}", "jwt")[0],
            "secrets",
            "jwt",
            "its first part is not a JSON header",
        ),
        ("password=changeme", "secrets", "assigned-password", "a placeholder"),
    ],
)
def test_what_nearly_fires_says_why_not(text: str, level: str, rule: str, why: str) -> None:
    assert near(text, level)[rule].startswith(why)


def test_a_rule_of_ones_own_may_miss_too() -> None:
    screen = RedactionOverrides(
        (CustomRule("a", "b", "secrets", "n([0-9]{16})", validator="card"),)
    )
    assert near("n1234123412341234", screen=screen)["a"]


def test_what_is_allowed_names_the_entry() -> None:
    screen = RedactionOverrides(allowed=(AllowEntry(rule="github-token", file="config.toml"),))
    explained = explain_text(f"x\n{GITHUB}", screen=screen)
    assert explained.findings == []
    (miss,) = explained.near
    assert (miss.line, miss.is_allowed, miss.why) == (2, True, "allowed by rule in config.toml")


def test_nothing_of_a_value_is_reported() -> None:
    said = repr(explain_text(f"a {GITHUB} ghp_{'x' * 36} password=changeme card {CARD}", "pii"))
    assert GITHUB not in said
    assert CARD not in said


def test_a_long_text_is_reported_in_parts() -> None:
    assert len(explain_text("\n".join(["ghp_" + "x" * 36] * 500)).near) == 200
