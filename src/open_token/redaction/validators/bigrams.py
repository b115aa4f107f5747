"""Tell words from random letters by how often one letter follows another in texts."""

import functools
import re

from open_token.redaction.lazy_patterns import lazy_compile

# For each pair of letters, from aa to zz: 0 (never) to 9 (often), counted over words of programs.
_PAIRS = (
    "05661250503767050868433340745472327618437406647001627043721750664282064752103074359410811534630564621130"
    "62674541302657353877143630614477219006337317556110406243924670064653077463101281249212702443810546500041"
    "54655550001669750577050305724383226253237524538232426245945270163554247451603172359311802723730165520061"
    "85249201702453770254500030716775816044246302784400203466244040466856086664520082348323602713761856512050"
    "33242212321425134553923211725593507034547305764320505163833670354366137862304072438307800443640765512151"
    "56546440500768460777100100831093318001436303221321118345741680042673276312430064747524701541580458221443"
    "4454653260066758057734514362439313711453621333312133"
)
_LOWEST_SCORE = -4.5
_SCORE_STEP = 7.5 / 9
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_RUN = lazy_compile("[a-z]{2,}")
_LETTERS = re.compile("[A-Za-z]+")
_ALPHANUMERICS = re.compile("[0-9A-Za-z]+")
# Several short parts with underscores, as in names of libraries: X509_pubkey_st.
_SNAKE_CASE = lazy_compile(
    "[A-Za-z]{1,12}[0-9]{0,4}[A-Za-z]{0,2}(?:_[A-Za-z]{1,12}[0-9]{0,4}[A-Za-z]{0,2}){2,}"
)
# Names have a number or two; letters and digits that alternate are random.
_DIGIT_CHANGE = re.compile("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_MAX_CHANGES = 7
_MIN_LETTER_SHARE = 0.6
_MIN_SNAKE_CASE_SCORE = -0.6
# The least score of words by their length: the more letters, the more certain.
_MIN_SCORES = ((24, -0.5), (16, -0.6), (12, -0.8))
# With numbers in it, a name must be wordier than chance: by the number of pairs of letters.
_MIN_NAME_SCORES = ((24, -0.1), (16, 0.1), (10, 0.3), (6, 0.5))


def measure_wordiness(text: str) -> float:
    """Return the mean score of pairs of letters: above 0 for words, about -1.5 for random letters,
    0 without pairs."""
    return _score_pairs(text)[1]


def _score_pairs(text: str) -> tuple[int, float]:
    """Return the number of pairs of letters, and their mean score."""
    scores = _load_scores()
    total = 0.0
    count = 0
    for run in _RUN.findall(text.lower()):
        total += sum(map(scores.__getitem__, map(str.__add__, run, run[1:])))
        count += len(run) - 1
    return count, total / count if count else 0.0


@functools.cache
def _load_scores() -> dict[str, float]:
    pairs = [first + second for first in _ALPHABET for second in _ALPHABET]
    return {
        pair: int(level) * _SCORE_STEP + _LOWEST_SCORE
        for pair, level in zip(pairs, _PAIRS, strict=True)
    }


def is_word_like(letters: str) -> bool:
    """Return whether letters may be words; few letters always may."""
    for size, min_score in _MIN_SCORES:
        if len(letters) >= size:
            return measure_wordiness(letters) > min_score
    return True


def is_identifier(text: str) -> bool:
    """Return whether a text is a name from code or a title: mostly letters, as in words."""
    letter_count = sum(map(len, _LETTERS.findall(text)))
    if letter_count < _MIN_LETTER_SHARE * sum(map(len, _ALPHANUMERICS.findall(text))):
        return False
    pair_count, score = _score_pairs(text)
    if _SNAKE_CASE.fullmatch(text) and score > _MIN_SNAKE_CASE_SCORE:
        return True
    if len(_DIGIT_CHANGE.findall(text)) >= _MAX_CHANGES:
        return False
    for size, min_score in _MIN_NAME_SCORES:
        if pair_count >= size:
            return score >= min_score
    return False
