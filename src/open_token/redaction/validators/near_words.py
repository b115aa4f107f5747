"""Validators of the rules for values near a word for secrets, wherever the word stands.

A value counts if it looks random by the character model, a word for secrets stands near it, and
nothing says that it is something else: a name right before it, or the form of an id.
"""

import functools
import re

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.person_names.name_lists import load_common_words
from open_token.redaction.prefilter import Matcher, get_matcher
from open_token.redaction.ruleset import join_words, load_near_words
from open_token.redaction.text_encoding import decode_padded
from open_token.redaction.validators import Candidate
from open_token.redaction.validators.character_model import measure_randomness
from open_token.redaction.validators.key_names import is_harmless_name, is_secret_name
from open_token.redaction.validators.passwords import QUOTES
from open_token.redaction.validators.values import (
    count_character_classes,
    is_code,
    is_digest,
    is_integrity_hash,
    is_key,
    is_name,
    is_password,
    is_placeholder,
    is_uuid,
)

_REACH_BEFORE = 80
_REACH_AFTER = 50
_REACH_OF_NAME = 160
_REACH_OF_PASSWORD = 48
_REACH_OF_DIGEST = 40
_REACH_OF_QUOTED = 24
_REACH_OF_OTHER = 16
_MIN_LENGTH = 12
_MIN_RANDOMNESS = 2.0
_MIN_RANDOMNESS_OF_PASSWORD = -3.0
_MIN_RANDOMNESS_OF_LONG = 3.0
# A name and a sign directly before a value say what it is, but not the last word of a sentence.
_SENTENCE = lazy_compile(r"[^\W\d_] [^\W\d_]+: +[\"'`*]*$")
_NAMED = lazy_compile(r"([^\W\d_][\w.-]*)[\"'`*\])]*[ \t]*(?:=|:|=>)[ \t]*[\"'`*(\[{]*\Z")
# The number of a ticket, as in OPS-123.
_TICKET = lazy_compile(r"[A-Z]{2,10}-[0-9]+")
_PART = lazy_compile(
    r"[.;?!\n]\s|,\s.*,\s|\b(?:of|by|version|library|algorithm|using|via|hash\w*|with the)\b"
)
_GOES_ON = lazy_compile(r"[(\[=/\\@]|:\S| ?=|\.\w")
_MADE_UP = lazy_compile(
    r"[A-Za-z]{3,}(?:[-_.][A-Za-z]{3,}){0,3}[-_.!#$%&*+?~]{0,2}[0-9]{2,6}[!#$%&*+?~]{0,2}"
)
_LETTERS = lazy_compile("[A-Za-z]+")
_MIN_MADE_UP = 8
_MAX_LINKING_WORDS = 6
# What may stand between a value and a word for secrets behind it: signs and one word, or a verb
# that equates the two. In "Volume <value> stores the credentials" it does not. Scripts that are
# not Latin are not looked into.
_SPEAKS_OF = lazy_compile(
    r"^\W*(?:\w+[ -])?$|^ ?(?:[(\[]|<-|[-–—] )|[^\x00-\u024f]|"
    r"(?<!\w)(?:is|was|are|be|as|that|it's|this|into|ist|war|als|est|était|comme|es|era|como|é|è|"
    r"come|jest|je|to|jako|är|er|som|on|olarak|adalah|sebagai)(?!\w)",
    re.IGNORECASE,
)
# Nouns that follow a word for secrets without a break: "token cache entry", "password policy".
_COMPOUND = lazy_compile(r"(?: [a-z]{3,}){1,3} $")
_NO_NOUNS = frozenset(
    """and are but can for from had has have key new not our that the then these they was were will
    with your""".split()
)
# A remark between a name and its sign: "token (read only): ".
_REMARK = lazy_compile(r"[ \t]*\([^()\n]{1,60}\)(?=[\"'`*]*[ \t]*(?:=|:|=>)[ \t]*[\"'`*(\[{]*\Z)")
_SIGN_BEFORE = lazy_compile(r"[=:|>(,][ \t]*$")
_SAYS_NOTHING = frozenset(
    "is was this it here below following one value use used using try with be now still type enter paste write give put "
    "ist lautet es est этo 是 为".split()
)
# Ids that runtimes and providers give, which stand near counts of tokens.
_ID = re.compile(
    r"(?i)(?:msg|toolu|srvtoolu|tooluse|call|req|resp|run|evt|event|conv|chatcmpl|cmpl|gen|file|thread|asst|step|rs|fc|ws|item|"
    r"session|sess|org|proj|user|usr|acct|cus|sub|price|prod|in|pi|ch|cs|txn|batch|ft|vs|id|trace|span|i|ami|vpc|subnet|sg|arn)"
    r"[_-]"
)
# Of a signing key.
_FINGERPRINT = lazy_compile("(?:0x)?(?:[0-9A-F]{16}|[0-9A-F]{40})")
_OTHER_WORDS = lazy_compile(
    r"commit|sha-?\d|checksum|digest|\bhash|md5|etag|\brev|fingerprint|\buuid|\bid\b|integrity|trace|"
    r"tokens|tokenizer|public key|primary key|version|\bbuild|session[ _-]?id|request",
    re.IGNORECASE,
)
_DIGIT = re.compile("[0-9]")
_WORD = lazy_compile(r"[^\W\d_]{2,}")
_LAST_WORD = lazy_compile(r"([^\W\d_]{2,})[^\w\n]{0,4}$")
_SEPARATORS = "|\t,;"
_ALONE_BEFORE = re.compile(r"(?:^|\n)[ \t>*`\"'#|-]*$")
_ALONE_AFTER = re.compile(r"[ \t*`\"'|.]*(?:\n|$)")


