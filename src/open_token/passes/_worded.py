"""Tokens of any service whose head says what they are: a word such as sk, pat or secret, then
letters drawn by lot."""

from open_token.passes._candidate import Candidate
from open_token.passes._late import late
from open_token.passes._names import is_harmless, is_telling
from open_token.passes._values import entropy, is_name, is_placeholder
from open_token.passes._writing import wordiness

_WORD = late(r"(?i:sk|pat|apikey|secret|token|key|api)[_-]")
_MIXED = late(r"(?=.*[a-z])(?=.*[A-Z])(?:.*[0-9]){2}")
_DIGIT, _FEW_DIGITS = late("[0-9]"), 2
# Small letters or capitals alone must be long and take turns with digits, as in hexadecimal.
_RUN = late("[a-z0-9]{28,}|[A-Z0-9]{28,}")
_CHANGE, _LEAST_CHANGES = late("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])"), 7
_UNLIKE_WORDS, _HARDLY_WORDS, _LEAST_BITS, _JUDGED = -0.5, 0.0, 3.3, 400


def is_worded_token(found: Candidate) -> bool:
    """Whether behind the word stands something that nobody would call a thing by."""
    word = _WORD.search(found.value)
    # The cheapest test: names have few digits.
    if word is None or len(_DIGIT.findall(found.value[:_JUDGED])) < _FEW_DIGITS:
        return False
    named, tail = found.value[: word.end() - 1] + "=", found.value[word.end() :][:_JUDGED]
    if not is_telling(named) or is_harmless(named) or is_placeholder(tail) or is_name(tail):
        return False
    run = _RUN.search(tail)
    if run and len(_CHANGE.findall(run[0])) >= _LEAST_CHANGES:
        return True
    unlike = _HARDLY_WORDS if len(_CHANGE.findall(tail)) > _LEAST_CHANGES else _UNLIKE_WORDS
    return bool(_MIXED.match(tail)) and entropy(tail) >= _LEAST_BITS and wordiness(tail) < unlike
