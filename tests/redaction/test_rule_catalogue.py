"""The catalogue of rules, with examples that can be tested."""

from open_token.context import Context, CustomRule
from open_token.options import ExportOptions
from open_token.redaction.rule_catalogue import BUILT_IN, find_failures, list_rules, list_user_rules

CONTEXT = Context(ExportOptions())
RULE = CustomRule(
    "t", "ticket", "pii", "ACME-[0-9]{6}", ("acme-",), matches=("a ACME-{digit:6}",), file="x.toml"
)


def test_ones_own_come_first() -> None:
    entries = list_rules((RULE,))
    assert (entries[0].id, entries[0].level, entries[0].file) == ("t", "pii", "x.toml")
    assert {entry.file for entry in entries[1:]} == {BUILT_IN}
    assert {entry.level for entry in entries} == {"secrets", "pii", "strict"}


def test_fields_are_those_of_the_file() -> None:
    (entry,) = list_user_rules((RULE,))
    assert list(entry.fields) == ["id", "type", "pattern", "keywords", "matches"]


def test_examples_are_tried_with_their_holes_filled() -> None:
    bad = CustomRule(
        "t",
        "t",
        "secrets",
        "A-[0-9]{3}",
        ("b",),
        matches=("A-{digit:3}",),
        ignores=("A-12", "b A-123"),
    )
    result = find_failures(list_user_rules((bad,))[0], CONTEXT)
    assert [(item.list, item.number, item.example) for item in result] == [
        ("matches", 1, "A-{digit:3}"),
        ("ignores", 2, "b A-123"),
    ]
    assert find_failures(list_user_rules((RULE,))[0], CONTEXT) == []


def test_braces_that_are_no_hole_stay() -> None:
    odd = CustomRule(
        "t",
        "t",
        "secrets",
        "x",
        matches=("x {hex} {nothing:3} {hex:999999999999} {luhn:} {iban:9}",),
    )
    assert find_failures(list_user_rules((odd,))[0], CONTEXT) == []


def test_a_built_in_rule_keeps_its_examples() -> None:
    entry = next(entry for entry in list_rules(()) if entry.id == "github-token")
    assert find_failures(entry, CONTEXT) == []
    broken = entry._replace(fields={**entry.fields, "matches": ["nothing"]})
    assert len(find_failures(broken, CONTEXT)) == 1
