"""Tells words from letters drawn by lot, by how often one letter follows another in what people
write."""

import functools
import re

from open_token.passes._late import late

# For each pair of letters, from aa to zz: 0 never seen to 9 often, counted over the words of
# program texts.
_PAIRS = (
    "05661250503767050868433340745472327618437406647001627043721750664282064752103074359410811534630564621130"
    "62674541302657353877143630614477219006337317556110406243924670064653077463101281249212702443810546500041"
    "54655550001669750577050305724383226253237524538232426245945270163554247451603172359311802723730165520061"
    "85249201702453770254500030716775816044246302784400203466244040466856086664520082348323602713761856512050"
    "33242212321425134553923211725593507034547305764320505163833670354366137862304072438307800443640765512151"
    "56546440500768460777100100831093318001436303221321118345741680042673276312430064747524701541580458221443"
    "4454653260066758057734514362439313711453621333312133"
)
_NEVER, _STEP = -4.5, 7.5 / 9
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RUN = late("[a-z]{2,}")
_LETTER_RUN, _ALNUM_RUN = re.compile("[A-Za-z]+"), re.compile("[0-9A-Za-z]+")
# Several short parts between underscores, as constants and types of libraries are called:
# X509_pubkey_st.
_IN_PARTS = late(
    "[A-Za-z]{1,12}[0-9]{0,4}[A-Za-z]{0,2}(?:_[A-Za-z]{1,12}[0-9]{0,4}[A-Za-z]{0,2}){2,}"
)
# Names have a number or two; letters and digits that take turns are drawn by lot.
_CHANGE, _MOST_CHANGES = re.compile("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])"), 7
_SURE, _MOST, _LEAST_IN_PARTS = 12, 0.6, -0.6
# The more letters there are, the surer it can be told: less wordy than this is no word.
_LEAST = ((24, -0.5), (16, -0.6), (_SURE, -0.8))
# With numbers in it, a name must be wordier than chance: by the number of pairs of letters.
_LEAST_NAMED = ((24, -0.1), (16, 0.1), (10, 0.3), (6, 0.5))


def wordiness(text: str) -> float:
    """Above 0: letters follow one another as in words; about -1.5: as if drawn by lot; 0 without
    pairs of letters."""
    return _measured(text)[1]


def _measured(text: str) -> tuple[int, float]:
    """How many pairs of letters there are, and how usual they are on the whole."""
    levels = _levels()
    total, count = 0.0, 0
    for run in _RUN.findall(text.lower()):
        total += sum(map(levels.__getitem__, map(str.__add__, run, run[1:])))
        count += len(run) - 1
    return count, total / count if count else 0.0


@functools.cache
def _levels() -> dict[str, float]:
    pairs = [first + second for first in _LETTERS for second in _LETTERS]
    return {pair: int(level) * _STEP + _NEVER for pair, level in zip(pairs, _PAIRS, strict=True)}


def is_written(letters: str) -> bool:
    """Letters without anything between them that may be words; the more there are, the surer it can
    be told."""
    least = next((least for size, least in _LEAST if len(letters) >= size), None)
    return least is None or wordiness(letters) > least


def is_identifier(text: str) -> bool:
    """A name from code or a title of something: mostly letters, and these as in words; numbers may
    stand between."""
    letters = sum(map(len, _LETTER_RUN.findall(text)))
    if letters < _MOST * sum(map(len, _ALNUM_RUN.findall(text))):
        return False
    pairs, level = _measured(text)
    if _IN_PARTS.fullmatch(text) and level > _LEAST_IN_PARTS:
        return True
    if len(_CHANGE.findall(text)) >= _MOST_CHANGES:
        return False
    least = next((least for size, least in _LEAST_NAMED if pairs >= size), None)
    return least is not None and level >= least
