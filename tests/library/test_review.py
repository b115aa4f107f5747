"""Decisions of a person: words of their own, values that stay, false positives for good."""

from dataclasses import replace
from pathlib import Path

import pytest

from open_token.context import AllowEntry, Context, Policy, RedactionOverrides
from open_token.errors import UsageError
from open_token.library.review import (
    KEEP,
    MASK,
    MAX_WORDS,
    add_words,
    explain_lock,
    keep_values,
    remember_false_positives,
)
from open_token.options import ExportOptions
from open_token.redaction.findings import Finding, list_text_findings
from open_token.redaction.found_values import FoundValues
from open_token.redaction.text_stream import redact_text
from open_token.storage.files import Folders

PLAIN = Context(ExportOptions.of({"redact": "secrets", "strategy": "drop"}))


def mask(text: str, context: Context) -> str:
    return b"".join(redact_text([text.encode()], context, "")).decode()


def test_a_word_is_masked_everywhere_in_any_case() -> None:
    context = add_words(PLAIN, ["Harbor", "é. (x)*"])
    masked = mask("harbor, HARBORMASTER and é. (X)*; arbor, é. x", context)
    marker = "[REDACTED:word:00000000]"
    assert masked == f"{marker}, {marker}MASTER and {marker}; arbor, é. x"


def test_the_longer_of_two_words_wins() -> None:
    masked = mask("harbor-works", add_words(PLAIN, ["harbor", "harbor-works"]))
    assert masked == "[REDACTED:word:00000000]"


def test_nothing_permits_a_word() -> None:
    screen = RedactionOverrides(
        allowed=(AllowEntry(pattern="harbor"),), kept=frozenset(("harbor",))
    )
    assert "harbor" not in mask("the harbor", add_words(replace(PLAIN, screen=screen), ["harbor"]))


@pytest.mark.parametrize(
    "words", [["x"], [" "], ["x" * 201], [f"w{n}" for n in range(MAX_WORDS + 1)]]
)
def test_words_are_bounded(words: list[str]) -> None:
    with pytest.raises(UsageError):
        add_words(PLAIN, words)


def test_values_stay_that_were_not_decided_to_be_masked() -> None:
    context = replace(PLAIN, options=PLAIN.options.changed(redact="pii"))
    text = "sam.lee@harbor-works.org, kim@harbor-works.org"
    findings = list_text_findings([text.encode()], context, FoundValues())
    assert len(findings) == 2
    decided = list(zip(findings, (KEEP, MASK), strict=True))
    masked = mask(text, keep_values(context, decided))
    assert masked.startswith("sam.lee@harbor-works.org, [REDACTED")


def test_what_must_be_masked_is_locked() -> None:
    key = Finding("private_key", "private-key", "secrets", "k")
    assert explain_lock(key, PLAIN) == ""
    assert explain_lock(key, replace(PLAIN, policy=Policy(never_export_private_keys=True)))
    assert explain_lock(Finding("word", "own-words", "secrets", "w"), PLAIN)


def test_false_positives_are_remembered_by_keyed_hash(tmp_path: Path) -> None:
    finding = Finding("email", "email", "pii", "sam.lee@harbor-works.org")
    folders = Folders(tmp_path, tmp_path, tmp_path)
    with pytest.raises(UsageError):
        remember_false_positives([finding], PLAIN, folders)
    path = remember_false_positives([finding], replace(PLAIN, key=b"k" * 32), folders)
    assert "hmac:" in path.read_text()
    assert "sam.lee" not in path.read_text()
