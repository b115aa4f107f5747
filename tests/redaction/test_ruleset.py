"""Every rule against its own examples, by both engines, and the invariants of all rules."""

import re
import tomllib
from typing import Any

import pytest

from open_token.redaction import ruleset
from open_token.redaction.decoders import DECODERS
from open_token.redaction.detector import Detector, load_validators
from open_token.redaction.prefilter import compile_re2
from open_token.redaction.ruleset import (
    LEVELS,
    Rule,
    load_rules,
    parse_rule,
    parse_rules,
    read_rule_files,
    trim_pattern,
)
from rule_holes import filled

ENTRIES = [
    (level, entry)
    for level, text in read_rule_files().items()
    for entry in tomllib.loads(text.decode())["rule"]
]
FIELDS = {
    "id",
    "type",
    "keywords",
    "words",
    "near",
    "value",
    "pattern",
    "gate",
    "encoded",
    "anywhere",
    "glued",
    "ends",
    "lines",
    "multiline",
    "weak",
    "recurs",
    "finder",
    "validator",
    "matches",
    "ignores",
}
by_id = pytest.mark.parametrize(
    ("level", "entry"), ENTRIES, ids=[entry["id"] for _, entry in ENTRIES]
)


def spans(rule: Rule, text: str, engine: str) -> list[tuple[int, int]]:
    rules = load_rules("secrets") if rule.validator in DECODERS else (rule,)
    found = Detector(rules, engine=engine).find([text])
    return [(item.start, item.end) for _, findings in found for item in findings]


@by_id
def test_a_rule_finds_its_examples(level: str, entry: dict[str, Any]) -> None:
    rule = parse_rule(entry, level)
    assert entry["matches"]
    for example in entry["matches"]:
        text, values = filled(example, rule.id)
        fast, slow = spans(rule, text, "hyperscan"), spans(rule, text, "keywords")
        assert fast, f"{example} is not found"
        assert fast == slow
        raw = text.encode()
        masked = raw
        for start, end in reversed(fast):
            masked = masked[:start] + b"#" * (end - start) + masked[end:]
        for value in values:
            left = masked[raw.find(value.encode()) :][: len(value.encode())]
            assert len(value) < 6 or left.count(b"#") >= 0.8 * len(left) or rule.multiline, (
                f"{example} is not covered"
            )


@by_id
def test_a_rule_leaves_its_counterexamples(level: str, entry: dict[str, Any]) -> None:
    rule = parse_rule(entry, level)
    assert entry["ignores"]
    for example in entry["ignores"]:
        text, _ = filled(example, rule.id)
        assert not spans(rule, text, "hyperscan"), example
        assert not spans(rule, text, "keywords"), example


@by_id
def test_a_rule_is_well_formed(level: str, entry: dict[str, Any]) -> None:
    rule = parse_rule(entry, level)
    assert set(entry) <= FIELDS
    assert re.fullmatch("[a-z0-9]+(?:-[a-z0-9]+)*", rule.id)
    assert re.fullmatch("[a-z0-9_-]+", rule.type)
    assert (
        rule.validator in DECODERS or not rule.validator or rule.validator in load_validators(level)
    )
    assert all(word == word.lower() for word in rule.keywords if word.isascii())
    assert not any("\n" in word or "\0" in word for word in rule.keywords)


@by_id
def test_a_pattern_stays_within_one_line_and_one_string(level: str, entry: dict[str, Any]) -> None:
    """Lines are searched one by one, and strings stand side by side with zero bytes between
    them."""
    rule = parse_rule(entry, level)
    for pattern in (rule.pattern, rule.gate):
        compile_re2(pattern)
        for negated in re.findall(r"\[\^((?:\\.|[^\]\\])*)\]", pattern):
            assert r"\x00" in negated or re.search(r"0-9A-Za-z", negated), (
                f"[^{negated}] would run into the next string"
            )
            assert (
                rule.multiline
                or rule.lines > 1
                or r"\n" in negated
                or re.search("0-9A-Za-z", negated)
            ), f"[^{negated}] would leave its line"
        for positive in re.findall(r"\[((?!\^)(?:\\.|[^\]\\])*)\]", pattern):
            assert positive.isascii(), f"[{positive}] would be a set of bytes, not of letters"
        if not rule.multiline:
            assert not re.search(r"\\[sSWD]", pattern), "use [ \\t], or say multiline"


def test_rule_ids_are_unique() -> None:
    ids = [entry["id"] for _, entry in ENTRIES]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 150


def test_levels_add_up_and_weak_rules_come_last() -> None:
    sizes = [len(load_rules(level)) for level in LEVELS]
    assert sizes == sorted(sizes)
    assert {rule.type for rule in load_rules("none")} == {"private_key"}
    weak = [rule.weak for rule in load_rules("strict")]
    assert weak == sorted(weak)


def test_nothing_in_the_rule_files_looks_like_a_secret() -> None:
    """A scanner that is run on this repository must have nothing to say."""
    detector = Detector(load_rules("secrets"), engine="keywords")
    for text in read_rule_files().values():
        examples = [
            example
            for entry in tomllib.loads(text.decode())["rule"]
            for example in entry["matches"]
        ]
        found = {
            number
            for number, findings in detector.find(examples)
            if any(not item.rule.weak for item in findings)
        }
        assert not found, [examples[number] for number in found]