@functools.cache
def _load_words(kind: str) -> Matcher:
    return get_matcher(join_words(list(load_near_words(kind))))


def _split_at_last_word(text: str, kind: str) -> tuple[str, str] | None:
    """Return what stands before the end of the last word for secrets, and behind it."""
    raw = text.encode("utf-8", "surrogatepass")
    find_spans = _load_words(kind).find_spans
    end = 0
    while spans := find_spans(raw, end):
        end = spans[0][1]
    if not end:
        return None
    return decode_padded(raw[:end]), decode_padded(raw[end:])


def _has_word(text: str, kind: str) -> bool:
    return _load_words(kind).find_spans(text.encode("utf-8", "surrogatepass"), 0) is not None


def is_near_secret(candidate: Candidate) -> bool:
    """Accept a random value near a word for secrets; a hash only right behind the word."""
    value, before, after = candidate
    if len(value) < _MIN_LENGTH or not _DIGIT.search(value):  # the cheapest tests
        return False
    if _ID.match(value) or ".." in value:
        return False
    gap = _find_gap(candidate, "secret")
    if gap is None or not is_key(value) or is_integrity_hash(value) or _is_called_other(before):
        return False
    if "/" in value and not _is_like_base64(value):
        return False
    if _FINGERPRINT.fullmatch(value):
        return False
    if is_uuid(value) and not _leads_to_value(gap):
        return False
    if is_digest(value) or is_uuid(value):
        return len(gap) <= _REACH_OF_DIGEST and not _OTHER_WORDS.search(before[-_REACH_BEFORE:])
    randomness = measure_randomness(value)
    if _OTHER_WORDS.search(before[-_REACH_BEFORE:] + after[:_REACH_AFTER]):
        return randomness >= _MIN_RANDOMNESS_OF_LONG and len(value) >= 2 * _MIN_LENGTH
    return randomness >= _MIN_RANDOMNESS


def _leads_to_value(gap: str) -> bool:
    """Return whether the words between a word for secrets and a value name nothing else.

    Most UUIDs are ids, and the noun before one says of what: "token of session <uuid>".
    """
    return all(word.lower() in _SAYS_NOTHING for word in _WORD.findall(gap))


def is_near_password(candidate: Candidate) -> bool:
    """Accept, near a word for passwords, what has three kinds of characters and is no name."""
    value, before, _ = candidate
    if count_character_classes(value) < 2:  # the cheapest test
        return False
    gap = _find_gap(candidate, "password")
    if gap is None or len(gap) > _REACH_OF_PASSWORD or _is_other_than_password(before):
        return False
    if "/" in value or "passw" in value.lower() or _TICKET.fullmatch(value):
        return False
    if _is_linked(gap, candidate) and _is_made_up(value):
        return True
    if not is_password(value) or is_code(value):
        return False
    randomness = measure_randomness(value)
    if _is_quoted(candidate) and len(gap) <= _REACH_OF_QUOTED and not is_name(value):
        return True
    if count_character_classes(value) >= 3:
        return randomness >= (0.0 if is_name(value) else _MIN_RANDOMNESS_OF_PASSWORD)
    return is_key(value) and randomness >= _MIN_RANDOMNESS


