"""Find what is to be masked: a prefilter says where a rule may match, RE2 confirms, a validator
decides."""

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from open_token.context import AllowEntry, Context
from open_token.redaction.decoders import DECODERS, Decoded, decode, find_encoded_spans
from open_token.redaction.hyperscan_prefilter import (
    build_prefilter,
    get_open_prefilter,
    read_stored_databases,
)
from open_token.redaction.markers import blank_markers
from open_token.redaction.prefilter import Prefilter, Window, get_keyword_prefilter, get_matcher
from open_token.redaction.ruleset import (
    GLUED_TOKEN_START,
    TOKEN_START,
    Rule,
    compute_fingerprint,
    load_rules,
)
from open_token.redaction.structures import VALIDATOR as STRUCTURED
from open_token.redaction.structures import list_pairs
from open_token.redaction.text_encoding import decode_padded, encode_all
from open_token.redaction.validators import Candidate, Validator, load_validators
from open_token.redaction.validators.named_values import is_password_name

# With less text than this the keyword prefilter is done before a database is compiled; it takes
# more text where a compiled database cannot be stored.
_SMALL = 1 << 16
_SMALL_WITHOUT_CACHE = 1 << 20
_SIZES_SEARCHED: Counter[str] = Counter()
"""How much text this process has searched without a database, by the fingerprint of the rules:
many small sessions deserve one as much as a large session does."""
# How much of a match and of the text around it a validator sees: what it says of a long value
# does not depend on the rest, and its work for each match is bounded.
_MAX_JUDGED = 1 << 13
CONTEXT_BEFORE = 96
CONTEXT_AFTER = 64
_MAX_RETRY_LENGTH = 64
_MAX_DEPTH = 4
# Joined strings need not be joined again: that would cost more, the more strings follow another.
_MAX_JOIN_DEPTH = 2
# Sessions repeat themselves: files are read twice, lists are sent again. The findings of this
# many characters are remembered.
_MAX_REMEMBERED = 1 << 23
# So are the matches in windows of at most this many bytes, and of so many windows.
_MAX_WINDOW_SIZE = 1 << 9
_MAX_WINDOWS = 1 << 13
_CONTINUATION_BYTES = range(0x80, 0xC0)
_PUNCTUATION = b".,;:"
WORD_BYTES = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_RUN_BYTES = WORD_BYTES | frozenset(b"-")
_LOCATING = frozenset((*DECODERS, STRUCTURED))
"""Validators of rules whose matches say only where to decode or to read a structure."""

Search = Callable[[bytes, int], list[tuple[int, int]] | None]
"""Return the spans of the next match from a position on: the whole of it, then its groups."""


class EncodedSpan(NamedTuple):
    """A span of a string that may be encoded, and the rank of the rule that says how."""

    number: int
    raw: bytes
    start: int
    rank: int


class Finding(NamedTuple):
    """A span of a string, in bytes, and the rule that found it."""

    start: int
    end: int
    rank: int
    rule: Rule
    plain: str = ""
    """The decoded value, where the span is encoded."""
    within: tuple[tuple[str, int, Rule], ...] = ()
    """Further values that the span contains, each with its rank and rule."""

    def get_value(self, raw: bytes) -> str:
        """Return the value, given the bytes of the string."""
        return self.plain or raw[self.start : self.end].decode("utf-8", "surrogatepass")


_NOTHING: list[Finding] = []


def build_detector(level: str, context: Context, engine: str = "auto") -> "Detector":
    """Return the detector of a level, with the rules and allow-lists of the settings."""
    rules = load_rules(level, context.rule_cache)
    engine = context.engine if engine == "auto" else engine
    screen = context.screen
    detector: Detector
    if screen.rules or screen.allowed or screen.kept:
        from open_token.redaction.user_detector import UserRuleDetector, select_user_rules

        user_rules = select_user_rules(level, screen.rules)
        detector = UserRuleDetector(rules, context, user_rules, engine)
    else:
        detector = Detector(rules, context.rule_cache, engine)
    detector.checkpoint = context.checkpoint
    return detector


