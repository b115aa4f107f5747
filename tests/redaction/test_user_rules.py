"""Rules and allow-lists of the user: checked with line numbers, run by RE2, bound by the policy."""

import contextlib
import re
import tomllib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.growth import grows_linearly
from open_token.context import AllowEntry, Context, CustomRule, Policy, RedactionOverrides
from open_token.errors import OpenTokenError, UsageError
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.live import LiveRedaction
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.user_detector import hash_value
from open_token.redaction.user_rules import (
    PatternError,
    SettingsFile,
    compile_user_pattern,
    parse_allowances,
    parse_user_rules,
)

KEY = bytes(range(32))
GITHUB = fill_placeholders("ghp_{alnum:36}", "own")[0]
CACHES: list[Path] = []
TICKET = CustomRule("acme-ticket", "ticket", "secrets", "ACME-[0-9]{6}", ("acme-",))


@pytest.fixture(scope="module", autouse=True)
def rule_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """One folder for compiled rules, so that they are compiled once."""
    CACHES.append(tmp_path_factory.mktemp("rules"))


def rules(text: str) -> tuple[CustomRule, ...]:
    return parse_user_rules(SettingsFile("x.toml", text), tomllib.loads(text))


def allowed(text: str) -> tuple[AllowEntry, ...]:
    return parse_allowances(SettingsFile("x.toml", text), tomllib.loads(text))


def context(*own: CustomRule, allow: tuple[AllowEntry, ...] = (), **rest: Any) -> Context:
    options = ExportOptions.of({"redact": rest.pop("redact", "secrets")})
    screen = RedactionOverrides(own, allow, rest.pop("kept", frozenset()))
    return Context(options, key=rest.pop("key", KEY), screen=screen, rule_cache=CACHES[-1], **rest)


def event(content: Any, number: int = 1) -> Any:
    name = "text" if isinstance(content, str) else "data"
    mime = "text/plain" if isinstance(content, str) else "application/json"
    facts = {"type": "message", "actor_id": "act_001", "visibility": "public", "role": "user"}
    return {
        "id": f"evt_{number:06d}",
        "seq": number,
        **facts,
        "content": {"mime": mime, name: content},
    }


def masked(context: Context, *contents: Any) -> list[Any]:
    events = [event(content, number) for number, content in enumerate(contents, 1)]
    record = Record(conversation={"id": "conv_1"}, participants=[], events=events)
    once = redact(record, context)
    twice = redact(replace(once, is_export=True), context)
    assert list(twice.events) == list(once.events), "redacting twice is the same as once"
    assert list(redact(record, context, "keywords").events) == list(once.events)
    return [item["content"].get("text", item["content"].get("data")) for item in once.events]


def mark(text: str) -> str:
    return re.sub(r"\[REDACTED:(\w+):[0-9a-f]{8}\]", r"<\1>", text)


# --- entries ---

GOOD = """
[[rule]]
id = "acme-ticket"
keywords = ["ACME-", "Ärger"]
pattern = 'ACME-[0-9]{6}'
matches = ["ACME-{digit:6}"]

[[rule]]
id = "staff.number"
type = "staff"
level = "pii"
pattern = 'staff no\\. ([0-9]{5})'
validator = "any"
ignores = ["staff"]
"""