def test_parsed_rules_are_kept(tmp_path: Any) -> None:
    fresh = parse_rules(read_rule_files())
    cache = tmp_path / "rules"
    assert load_rules("strict", cache) == fresh
    kept = next(cache.glob("*.msgpack"))
    kept.write_bytes(b"damaged")
    ruleset._load_all_rules.cache_clear()
    assert load_rules("strict", cache) == fresh


@pytest.mark.parametrize(
    ("pattern", "gate"),
    [
        ("a[b]{3,}", "a[b]{3}"),
        ("(a[b]{3,9})", "(a[b]{3})"),
        ("a+", "a"),
        (r"a\+", r"a\+"),
        ("ab", "ab"),
        ("a{4}", "a{4}"),
    ],
)
def test_a_gate_ends_with_the_shortest_match(pattern: str, gate: str) -> None:
    assert trim_pattern(pattern) == gate


# What issue and documentation name, as people meet it; the type of the mark is the kind of rule.
ASKED_FOR = [
    (
        "secrets",
        "private_key",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{b64:64}\n-----END OPENSSH PRIVATE KEY-----",
    ),
    (
        "secrets",
        "private_key",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{b64:64}\n-----END PGP PRIVATE KEY BLOCK-----",
    ),
    ("secrets", "jwt", "{jwt}"),
    (
        "secrets",
        "password",
        "Server=tcp:sql.acme.test,1433;User ID=sa;Password={pass:16};Encrypt=True;",
    ),
    ("secrets", "password", "mongodb+srv://u:{alnum:16}@cluster0.ab1cd.mongodb.net/test"),
    ("secrets", "password", "https://bob:{pass:12}@git.acme.test/x.git"),
    ("secrets", "auth_token", "Authorization: Bearer {alnum:40}"),
    ("secrets", "auth_token", "proxy-authorization: Basic {basic}"),
    ("secrets", "cookie", "Cookie: sessionid={alnum:32}; theme=dark"),
    ("secrets", "cookie", "Set-Cookie: sid={alnum:40}; Path=/; HttpOnly"),
    ("secrets", "password", "# .env\nDB_PASSWORD={pass:12}\nDEBUG=1"),
    ("secrets", "secret", 'export STRIPE_SECRET="{alnum:32}"'),
    ("secrets", "password", "mysql --password={pass:12} shop"),
    ("secrets", "login", "curl -u bob:{pass:12} https://acme.test"),
    ("secrets", "aws_secret", "[default]\naws_secret_access_key = {b64:40}"),
    ("secrets", "encoded_secret", "    client-key-data: {base64:-----BEGIN RSA PRIVATE KEY-----}"),
    ("secrets", "npm_token", "//registry.test/:_authToken=npm_{alnum:36}"),
    ("secrets", "password", "machine acme.test login bob password {alnum:16}"),
    *(
        ("secrets", "password", f"{word}: {{pass:12}}")
        for word in "Passwort contraseña senha пароль 密码 パスワード 비밀번호 hasło wachtwoord lösenord".split()
    ),
    ("pii", "email", "write to {word:6}@{word:7}.test"),
    ("pii", "phone", "call +1 415 555 2671"),
    ("pii", "phone", "Telefon: 030 901820"),
    ("pii", "phone", "+81 3-3224-5111"),
    ("pii", "card", "card {luhn:4,16}"),
    ("pii", "iban", "{ibanspaced:DE}"),
    ("pii", "ip", "from 93.184.216.34 port 22"),
    ("pii", "ip", "addr 2a00:1450:4001:82b::200e"),
    ("pii", "ssn", "SSN 536-90-4399"),
    ("pii", "national_id", "CPF {cpf}"),
    ("pii", "national_id", "PESEL {pesel}"),
    ("pii", "address", "Musterstraße 12, 12345 Berlin"),
    ("pii", "person", "My name is Torvild Enqvist."),
    ("pii", "user_name", "/home/torvild/code"),
    ("pii", "user_name", "C:\\Users\\torvild\\code"),
    ("strict", "config_value", "export DATABASE_HOST=db-7.acme.net"),
    ("strict", "config_path", "see /etc/acme/app.conf"),
    ("strict", "internal_host", "http://wiki.acme.corp/page"),
]


@pytest.mark.parametrize(("level", "kind", "example"), ASKED_FOR)
def test_every_kind_that_is_asked_for(level: str, kind: str, example: str) -> None:
    text, values = filled(example, "asked for")
    raw = text.encode()
    found = [
        item
        for _, items in Detector(load_rules(level), engine="keywords").find([text])
        for item in items
    ]
    assert kind in [item.rule.type for item in found]
    left = bytearray(raw)
    for item in found:
        left[item.start : item.end] = b"#" * (item.end - item.start)
    assert [value for value in values if value.encode() in left] == []


def test_tokens_of_at_least_250_providers() -> None:
    types = {entry["type"] for level, entry in ENTRIES if level == "secrets"}
    assert (
        len({kind for kind in types if kind.endswith(("_token", "_key", "_secret", "_hook"))})
        >= 250
    )


def test_every_rule_says_what_it_is() -> None:
    """Id, type and examples for each; a pattern or words before a value; by its file a level."""
    for level, entry in ENTRIES:
        assert level in LEVELS
        assert {"id", "type", "matches", "ignores"} <= set(entry)
        assert "pattern" in entry or {"near", "value"} <= set(entry)