def has_word_near(candidate: Candidate, kind: str) -> bool:
    """Return whether a word for secrets, or for passwords, is within reach of a value."""
    return _find_gap(candidate, kind) is not None


def _find_gap(candidate: Candidate, kind: str) -> str | None:
    """Return the text between a value and the nearest word for secrets; None if none is near.

    Over the end of a line a word reaches only to a value that has its line for itself.
    """
    _, before, after = candidate
    near = before[-_REACH_BEFORE:]
    parts = _split_at_last_word(near, kind)
    if parts:
        gap = parts[1]
        if "\n" not in gap:
            return None if _is_compound(gap) else gap
        if _ALONE_BEFORE.search(before) and _ALONE_AFTER.match(after):
            return gap
        if _has_header(near, after, kind):
            return ""
    following = after[:_REACH_AFTER].split("\n")[0].encode("utf-8", "surrogatepass")
    spans = _load_words(kind).find_spans(following, 0)
    if not spans:
        return None
    gap = decode_padded(following[: spans[0][0]])
    introduction = _LAST_WORD.search(near)
    if introduction and introduction[1].lower() in _SAYS_NOTHING:
        return gap
    return gap if _SPEAKS_OF.search(gap) else None


def _is_compound(gap: str) -> bool:
    """Return whether a word for secrets only describes the noun that stands before a value."""
    if not _COMPOUND.fullmatch(gap):
        return False
    words = gap.split()
    if words[-1] in _NO_NOUNS or not _SAYS_NOTHING.isdisjoint(words):
        return False
    return load_common_words().issuperset(words)


def _has_header(before: str, after: str, kind: str) -> bool:
    """Return whether a value stands in a table below a word for secrets, in the same column."""
    *lines, row = before.split("\n")
    for separator in _SEPARATORS:
        if separator not in row + after.split("\n")[0]:
            continue
        column = row.count(separator)
        for line in lines:
            cells = line.split(separator)
            if len(cells) > max(column, 1) and _has_word(cells[column], kind):
                return True
    return False


def _is_linked(gap: str, candidate: Candidate) -> bool:
    """Return whether the words between a word for passwords and a value do not part the two."""
    if _PART.search(gap) or len(_WORD.findall(gap)) > _MAX_LINKING_WORDS:
        return False
    return _GOES_ON.match(candidate.after) is None


def _is_made_up(value: str) -> bool:
    """Return whether a value is like a word that is none, with a number or a sign at its end."""
    if len(value) < _MIN_MADE_UP or _MADE_UP.fullmatch(value) is None or is_placeholder(value):
        return False
    words = [word.lower() for word in _LETTERS.findall(value)]
    return any(len(word) > 3 and word not in load_common_words() for word in words)


def _is_quoted(candidate: Candidate) -> bool:
    quote = candidate.before[-1:]
    return quote in QUOTES and candidate.after[:1] == quote


def _is_other_than_password(before: str) -> bool:
    """Return whether a name before a value says that it is no password; words of a sentence that
    only stand there are no names."""
    if before[-1:] == " " and _SIGN_BEFORE.search(before) is None:
        return _OTHER_WORDS.search(before[-_REACH_OF_OTHER:]) is not None
    return _is_called_other(before)


def _is_called_other(before: str) -> bool:
    """Return whether a name right before a value says that it is no secret."""
    before = _REMARK.sub("", before[-_REACH_OF_NAME:])
    named = _NAMED.search(before)
    if is_harmless_name(before):
        return True
    if named is None or len(named[1]) == 1 or named[1].lower() in _SAYS_NOTHING:
        return False
    if _SENTENCE.search(before):
        return False
    return not is_secret_name(before) and not any(
        _has_word(named[1], kind) for kind in ("secret", "password")
    )


def _is_like_base64(value: str) -> bool:
    return value.count("/") <= len(value) // 16 and "." not in value and not is_placeholder(value)