def test_a_rule_has_defaults() -> None:
    first, second = rules(GOOD)
    expected = CustomRule(
        "acme-ticket", "acme_ticket", "secrets", "ACME-[0-9]{6}", ("acme-", "Ärger")
    )
    assert first == replace(expected, matches=("ACME-{digit:6}",), file="x.toml")
    assert (second.type, second.level, second.validator, second.ignores) == (
        "staff",
        "pii",
        "any",
        ("staff",),
    )


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("rule = 3", "rule is not a list", "x.toml"),
        ("rule = [3]", "rule is not a list", "x.toml"),
        ("[rule]\nid = 'a'", "rule is not a list", "x.toml"),
        ("\n[[rule]]\npattern = 'a'", "needs an id", "x.toml:2 (rule 1, id)"),
        ("[[rule]]\nid = 'A b'\npattern = 'a'", "needs an id", "x.toml:2 (rule 1, id)"),
        ("[[rule]]\nid = 3\npattern = 'a'", "id is not a text", "x.toml:2"),
        ("[[rule]]\nid = 'a'", "needs a pattern", "x.toml:1 (rule 1)"),
        ("[[rule]]\nid = 'a'\npattern = ''", "pattern is not a text", "x.toml:3"),
        (
            "[[rule]]\nid = 'a'\npattern = '(b'",
            "RE2 rejects this pattern: missing )",
            "x.toml:3 (rule 1, pattern)",
        ),
        ("[[rule]]\nid = 'a'\npattern = '(?=b)c'", "invalid perl operator", "x.toml:3"),
        ("[[rule]]\nid = 'a'\npattern = '(b)\\1'", "invalid escape sequence", "x.toml:3"),
        ("[[rule]]\nid = 'a'\npattern = '(((b{99}){99}){99})'", "repetition size", "x.toml:3"),
        ("[[rule]]\nid = 'a'\npattern = 'b*'", "matches the empty text", "x.toml:3"),
        ("[[rule]]\nid = 'a'\npattern = 'b\\C'", "splits characters", "x.toml:3"),
        ("[[rule]]\nid = 'a'\npattern = 'b'\nlevel = 'none'", "unknown level", "x.toml:4"),
        ("[[rule]]\nid = 'a'\npattern = 'b'\ntype = 'A]'", "type is the word", "x.toml:4"),
        ("[[rule]]\nid = 'a'\npattern = 'b'\nvalidator = 'lunh'", "unknown validator", "x.toml:4"),
        (
            "[[rule]]\nid = 'a'\npattern = 'b'\nkeyword = ['b']",
            "unknown field",
            "x.toml:4 (rule 1, keyword)",
        ),
        ("[[rule]]\nid = 'a'\npattern = 'b'\nkeywords = 'b'", "not a list of texts", "x.toml:4"),
        ("[[rule]]\nid = 'a'\npattern = 'b'\nkeywords = ['']", "not a list of texts", "x.toml:4"),
        (
            "[[rule]]\nid='a'\npattern='b'\n[[rule]]\nid='a'\npattern='c'",
            "the same id",
            "x.toml:5 (rule 2, id)",
        ),
        ("rule = [{id = 'a', pattern = '('}]", "RE2", "x.toml (rule 1)"),
    ],
)
def test_what_is_wrong_with_a_rule_is_named_with_its_place(
    text: str, what: str, where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        rules(text)
    assert what in caught.value.what
    assert str(caught.value.where).startswith(where)
    assert caught.value.help
    assert caught.value.code == "settings.entry"


@pytest.mark.parametrize("pattern", [f"({GITHUB}", f"{GITHUB})"])
def test_no_error_repeats_a_whole_pattern(pattern: str) -> None:
    """Somebody may have written the very value that is to be masked."""
    with pytest.raises(PatternError) as caught:
        compile_user_pattern(pattern)
    assert GITHUB not in str(caught.value)
    assert "(?m)" not in str(caught.value)


def test_a_mistyped_field_gets_a_guess() -> None:
    with pytest.raises(UsageError, match="unknown field") as caught:
        rules("[[rule]]\nid = 'a'\npatern = 'b'")
    assert "did you mean pattern?" in str(caught.value.help)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("allow = 'x'", "allow is not a list"),
        ("[[allow]]\nnote = 'nothing'", "allows nothing"),
        ("[[allow]]\nvalue = 'the secret itself'", "never the value itself"),
        ("[[allow]]\nvalue = 'hmac:12'", "never the value itself"),
        ("[[allow]]\npattern = '('", "RE2"),
        ("[[allow]]\nrules = 'x'", "unknown field"),
        ("[[allow]]\nrule = 3", "rule is not a text"),
    ],
)
def test_what_is_wrong_with_an_allowance_is_named(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        allowed(text)
    assert what in caught.value.what
    assert "the secret itself" not in str(caught.value)


# --- rules at work ---


def test_a_rule_of_ones_own_masks_everywhere() -> None:
    text = b64encode(b"x ACME-123456 y").decode()
    result = masked(
        context(TICKET),
        "see ACME-123456.",
        {"a": {"ACME-123456": ["ACME-123456"]}, "b": '{"t": "ACME-123456"}'},
        "acme-123456 and ACME-12",
        f"nothing in {text} since the run holds none of the words of built-in rules",
    )
    assert mark(result[0]) == "see <ticket>."
    assert "ACME-123456" not in str(result[1])
    assert mark(str(result[1])).count("<ticket>") == 3
    assert result[2] == "acme-123456 and ACME-12"


def test_only_the_first_group_that_matched_is_masked() -> None:
    rule = CustomRule("a", "a", "secrets", r"pin: ([0-9]{4})|code: ([0-9]{4})")
    assert mark(masked(context(rule), "pin: 1234, code: 5678")[0]) == "pin: <a>, code: <a>"


def test_letters_of_all_scripts_are_letters() -> None:
    rule = CustomRule("a", "a", "secrets", "(?i)grüße an ([ä-ü]{2}).", ("grüße",))
    assert mark(masked(context(rule), "Grüße an öä!")[0]) == "Grüße an <a>!"
    word = CustomRule("a", "a", "secrets", r"\p{Greek}+")
    assert mark(masked(context(word), "a λόγος b")[0]) == "a <a> b"


def test_anchors_mean_lines() -> None:
    rule = CustomRule("a", "a", "secrets", "^code [0-9]{3}$")
    assert (
        mark(masked(context(rule), "x\ncode 123\ny code 123\ncode 1234")[0])
        == "x\n<a>\ny code 123\ncode 1234"
    )


def test_a_validator_of_any_level_judges() -> None:
    rule = CustomRule("a", "a", "secrets", "n[0-9]{16}", validator="card")
    text = fill_placeholders("{luhn:4,16}", "own")[0]
    rule = replace(rule, pattern="n([0-9]{16})")
    assert mark(masked(context(rule), f"card n{text} n{text[:-1]}x")[0]).startswith("card n<a>")
    assert masked(context(rule), "order n1234123412341234")[0] == "order n1234123412341234"


def test_levels_hold() -> None:
    rule = replace(TICKET, level="pii")
    assert masked(context(rule), "ACME-123456")[0] == "ACME-123456"
    assert mark(masked(context(rule, redact="pii"), "ACME-123456")[0]) == "<ticket>"
    key = replace(TICKET, type="private_key")
    forbidding = context(
        TICKET, key_rule(key), redact="none", policy=Policy(never_export_private_keys=True)
    )
    assert mark(masked(forbidding, "ACME-123456 KEY-1")[0]) == "ACME-123456 <private_key>"


def key_rule(rule: CustomRule) -> CustomRule:
    return replace(rule, id="key", pattern="KEY-[0-9]", keywords=())


def test_ones_own_rule_names_what_a_built_in_one_finds_too() -> None:
    rule = CustomRule("our-token", "our_token", "secrets", "ghp_[0-9A-Za-z]{36}")
    assert mark(masked(context(rule), f"a {GITHUB} b")[0]) == "a <our_token> b"


def test_marks_are_not_searched() -> None:
    for pattern in (r"\w+", ".+", r"(?s).+", r"[^a]+", "REDACTED", "[0-9a-f]{8}", r"(\w)\W*$"):
        result = masked(context(CustomRule("a", "b", "secrets", pattern)), f"see {GITHUB} and more")
        assert GITHUB not in result[0]


def test_a_running_conversation_is_searched_too() -> None:
    live = LiveRedaction(context(TICKET, allow=(AllowEntry(rule="github-*"),)))
    result = live.redact_events([event(f"ACME-123456 {GITHUB}")], "conv_1")
    assert mark(result[0]["content"]["text"]) == f"<ticket> {GITHUB}"


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a|aa)+b",
        "a(?:.*z)?",
        "(?:a?){500}a{500}",
        ".*.*.*=.*",
        "((a{1,30}){1,30})!",
        "[^b]*b?c|a",
    ],
)
def test_no_pattern_hangs(pattern: str) -> None:
    """Whatever the pattern, time grows with the text alone; a hostile project cannot stop an
    export."""
    detector_context = context(CustomRule("a", "b", "secrets", pattern))

    def work(size: int) -> None:
        record = Record(conversation={"id": "c"}, participants=[], events=[event("a" * size)])
        with contextlib.suppress(
            OpenTokenError
        ):  # some of them never come to an end, and that is said
            redact(record, detector_context, "keywords")

    assert grows_linearly(work, 4_000)


