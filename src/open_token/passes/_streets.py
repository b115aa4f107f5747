"""The judges of rules about addresses: a street has a name, and words that every text has are
none."""

import re

from open_token.passes._candidate import Candidate
from open_token.passes._late import late
from open_token.passes._people_lists import plain, words

_WORD = late(r"[^\W\d_][^\W\d_'’-]*")
# Before a number these count or name something that is no house.
_COUNTED = frozenset(
    """figure fig table chapter section step part line page version release build issue ticket task item level
    round player node room game season episode article rule act verse psalm january february march april may
    june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec monday
    tuesday wednesday thursday friday saturday sunday python java node ubuntu debian fedora windows android
    iphone ipad galaxy pixel claude gpt gemini llama opus sonnet haiku chrome firefox safari boeing airbus
    formula world war area route interstate top""".split()
)
_KINDS = frozenset(
    """street st avenue ave road rd boulevard blvd lane ln drive dr court ct way place pl square sq terrace ter
    parkway pkwy highway hwy circle cir close crescent cres north south east west old new great little upper
    lower high main church mill park station king queen victoria bridge hill garden gardens green grove market
    school spring lake river oak pine maple cedar elm walnut cherry chestnut washington lincoln jefferson
    madison jackson first second third""".split()
)
_ROADS = frozenset("street st avenue ave road rd boulevard blvd lane ln drive dr court ct".split())
# A code of the post, or a word for it before it, makes a street of ordinary words.
_CODE = late(r"\b(?:[A-Z]{2} \d{5}|[A-Z]{1,2}\d[0-9A-Z]? \d[A-Z]{2}|[A-Z]\d[A-Z] \d[A-Z]\d)\b")
_TOLD = late(
    r"(?:\b(?:live[sd]?|living|located|based|office|home|ship(?:ped)?|deliver(?:ed)?|sent) (?:at|on|in|to|is)"
    r"|(?:address|addr|street)[_ -]?(?:line)?[_ -]?[12]?[\"']{0,2} ?(?:[:=\x01]|is|was)) ?[\"']{0,2}$",
    re.IGNORECASE,
)
_QUARTER = late(r" (?:[NS][EW]?|[EW])$")
# The Free Software Foundation, in the head of every other file.
_FOUNDATION = late("(?:59|51) (?:Temple|Franklin) (?:Place|St)|675 Mass Ave|31 Milk St")
_FILLERS = frozenset(
    "the more easy simple best new other different separate beta alpha ways way of".split()
)


def is_street(found: Candidate) -> bool:
    """A name that is no word of every day, or one that streets like to have."""
    names = _names(found.value)
    if not names or names[0] in _FILLERS or names[0] in _COUNTED or _FOUNDATION.match(found.value):
        return False
    if _has_name(names) or (len(names) > 1 and all(name in _KINDS for name in names)):
        return True
    return names[-1] in _ROADS and bool(_CODE.search(found.value) or _TOLD.search(found.before))


def is_named_street(found: Candidate) -> bool:
    """Behind a word such as address, where any name will do that is no word."""
    names = _names(found.value)
    if found.before[-1:].isalnum():  # the name goes on, as in addressesOrRanges
        return False
    return bool(names) and names[0] not in _COUNTED and any(name not in words() for name in names)


def is_mail_box(found: Candidate) -> bool:
    """Not the number of a suite of tests."""
    if _FOUNDATION.search(found.before):
        return False
    return not re.search(
        r"(?i)\b(?:test|tests|spec|office|benchmark|cipher)\W+suite ",
        found.before[-24:] + found.value,
    )


def _has_name(names: list[str]) -> bool:
    return any(name not in words() and name not in _KINDS for name in names)


def _names(address: str) -> list[str]:
    """The words of the street alone, which ends with a comma or a line."""
    street = _QUARTER.sub("", re.split("[,\n]", address, maxsplit=1)[0])
    return [plain(word) for word in _WORD.findall(street) if len(word) > 1]
