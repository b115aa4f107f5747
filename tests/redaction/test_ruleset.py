"""Every rule against its own examples, by both engines, and the invariants of all rules."""

import functools
import re
import tomllib
from typing import Any

import pytest

from open_token.redaction import ruleset
from open_token.redaction.decoders import DECODERS
from open_token.redaction.detector import Detector, load_validators
from open_token.redaction.hyperscan_prefilter import HyperscanPrefilter, build_prefilter
from open_token.redaction.prefilter import Window, compile_re2
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import (
    LEVELS,
    Rule,
    load_rules,
    parse_rule,
    parse_rules,
    read_rule_files,
    trim_pattern,
)

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
    "near_words",
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
RANKS = {rule.id: (rank, rule) for rank, rule in enumerate(load_rules("strict"))}


def list_entries(level: str) -> list[dict[str, Any]]:
    return [entry for name, entry in ENTRIES if name == level]


class OneRule:
    """The windows that one rule opens, of all that the database with all rules opens.

    To compile a database for each rule would show the same and take 20 times as long.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def __call__(self, data: bytes) -> list[Window]:
        windows = build_shared_prefilter()(data)
        return [window._replace(rule=0) for window in windows if window.rule == self._rank]

    def find_lines(self, number: int, data: bytes) -> list[tuple[int, int]]:
        return build_shared_prefilter().find_lines(self._rank, data)


@functools.cache
def build_shared_prefilter() -> HyperscanPrefilter:
    prefilter = build_prefilter(load_rules("strict"), None, None)
    assert prefilter is not None
    return prefilter


@functools.cache
def build_detectors(rule_id: str) -> tuple[Detector, Detector]:
    """Return a detector of each engine: with the rule alone, or with all if the rule decodes."""
    rank, rule = RANKS[rule_id]
    if rule.validator in DECODERS:
        rules = load_rules("secrets")
        return Detector(rules, engine="hyperscan"), Detector(rules, engine="keywords")
    fast = Detector((rule,), engine="hyperscan")
    fast._fast_prefilter = OneRule(rank)
    return fast, Detector((rule,), engine="keywords")


def find_spans(detector: Detector, text: str) -> list[tuple[int, int]]:
    found = detector.find([text])
    return [(item.start, item.end) for _, findings in found for item in findings]


def find_uncovered(text: str, values: list[str], spans: list[tuple[int, int]]) -> list[str]:
    """Return the values of an example of which less than four fifths would be masked."""
    raw = masked = text.encode()
    for start, end in reversed(spans):
        masked = masked[:start] + b"#" * (end - start) + masked[end:]
    uncovered = []
    for value in values:
        start = raw.find(value.encode())
        left = masked[start : start + len(value.encode())]
        if len(value) >= 6 and left.count(b"#") < 0.8 * len(left):
            uncovered.append(value)
    return uncovered


def test_a_rule_finds_its_examples() -> None:
    problems = []
    for _, entry in ENTRIES:
        rule_id = entry["id"]
        assert entry["matches"], rule_id
        fast, slow = build_detectors(rule_id)
        for example in entry["matches"]:
            text, values = fill_placeholders(example, rule_id)
            spans = find_spans(fast, text)
            if not spans:
                problems.append(f"{rule_id}: {example} is not found")
            if spans != find_spans(slow, text):
                problems.append(f"{rule_id}: the engines differ on {example}")
            if find_uncovered(text, values, spans) and not RANKS[rule_id][1].multiline:
                problems.append(f"{rule_id}: {example} is not covered")
    assert problems == []


def test_a_rule_leaves_its_counterexamples() -> None:
    problems = []
    for _, entry in ENTRIES:
        rule_id = entry["id"]
        assert entry["ignores"], rule_id
        for example in entry["ignores"]:
            text, _ = fill_placeholders(example, rule_id)
            if any(find_spans(detector, text) for detector in build_detectors(rule_id)):
                problems.append(f"{rule_id}: {example} is found")
    assert problems == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_rule_is_well_formed(level: str) -> None:
    for entry in list_entries(level):
        rule = parse_rule(entry, level)
        assert set(entry) <= FIELDS, rule.id
        assert re.fullmatch("[a-z0-9]+(?:-[a-z0-9]+)*", rule.id), rule.id
        assert re.fullmatch("[a-z0-9_-]+", rule.type), rule.id
        known = {"", *DECODERS, *load_validators(level)}
        assert (rule.validator or "") in known, rule.id
        assert all(word == word.lower() for word in rule.keywords if word.isascii()), rule.id
        assert not any("\n" in word or "\0" in word for word in rule.keywords), rule.id


@pytest.mark.parametrize("level", LEVELS)
def test_a_pattern_stays_within_one_line_and_one_string(level: str) -> None:
    """Lines are searched one by one, and strings stand side by side with zero bytes between
    them."""
    for entry in list_entries(level):
        rule = parse_rule(entry, level)
        for pattern in (rule.pattern, rule.gate):
            compile_re2(pattern)
            check_pattern(rule, pattern)


def check_pattern(rule: Rule, pattern: str) -> None:
    for negated in re.findall(r"\[\^((?:\\.|[^\]\\])*)\]", pattern):
        letters = "0-9A-Za-z" in negated
        assert letters or r"\x00" in negated, (
            f"{rule.id}: [^{negated}] would run into the next string"
        )
        assert letters or r"\n" in negated or rule.multiline or rule.lines > 1, (
            f"{rule.id}: [^{negated}] would leave its line"
        )
    for positive in re.findall(r"\[((?!\^)(?:\\.|[^\]\\])*)\]", pattern):
        assert positive.isascii(), (
            f"{rule.id}: [{positive}] would be a set of bytes, not of letters"
        )
    if not rule.multiline:
        assert not re.search(r"\\[sSWD]", pattern), f"{rule.id}: use [ \\t], or say multiline"


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
def test_a_prefilter_ends_with_the_shortest_match(pattern: str, gate: str) -> None:
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
    text, values = fill_placeholders(example, "asked for")
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