@pytest.mark.parametrize("pattern", ["^[0-9]{3}", r"\b[0-9]{3}", "[0-9]{3}$", r"[0-9]{3}\b"])
@pytest.mark.parametrize("before", [12_285, 12_288, 16_381, 16_384])
def test_the_end_of_a_piece_is_no_end_of_a_line_or_a_word(pattern: str, before: int) -> None:
    within = f"{'x' * before}123{'y' * 20_000}\n"
    assert (
        mark(masked(context(CustomRule("a", "b", "secrets", pattern)), f"{within}123\n")[0])
        == f"{within}<b>\n"
    )


@given(st.text(alphabet="ACME-0123456 \n\x01é[]REDACTED:", max_size=60), st.integers(0, 3))
def test_a_long_text_is_searched_as_a_short_one_is(text: str, shift: int) -> None:
    long = "x " * (8_190 + shift) + " ACME-123456 " + text
    (result,) = masked(context(TICKET), long)
    assert "ACME-123456" not in result
    assert result.startswith("x " * 8_190)


# --- what is allowed ---


def test_by_the_keyed_hash_of_a_value() -> None:
    entry = AllowEntry(value=hash_value(KEY, "github_token", GITHUB))
    other = fill_placeholders("ghp_{alnum:36}", "other")[0]
    assert (
        mark(masked(context(allow=(entry,)), f"{GITHUB} {other}")[0]) == f"{GITHUB} <github_token>"
    )
    assert GITHUB not in masked(context(allow=(entry,), key=bytes(32)), GITHUB)[0]
    assert GITHUB not in masked(context(allow=(entry,), key=None), GITHUB)[0]
    assert GITHUB not in entry.value