class Detector:
    """Search strings by a set of rules, which are compiled as they are needed.

    A string may begin with the name of its key and the byte 0x01; rules see the name, but only
    what follows it is found.
    """

    def __init__(
        self, rules: tuple[Rule, ...], cache: Path | None = None, engine: str = "auto"
    ) -> None:
        self.rules = rules
        self.cache = cache
        self.engine = engine
        self.checkpoint: Callable[[], None] | None = None
        """Called between windows, which are mostly lines; it may raise to end the search."""
        self._fast_prefilter: Prefilter | None = None
        self._looked_for_database = False
        self._depth = 0
        self._prepared: dict[int, tuple[Search, Validator | None]] = {}
        self._remembered: dict[str, list[Finding]] = {}
        self._remembered_size = 0
        self._window_matches: dict[tuple[int, bytes], list[tuple[int, int]]] = {}

    def find(self, texts: list[str]) -> list[tuple[int, list[Finding]]]:
        """Return the findings by number, for those strings that have any."""
        if self._depth:  # decoded text hardly ever comes again
            return self._search(texts)
        known = self._remembered
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        if fresh:
            searched = self._search(fresh)
            known.update(dict.fromkeys(fresh, _NOTHING))
            known.update((fresh[number], findings) for number, findings in searched)
            self._remembered_size += sum(map(len, fresh))
        found = [
            (number, findings) for number, text in enumerate(texts) if (findings := known[text])
        ]
        if self._remembered_size > _MAX_REMEMBERED:
            self._forget()
        return found

    def find_raw(self, data: bytes) -> list[Finding]:
        """Return the findings in bytes as they are, without decoding anything."""
        windows = self._get_prefilter(len(data))(data)
        if not windows:
            return []
        return merge_findings(self._confirm(0, data, windows, []))

    def get_allowance(self, rule: Rule, value: str, key: str) -> AllowEntry | None:
        """Return the allow-list entry that permits a value; without settings there is none."""
        return None

    def is_odd_key(self, key: str) -> bool:
        """Return whether a key that looks plain is to be searched; built-in rules need none."""
        return False

    @functools.cached_property
    def _escapes_rank(self) -> int | None:
        for rank, rule in enumerate(self.rules):
            if rule.validator == "escapes":
                return rank
        return None

    @functools.cached_property
    def _person_rank(self) -> int | None:
        for rank, rule in enumerate(self.rules):
            if rule.finder:
                return rank
        return None

    @functools.cached_property
    def _recognizer(self) -> Any:
        """The module that finds person names, loaded with the first text that may have one."""
        from open_token.redaction.person_names import recognizer

        recognizer.set_cache_folder(self.cache)
        return recognizer

    def _forget(self) -> None:
        """Keep what was found while it is little: masking asks for it again, for nothing else."""
        kept = {text: findings for text, findings in self._remembered.items() if findings}
        size = sum(map(len, kept))
        if size > _MAX_REMEMBERED * 3 // 4:
            kept = {}
            size = 0
        self._remembered = kept
        self._remembered_size = size

    def _search(self, texts: list[str]) -> list[tuple[int, list[Finding]]]:
        pieces = encode_all(texts)
        # One scan for all strings: the cost of a scan is mostly that of its call.
        data = b"\0".join([b"", *pieces, b""])
        prefilter = self._get_prefilter(len(data))
        windows = prefilter(data)
        if self._person_rank is not None:
            windows += self._find_name_windows(self._person_rank, data, windows, prefilter)
        by_piece = _group_windows(windows, pieces)
        has_zero_bytes = data.count(b"\0") > len(pieces) + 1
        encoded = self._list_wide_strings(pieces) if has_zero_bytes else []
        found = {
            number: self._confirm(number, pieces[number], by_piece[number], encoded)
            for number in by_piece
        }
        for number, finding in self._search_decoded(encoded):
            found.setdefault(number, []).append(finding)
        return [
            (number, merge_findings(found[number])) for number in sorted(found) if found[number]
        ]

    def _list_wide_strings(self, pieces: list[bytes]) -> list[EncodedSpan]:
        """Return strings with zero bytes, such as misread UTF-16: no window spans a zero byte."""
        rank = self._escapes_rank
        if rank is None:
            return []
        spans = []
        for number, piece in enumerate(pieces):
            if b"\0" in piece:
                start = piece.find(b"\x01") + 1
                spans.append(EncodedSpan(number, blank_markers(piece)[start:], start, rank))
        return spans

    def _find_name_windows(
        self, rank: int, data: bytes, windows: list[Window], prefilter: Prefilter
    ) -> list[Window]:
        """Return the lines in which a word may be a name; the rule itself finds only the cues."""
        # To look first for the lines that may hold a name is faster than to weigh all words.
        lines = self._recognizer.select_lines_with_cues(data, prefilter.find_lines(rank, data))
        if not lines:
            return []
        known = {window for window in windows if window.rule == rank}
        return [window for line in lines if (window := Window(rank, *line)) not in known]

    def _get_prefilter(self, size: int) -> Prefilter:
        """Return the prefilter for the next text; compile a database once there is enough text."""
        if self._fast_prefilter is not None:
            return self._fast_prefilter
        stored = None
        if not self._looked_for_database and self.engine != "keywords":
            self._looked_for_database = True
            opened = get_open_prefilter(self.rules)
            if opened:
                self._fast_prefilter = opened
                return opened
            stored = read_stored_databases(self.rules, self.cache)
        fingerprint = compute_fingerprint(self.rules)
        _SIZES_SEARCHED[fingerprint] += size
        small = _SMALL if self.cache else _SMALL_WITHOUT_CACHE
        is_large = self.engine == "auto" and _SIZES_SEARCHED[fingerprint] >= small
        if self.engine == "hyperscan" or stored or is_large:
            compiled = build_prefilter(self.rules, self.cache, stored)
            self._fast_prefilter = compiled or get_keyword_prefilter(self.rules)
            return self._fast_prefilter
        return get_keyword_prefilter(self.rules)

    def _confirm(
        self, number: int, piece: bytes, windows: list[Window], encoded: list[EncodedSpan]
    ) -> list[Finding]:
        """Return the findings of one string; append spans that are to be decoded to `encoded`."""
        text = blank_markers(piece)
        value_start = text.find(b"\x01") + 1
        findings = []
        decoded_ends: dict[int, int] = {}
        for rank, window_start, window_end in windows:
            if self.checkpoint is not None:
                self.checkpoint()
            rule = self.rules[rank]
            for first, last in self._find_matches(rank, rule, text[window_start:window_end]):
                start = window_start + first
                end = window_start + last
                if rule.validator in DECODERS:
                    start = max(start, value_start)
                    # Wrapped lines that follow one another are decoded once.
                    if decoded_ends.get(rank, 0) <= start < end:
                        raws = find_encoded_spans(text, start, end, rule.validator)
                        encoded += [EncodedSpan(number, raw, start, rank) for raw in raws]
                        decoded_ends[rank] = start + max(map(len, raws), default=0)
                elif rule.validator == STRUCTURED:
                    if start >= value_start:
                        findings += self._find_named_values(rank, rule, text, start, end)
                elif start >= value_start:
                    within = self._list_inner_values(rank, rule, text[start:end])
                    findings.append(Finding(start, end, rank, rule, "", within))
        return findings

    def _find_named_values(
        self, rank: int, rule: Rule, text: bytes, start: int, end: int
    ) -> list[Finding]:
        """Return the secrets among the values that a structure gives to a name."""
        validator = load_validators(rule.level)[rule.validator]
        findings = []
        for pair in list_pairs(text, start, end):
            if pair.start >= pair.end:
                continue
            end = pair.end
            if text[end - 1] in _PUNCTUATION:
                end = _strip_punctuation(text, pair.start, end)
            candidate = build_candidate(text, pair.start, end)
            candidate = candidate._replace(before=decode_padded(pair.label))
            if self._is_structured_secret(rule, validator, candidate):
                kind = _as_password_rule(rule) if is_password_name(candidate) else rule
                findings.append(Finding(pair.start, end, rank, kind))
        return findings

    def _is_structured_secret(self, rule: Rule, validator: Validator, candidate: Candidate) -> bool:
        """Return whether a value counts; `rules explain` overrides this, too."""
        return validator(candidate)

    def _list_inner_values(
        self, rank: int, rule: Rule, value: bytes
    ) -> tuple[tuple[str, int, Rule], ...]:
        """Return the parts of a full name, or of an email address that spells one."""
        if rule.finder:
            names = self._recognizer.list_name_parts(value)
        elif rule.type == "email" and self._person_rank is not None:
            names = self._recognizer.find_names_in_email(value)
            rank = self._person_rank
        else:
            return ()
        # It outranks the rule for whole names, whose values are not masked elsewhere.
        part_rule = msgspec.structs.replace(self.rules[rank], finder="part")
        return tuple((name, rank - 1, part_rule) for name in names)

    def _search_decoded(self, encoded: list[EncodedSpan]) -> Iterator[tuple[int, Finding]]:
        """Yield what is found in decoded text, by the number of the string it is in."""
        if not encoded or self._depth == _MAX_DEPTH:
            return
        decodings = [(span, decoded) for span in encoded for decoded in self._decode(span)]
        for position, findings in self._search_deeper([item.text for _, item in decodings]):
            span, decoded = decodings[position]
            if decoded.is_joined:
                findings = [item for item in findings if self._is_joined_secret(item, decoded)]
            for finding in _map_to_source(span, decoded, findings, self.rules[span.rank]):
                yield span.number, finding

    def _decode(self, span: EncodedSpan) -> list[Decoded]:
        encoding = self.rules[span.rank].validator
        if encoding == "glue" and self._depth >= _MAX_JOIN_DEPTH:
            return []
        return decode(span.raw, encoding)

    def _search_deeper(self, texts: list[bytes]) -> list[tuple[int, list[Finding]]]:
        if not texts:
            return []
        self._depth += 1
        try:
            return self.find([decode_padded(text) for text in texts])
        finally:
            self._depth -= 1

    def _is_joined_secret(self, finding: Finding, decoded: Decoded) -> bool:
        """Return whether joined text is a secret that its parts alone do not reveal."""
        if decoded.offsets is None or finding.rule.level != "secrets":
            return False
        joint = decoded.offsets.find_joint(finding.start, finding.end)
        if joint is None:
            return False
        parts = [decoded.text[finding.start : joint], decoded.text[joint : finding.end]]
        found_alone = dict(self._search_deeper(parts))
        if decoded.is_certain:
            return all(part.start > 0 for part in found_alone.get(1, ()))
        return not found_alone and has_distinct_prefix(finding.rule)

    def _find_matches(self, rank: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        """Return what a rule masks in a window; short windows are remembered.

        What was masked is searched again, and most of its lines are as they were.
        """
        if len(text) > _MAX_WINDOW_SIZE:
            return self._match_rule(rank, rule, text)
        known = self._window_matches.get((rank, text))
        if known is None:
            if len(self._window_matches) >= _MAX_WINDOWS:
                self._window_matches.clear()
            known = self._window_matches[rank, text] = self._match_rule(rank, rule, text)
        return known

    def _match_rule(self, rank: int, rule: Rule, text: bytes) -> list[tuple[int, int]]:
        """Return the spans that a rule masks; a rejected match is searched for another inside."""
        search, validator = self._prepared.get(rank) or self._prepare(rank, rule)
        spans = []
        position = 0
        while match := search(text, position):
            first, last = match[0]
            start, end = next((span for span in match[1:] if span[0] >= 0), match[0])
            if text[start] in _CONTINUATION_BYTES or (
                end < len(text) and text[end] in _CONTINUATION_BYTES
            ):
                start, end = _extend_to_characters(text, start, end)
            if text[end - 1] in _PUNCTUATION and rule.level == "secrets":
                end = _strip_punctuation(text, start, end)
            # What follows a name may begin the next one.
            next_position = end if rule.validator == STRUCTURED else last
            position = max(next_position, position + 1)
            if self._is_accepted(rule, validator, text, start, end):
                if rule.level == "secrets" and rule.validator not in _LOCATING:
                    end = _find_run_end(text, end)
                    position = max(end, position)
                spans.append((start, end))
            elif first < start and end - start <= _MAX_RETRY_LENGTH:
                # What was taken for a value may be the name of the next.
                position = start
        return spans

    def _prepare(self, rank: int, rule: Rule) -> tuple[Search, Validator | None]:
        validator = None
        if rule.validator and rule.validator not in _LOCATING:
            validator = load_validators(rule.level)[rule.validator]
        search: Search
        if rule.finder:
            search = self._recognizer.NameSearch().find_spans
        else:
            search = get_matcher(rule.pattern).find_spans
        self._prepared[rank] = search, validator
        return search, validator

    def _is_accepted(
        self, rule: Rule, validator: Validator | None, text: bytes, start: int, end: int
    ) -> bool:
        """Return whether a match counts; `rules explain` overrides this to record what does not."""
        if rule.ends and end < len(text) and text[end] in WORD_BYTES:
            return False
        if validator is None:
            return True
        return validator(build_candidate(text, start, end))


@functools.cache
def _as_password_rule(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, type="password")


def build_candidate(text: bytes, start: int, end: int) -> Candidate:
    """Return a match and the text around it, as validators take it."""
    return Candidate(
        decode_padded(text[start : min(end, start + _MAX_JUDGED)]),
        decode_padded(text[max(0, start - CONTEXT_BEFORE) : start]),
        decode_padded(text[end : end + CONTEXT_AFTER]),
    )


def _group_windows(windows: list[Window], pieces: list[bytes]) -> dict[int, list[Window]]:
    """Return the windows of a joined text by the number of the piece that they are in."""
    by_piece: dict[int, list[Window]] = {}
    if not windows:
        return by_piece
    ends = list(accumulate(map((1).__add__, map(len, pieces))))
    for rule, start, end in windows:
        number = bisect_left(ends, start)
        offset = ends[number] - len(pieces[number])
        by_piece.setdefault(number, []).append(Window(rule, start - offset, end - offset))
    return by_piece


def _map_to_source(
    span: EncodedSpan, decoded: Decoded, findings: list[Finding], rule: Rule
) -> Iterator[Finding]:
    """Yield findings in decoded text as findings in its source.

    Without offsets, as in base64, the whole encoded span is the finding.
    """
    values = [item.plain or decode_padded(decoded.text[item.start : item.end]) for item in findings]
    if decoded.offsets is None:
        within = [
            (value, item.rank, item.rule) for item, value in zip(findings, values, strict=True)
        ]
        for item in findings:
            within += item.within
        end = span.start + len(span.raw)
        yield Finding(span.start, end, span.rank, rule, "", tuple(within))
        return
    for item, value in zip(findings, values, strict=True):
        start, end = decoded.offsets.map_span(item.start, item.end)
        yield Finding(
            span.start + start, span.start + end, item.rank, item.rule, value, item.within
        )


def has_distinct_prefix(rule: Rule) -> bool:
    """Return whether a token is recognized by its own characters, so that no two strings make
    one by chance."""
    if rule.weak or rule.level != "secrets":
        return False
    return rule.pattern.startswith((TOKEN_START, GLUED_TOKEN_START))


def merge_findings(findings: list[Finding]) -> list[Finding]:
    """Return findings that do not overlap, in order.

    Overlapping ones become one: a secret if any is, else of the longest one's type. A weak one
    gives way to any other.
    """
    if len(findings) < 2:
        return findings
    strong = _merge_overlapping([item for item in findings if not item.rule.weak])
    weak = _merge_overlapping([item for item in findings if item.rule.weak])
    starts = [item.start for item in strong]
    kept = [item for item in weak if not _overlaps(item, strong, starts)]
    return sorted(strong + kept, key=_sort_key) if kept else strong


def _merge_overlapping(findings: list[Finding]) -> list[Finding]:
    merged: list[Finding] = []
    for item in sorted(findings, key=_sort_key):
        if not merged or item.start >= merged[-1].end:
            merged.append(item)
            continue
        last = merged[-1]
        longest = max(last, item, key=_weigh)
        start = last.start
        end = max(last.end, item.end)
        plain = longest.plain if (longest.start, longest.end) == (start, end) else ""
        within = last.within + item.within
        merged[-1] = Finding(start, end, longest.rank, longest.rule, plain, within)
    return merged


def _overlaps(item: Finding, others: list[Finding], starts: list[int]) -> bool:
    number = bisect_left(starts, item.end)
    return number > 0 and others[number - 1].end > item.start


def _weigh(finding: Finding) -> tuple[bool, int]:
    return finding.rule.level == "secrets", finding.end - finding.start


def _sort_key(finding: Finding) -> tuple[int, int, int, str]:
    return finding.start, -finding.end, finding.rank, finding.plain


def _extend_to_characters(text: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the span extended to whole UTF-8 characters."""
    while start > 0 and text[start] in _CONTINUATION_BYTES:
        start -= 1
    while end < len(text) and text[end] in _CONTINUATION_BYTES:
        end += 1
    return start, end


def _find_run_end(text: bytes, end: int) -> int:
    """Return where the run of characters ends in which a secret was found: some are longer than
    their pattern."""
    if text[end - 1] in WORD_BYTES:
        while end < len(text) and text[end] in _RUN_BYTES:
            end += 1
    return end


def _strip_punctuation(text: bytes, start: int, end: int) -> int:
    """Return where a value ends that is followed by one punctuation mark of its sentence.

    The whole value of a key keeps it; several marks stand for omitted text.
    """
    is_last = end == len(text) or text[end : end + 1].isspace()
    is_whole_value = text[start - 1 : start] == b"\x01"
    is_ellipsis = text[end - 2] in _PUNCTUATION
    if is_last and not is_whole_value and not is_ellipsis:
        return end - 1
    return end
