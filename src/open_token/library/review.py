"""A person's decisions on what is masked in one conversation: findings, and words of their own."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from open_token.context import Context, CustomRule
from open_token.errors import UsageError
from open_token.redaction.findings import Finding, compute_allow_hash
from open_token.redaction.user_detector import OWN_WORDS
from open_token.settings import add_allow_entries
from open_token.storage.files import Folders

MASK, KEEP, FALSE_POSITIVE = "mask", "keep", "false for good"
"""Decisions; JSON reports contain these words."""
MAX_WORDS = 200
MAX_WORD_LENGTH = 200


def explain_lock(finding: Finding, context: Context) -> str:
    """Return why a finding must be masked, or an empty string."""
    if finding.type == "private_key" and context.policy.never_export_private_keys:
        return "the policy forbids exporting private keys"
    if finding.rule == OWN_WORDS:
        return "you marked this word"
    return ""


def check_word(word: str) -> str:
    """Return a word of one's own without the spaces around it, or raise UsageError."""
    word = word.strip()
    if len(word) < 2 or len(word) > MAX_WORD_LENGTH:
        raise UsageError(
            f"a word to mask has 2 to {MAX_WORD_LENGTH} characters",
            help="it is masked wherever it stands, also inside of longer words",
        )
    return word


def add_words(context: Context, words: Sequence[str]) -> Context:
    """Return the context with words that are masked wherever they stand, in whatever case."""
    if not words:
        return context
    if len(words) > MAX_WORDS:
        raise UsageError(f"at most {MAX_WORDS} words can be masked in one export")
    # The longest first: a word may be the beginning of another one.
    longest_first = sorted(
        {check_word(word) for word in words}, key=lambda word: (-len(word), word)
    )
    pattern = f"(?i)(?:{'|'.join(re.escape(word) for word in longest_first)})"
    rule = CustomRule(id=OWN_WORDS, type="word", level="secrets", pattern=pattern)
    screen = replace(context.screen, rules=(*context.screen.rules, rule))
    return replace(context, screen=screen)


def keep_values(context: Context, decided: Iterable[tuple[Finding, str]]) -> Context:
    """Return the context in which the values stay that were not decided to be masked."""
    kept = {finding.canonical for finding, decision in decided if decision != MASK}
    screen = replace(context.screen, kept=context.screen.kept | kept)
    return replace(context, screen=screen)


def remember_false_positives(
    findings: Iterable[Finding], context: Context, folders: Folders
) -> Path:
    """Add the values of findings to the user's allow-list, by keyed hash; return its file."""
    if context.key is None:
        raise UsageError(
            "cannot remember false positives: there is no key for their hashes",
            help="make the settings folder writable (OPEN_TOKEN_HOME moves it), "
            "or keep the values in this export only",
        )
    day = (context.now or "")[:10]
    entries = []
    for finding in findings:
        remark = f"{finding.type}, rule {finding.rule}, {day}"
        entries.append((compute_allow_hash(finding, context.key), remark))
    return add_allow_entries(folders, entries)
