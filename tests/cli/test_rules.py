"""`open-token rules`: list, show, test, explain; and that no value is shown."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.terminal import Terminal
from open_token.cli import main
from open_token.redaction.rule_catalogue import fill_placeholders, list_rules

GITHUB = fill_placeholders("ghp_{alnum:36}", "rules")[0]
RULE = """
[[rule]]
id = "acme-ticket"
keywords = ["acme-"]
pattern = 'ACME-[0-9]{6}'
matches = ["see ACME-{digit:6}"]
ignores = ["ACME-12"]
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_rules(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["rules", *words])
    return code, *capsys.readouterr()


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(run_rules(capsys, *words, "--json")[1])


def given(patch: pytest.MonkeyPatch, text: str) -> None:
    patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_list_has_every_rule(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(".open-token.toml").write_text(RULE)
    code, out, err = run_rules(capsys, "list")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert rows[0] == ["acme-ticket", "acme_ticket", "secrets", str(project / ".open-token.toml")]
    assert len(rows) == len(list_rules(())) + 1
    assert err == f"{len(rows)} rules.  Show one: open-token rules show ID\n"


def test_list_can_be_narrowed(capsys: pytest.CaptureFixture[str]) -> None:
    rules = as_json(capsys, "list", "--level", "pii", "--type", "email")["rules"]
    assert rules
    assert {(rule["level"], rule["type"]) for rule in rules} == {("pii", "email")}
    assert run_rules(capsys, "list", "--type", "nonsense")[0] == 1


def test_list_on_a_screen_is_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    with Terminal(monkeypatch, stdout=True) as terminal:
        assert main(["rules", "list", "--type", "email"]) == 0
    assert "\t" not in terminal.seen
    assert "email" in terminal.seen


def test_show_prints_pattern_and_examples_with_placeholders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run_rules(capsys, "show", "github-token")
    assert code == 0
    assert "github-token  (secrets, built-in)\n" in out
    assert "pattern    (gh[pousr]_[0-9A-Za-z]{36,})\n" in out
    assert "matches    ghp_{alnum:36}\n" in out
    (rule,) = as_json(capsys, "show", "github-token")["rules"]
    assert rule["fields"]["validator"] == "token"


def test_show_of_a_shared_id_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    Path(".open-token.toml").write_text(RULE.replace("acme-ticket", "github-token"))
    assert len(as_json(capsys, "show", "github-token")["rules"]) == 2


def test_test_tries_a_file_an_id_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(RULE)
    assert run_rules(capsys, "test", "mine.toml") == (0, "", "1 rule tested, 0 examples failed\n")
    assert run_rules(capsys, "test", "github-token", "email")[0] == 0
    Path(".open-token.toml").write_text(RULE)
    code, out, err = run_rules(capsys, "test")
    assert (code, out) == (0, "")
    assert err.endswith(f"{len(list_rules(())) + 1} rules tested, 0 examples failed\n")


def test_test_names_what_fails(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(
        RULE.replace("[0-9]{6}", "[0-9]{7}").replace("ACME-12", "ACME-1234567")
    )
    code, out, _ = run_rules(capsys, "test", "mine.toml")
    assert code == 1
    assert out == (
        "FAIL  acme-ticket  matches 1 does not match (its pattern does not match): see ACME-{digit:6}\n"
        "FAIL  acme-ticket  ignores 1 matches, but must not: ACME-1234567\n"
    )
    report = as_json(capsys, "test", "mine.toml")
    assert (report["rules"], len(report["failures"])) == (1, 2)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ('keywords = ["bcme-"]', "none of its keywords is in it"),
        ('validator = "card"', "validator card rejects it"),
    ],
)
def test_test_says_why_an_example_is_not_found(
    changed: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(RULE.replace('keywords = ["acme-"]', changed))
    assert f"matches 1 does not match ({why})" in run_rules(capsys, "test", "mine.toml")[1]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("{digit:6}", "{digits:6}", "{digits:6} is not a placeholder"),
        ("ACME-[0-9]{6}", "ACME-[0-9]{6}()", "the group of its pattern is empty there"),
    ],
)
def test_test_says_what_is_wrong_with_the_rule_itself(
    old: str, new: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(RULE.replace(old, new))
    assert f"matches 1 does not match ({why})" in run_rules(capsys, "test", "mine.toml")[1]


def test_test_reads_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, RULE)
    assert run_rules(capsys, "test", "-") == (0, "", "1 rule tested, 0 examples failed\n")
    given(monkeypatch, RULE.replace("pattern", "patern"))
    assert (
        "--> <stdin>:5 (rule 1, patern)\nhelp: did you mean pattern?"
        in run_rules(capsys, "test", "-")[2]
    )


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "start each rule with [[rule]]"),
        (RULE.replace("[[rule]]", "[[rules]]"), "did you mean rule instead of rules?"),
    ],
)
def test_a_file_without_rules_is_no_success(
    text: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(text)
    code, _, err = run_rules(capsys, "test", "mine.toml")
    assert code == 3
    assert "no rule in this file" in err
    assert remedy in err


def test_explain_keeps_the_policy(known_key: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "config.toml"
    settings.write_text('[policy]\nmin_redact = "pii"\n')
    code, out, err = run_rules(capsys, "explain", "mail ada@example.org", "--level", "secrets")
    assert (code, err.splitlines()[-1]) == (
        0,
        "level pii: 1 place masked, 0 allowed, 0 nearly masked",
    )
    assert "(rule email, pii)" in out


def test_explain_says_when_no_rule_matches(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no rule of this level matches" in run_rules(capsys, "explain", "plain words")[2]


def test_test_reports_rules_without_examples(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text("[[rule]]\nid = 'a'\npattern = 'b'\n")
    assert "note    a has no `matches` to test\n" in run_rules(capsys, "test", "mine.toml")[2]


def test_a_bad_rule_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text(RULE.replace("ACME-[0-9]", "(ACME-[0-9]"))
    code, out, err = run_rules(capsys, "test", "mine.toml")
    assert (code, out) == (2, "")
    assert err.startswith("error: RE2 rejects this pattern: missing )")
    assert "--> mine.toml:5 (rule 1, pattern)\n" in err
    Path(".open-token.toml").write_text("a = \n")
    code, _, err = run_rules(capsys, "list")
    assert code == 2
    assert ".open-token.toml:1:" in err


def test_explain_lists_rules_that_match_and_that_nearly_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given(monkeypatch, f"hello\nsee {GITHUB} now\npassword=changeme\n")
    code, out, err = run_rules(capsys, "explain", "-")
    assert code == 0
    assert "line 2  github_token  (rule github-token, secrets)  40 characters" in out
    assert "see [github_token] now" in out
    assert "near    line 3  password  (rule assigned-password)  a placeholder; 8 characters" in out
    assert err == "level secrets: 1 place masked, 0 allowed, 2 nearly masked\n"
    assert GITHUB not in out + err


def test_explain_goes_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    wide, other = "漢" * 40, fill_placeholders("xoxb-{digit:12}-{digit:12}-{alnum:24}", "rules")[0]
    Path("log.txt").write_text(f"{GITHUB}\n{wide} {other} {wide}\n{GITHUB}\n")
    lines = run_rules(capsys, "explain", "log.txt")[1].splitlines()
    assert [line.split("  ")[1] for line in lines[::2]] == ["line 1", "line 2", "line 3"]
    assert sum(2 if character == "漢" else 1 for character in lines[3]) <= 80
    assert lines[3].count("漢") > 20


@pytest.mark.parametrize("data", [b"\0" + GITHUB.encode(), f"token {GITHUB}".encode("utf-16")])
def test_explain_refuses_what_it_cannot_search(
    data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("log.txt").write_bytes(data)
    code, out, err = run_rules(capsys, "explain", "log.txt")
    assert (code, out) == (3, "")
    assert "--> log.txt\n" in err


def test_list_of_nothing_says_where_the_rest_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_rules(capsys, "list", "--type", "emial")
    assert (code, out) == (1, "")
    assert err == "0 rules.  did you mean email? List all: open-token rules list\n"


def test_explain_takes_a_file_or_words(capsys: pytest.CaptureFixture[str]) -> None:
    Path("log.txt").write_text(f"x {GITHUB}")
    assert as_json(capsys, "explain", "log.txt")["source"] == "log.txt"
    code, out, err = run_rules(capsys, "explain", f"token {GITHUB}")
    assert code == 0
    assert "note    no such file" in err
    assert GITHUB not in out + err


def test_explain_gives_the_hash_for_an_allow_list(
    known_key: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("log.txt").write_text(f"x {GITHUB}")
    (finding,) = as_json(capsys, "explain", "log.txt")["findings"]
    settings = Path(os.environ["OPEN_TOKEN_HOME"]) / "settings" / "config.toml"
    settings.write_text(f'[[allow]]\nvalue = "{finding["allow"]}"\n')
    report = as_json(capsys, "explain", "log.txt")
    assert report["findings"] == []
    assert report["near"][0]["is_allowed"] is True
    assert str(settings) in report["near"][0]["why"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ([], "rules needs a command: list, show, test, explain"),
        (["lst"], "did you mean `open-token rules list`?"),
        (["list", "x"], "`rules list` takes no arguments"),
        (["list", "--level", "all"], "unknown level"),
        (["show"], "`rules show` needs one rule id"),
        (["show", "github-tokn"], "did you mean github-token?"),
        (["test", "nonsense"], "no such rule"),
        (["explain"], "`rules explain` needs one text"),
        (["explain", "a", "b"], "`rules explain` needs one text"),
    ],
)
def test_usage(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_rules(capsys, *words)
    assert (code, out) == (2, "")
    assert what in err


def test_a_missing_file_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_rules(capsys, "test", "none.toml")
    assert code == 3
    assert "no such file" in err
