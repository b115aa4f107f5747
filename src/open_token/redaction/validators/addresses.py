"""Validators of the rules for street addresses: the name of a street is mostly no common word."""

import re

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.person_names.name_lists import load_common_words, strip_accents
from open_token.redaction.validators import Candidate

_WORD = lazy_compile(r"[^\W\d_][^\W\d_'’-]*")
# Before a number, these are not streets.
_COUNTED_THINGS = frozenset(
    """figure fig table chapter section step part line page version release build issue ticket task item level
    round player node room game season episode article rule act verse psalm january february march april may
    june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec monday
    tuesday wednesday thursday friday saturday sunday python java node ubuntu debian fedora windows android
    iphone ipad galaxy pixel claude gpt gemini llama opus sonnet haiku chrome firefox safari boeing airbus
    formula world war area route interstate top""".split()
)
_STREET_WORDS = frozenset(
    """street st avenue ave road rd boulevard blvd lane ln drive dr court ct way place pl square sq terrace ter
    parkway pkwy highway hwy circle cir close crescent cres north south east west old new great little upper
    lower high main church mill park station king queen victoria bridge hill garden gardens green grove market
    school spring lake river oak pine maple cedar elm walnut cherry chestnut washington lincoln jefferson
    madison jackson first second third""".split()
)
_ROAD_WORDS = frozenset(
    "street st avenue ave road rd boulevard blvd lane ln drive dr court ct".split()
)
_YEAR = lazy_compile(r"(?:19|20)\d\d")
# With a postal code, or a word for addresses before it, common words may name a street.
_POSTAL_CODE = lazy_compile(
    r"\b(?:[A-Z]{2} \d{5}|[A-Z]{1,2}\d[0-9A-Z]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d)\b"
)
_ADDRESS_BEFORE = lazy_compile(
    r"(?:\b(?:live[sd]?|living|located|based|office|home|ship(?:ped)?|deliver(?:ed)?|sent) (?:at|on|in|to|is)"
    r"|(?:address|addr|street)[_ -]?(?:line)?[_ -]?[12]?[\"']{0,2} ?(?:[:=\x01]|is|was)) ?[\"']{0,2}$",
    re.IGNORECASE,
)
_DIRECTION = lazy_compile(r" (?:[NS][EW]?|[EW])$")
# The Free Software Foundation, in the license header of many files.
_FOUNDATION = lazy_compile("(?:59|51) (?:Temple|Franklin) (?:Place|St)|675 Mass Ave|31 Milk St")
_NOT_FIRST_WORDS = frozenset(
    "the more easy simple best new other different separate beta alpha ways way of".split()
)


def is_street(candidate: Candidate) -> bool:
    """Accept a name that is no common word, or one that streets often have."""
    address = candidate.value
    names = _list_street_words(address)
    if not names or names[0] in _NOT_FIRST_WORDS or names[0] in _COUNTED_THINGS:
        return False
    if _FOUNDATION.match(address):
        return False
    if any(name not in load_common_words() and name not in _STREET_WORDS for name in names):
        return True
    if len(names) > 1 and all(name in _STREET_WORDS for name in names):
        return True
    if names[-1] not in _ROAD_WORDS:
        return False
    return bool(_POSTAL_CODE.search(address) or _ADDRESS_BEFORE.search(candidate.before))


def is_named_street(candidate: Candidate) -> bool:
    """Accept, after a word such as `address`, any name that is no common word."""
    if candidate.before[-1:].isalnum():  # the word goes on, as in addressesOrRanges
        return False
    names = _list_street_words(candidate.value)
    if not names or names[0] in _COUNTED_THINGS:
        return False
    return any(name not in load_common_words() for name in names)


def is_coded_street(candidate: Candidate) -> bool:
    """Accept a street with number, post code and town, if not all of its words are common."""
    names = [strip_accents(word) for word in _WORD.findall(candidate.value) if len(word) > 2]
    if len(names) < 2 or names[0] in _COUNTED_THINGS or _FOUNDATION.search(candidate.value):
        return False
    rare = [name for name in names if name not in load_common_words()]
    return len(rare) * 3 >= len(names) and not _COUNTED_THINGS.intersection(names)


def is_post_code(candidate: Candidate) -> bool:
    """Reject a year, and a number behind the name of a thing that is counted."""
    value = candidate.value
    if _YEAR.fullmatch(value):
        return False
    names = [strip_accents(word) for word in _WORD.findall(value)]
    return not _COUNTED_THINGS.intersection(names)


def is_mail_box(candidate: Candidate) -> bool:
    """Reject the number of a test suite."""
    if _FOUNDATION.search(candidate.before):
        return False
    suite = r"(?i)\b(?:test|tests|spec|office|benchmark|cipher)\W+suite "
    return not re.search(suite, candidate.before[-24:] + candidate.value)


def _list_street_words(address: str) -> list[str]:
    """Return the words of the street, which ends with a comma or a line."""
    street = _DIRECTION.sub("", re.split("[,\n]", address, maxsplit=1)[0])
    return [strip_accents(word) for word in _WORD.findall(street) if len(word) > 1]