def test_a_hash_is_of_the_canonical_value() -> None:
    entry = AllowEntry(value=hash_value(KEY, "email", "ada.lovelace@firm.test"))
    text = "write to Ada.Lovelace@firm.test"
    assert masked(context(allow=(entry,), redact="pii"), text)[0] == text


@pytest.mark.parametrize(
    ("entry", "kept"),
    [
        (AllowEntry(rule="github-token"), True),
        (AllowEntry(rule="github*"), True),
        (AllowEntry(rule="npm*"), False),
        (AllowEntry(key="fixture_*"), True),
        (AllowEntry(key="fixture"), False),
        (AllowEntry(path="/sessions/*.jsonl"), True),
        (AllowEntry(path="/other/*"), False),
        (AllowEntry(pattern="ghp_.*"), True),
        (AllowEntry(pattern="ghp_"), False),
        (AllowEntry(rule="github*", path="/other/*"), False),
        (AllowEntry(rule="github*", path="/sessions/*", key="fixture_*", pattern="ghp_.*"), True),
    ],
)
def test_by_rule_key_path_and_form(entry: AllowEntry, kept: bool) -> None:
    result = masked(
        context(allow=(entry,), source="/sessions/a.jsonl"), {"fixture_one": f"a {GITHUB}"}
    )
    assert (GITHUB in str(result)) is kept


def test_a_value_that_is_masked_elsewhere_is_masked_where_it_would_be_allowed() -> None:
    result = masked(
        context(allow=(AllowEntry(key="fixture_*"),)), {"fixture_one": GITHUB}, f"and {GITHUB}"
    )
    assert GITHUB not in str(result)


def test_base64_of_what_is_allowed_is_allowed() -> None:
    text = f"blob {b64encode(f'token {GITHUB}'.encode()).decode()} end"
    assert masked(context(), text)[0] != text
    assert masked(context(allow=(AllowEntry(rule="github-token"),)), text)[0] == text


def test_policy_wins_over_every_entry() -> None:
    pem = fill_placeholders(
        "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----", "own"
    )[0]
    everything = (AllowEntry(rule="*"), AllowEntry(value=hash_value(KEY, "private_key", pem)))
    assert masked(context(allow=everything), pem)[0] == pem
    result = masked(context(allow=everything, policy=Policy(never_export_private_keys=True)), pem)
    assert mark(result[0]) == "<private_key>"
    demanding = Policy(min_redact="secrets")
    assert mark(masked(context(allow=everything, policy=demanding), GITHUB)[0]) == "<github_token>"
    looked_at = (AllowEntry(value=hash_value(KEY, "github_token", GITHUB)),)
    assert masked(context(allow=looked_at, policy=demanding), GITHUB)[0] == GITHUB


def test_what_a_review_keeps_is_kept() -> None:
    assert masked(context(kept=frozenset([GITHUB])), f"x {GITHUB}")[0] == f"x {GITHUB}"


@pytest.mark.parametrize(
    ("pattern", "remedy"),
    [
        ("(?<=id=)[0-9]+", "put the part to mask into a group"),
        ("id(?!x)", "put the part to mask into a group"),
        (r"(a|b)\1", "no back reference"),
        ("(?P<n>a)(?P=n)", "no back reference"),
        ("(?>a)", "leave them out"),
        ("a++", "leave them out"),
        ("a{2000}", "repeat at most 1,000 times"),
        (r"\p{Nonsense}", r"character classes are \p{L}"),
        (r"a\Z", r"the end of the text is \z"),
        ("a(?#why)", "RE2 has no comments"),
        ("a*", "+ instead of *"),
        (r"a\C", "use . instead"),
        ("[a", "see the syntax of RE2"),
    ],
)
def test_what_re2_does_not_take_comes_with_a_way_out(pattern: str, remedy: str) -> None:
    with pytest.raises(PatternError) as problem:
        compile_user_pattern(pattern)
    assert remedy in problem.value.help
