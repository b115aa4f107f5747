"""The common parts of patterns for street addresses: names, units of a house, towns, and what
follows a street."""

_CAPITAL = r"(?:[A-Z]|[\xc3-\xd4][\x80-\xbf])"
_LETTERS = r"[A-Za-z\x80-\xff'.-]*"
_NAME = _CAPITAL + _LETTERS
_NUMBER = r"[0-9]{1,5}[A-Za-z]?(?:[/-][0-9]{1,4}[A-Za-z]?)?"
_GAP = r"(?:[ ,]{1,3}\n?[ ,]{0,8}|\n[ ,]{0,8})"
_UNIT = (
    r"(?:(?:Apt|APT|apt|Apartment|Suite|SUITE|suite|Ste|Unit|Floor|Flat|Room|Apto|Wohnung|Piso|Int|Kv|кв)\b\.?|#) ?"
    r"[0-9A-Za-z-]{1,6}\b"
)
_OF = "de|del|do|da|la|le|les|en|an|am|im|op|na|nad|pod|u|v|sur|sous|der|den|di|of"
_TOWN = rf"{_NAME}(?:[ -](?:(?:{_OF}) ){{0,2}}{_NAME}){{0,3}}(?: \({_NAME}\))?"
_POST_CODE = (
    r"(?:(?:[A-Z]{2} )?[0-9]{3,6}(?:-[0-9]{3,4})?|[A-Z]{1,2}[0-9][0-9A-Z]? [0-9][A-Z]{2}|"
    r"(?:[A-Z]{2} )?[A-Z][0-9][A-Z] [0-9][A-Z][0-9])\b"
)
_WITH_UNIT = rf"(?:{_GAP}{_UNIT}){{1,2}}(?:{_GAP}{_TOWN}){{0,3}}(?:{_GAP}{_POST_CODE})?"
_WITH_CODE = rf"(?:{_GAP}{_TOWN}){{1,4}}{_GAP}{_POST_CODE}(?:{_GAP}{_TOWN})?"
_CODE_FIRST = rf"{_GAP}[0-9]{{4,5}} {_TOWN}(?:, ?{_TOWN})?"
_WITH_TOWN = rf"(?:, ?(?:[0-9]{{4,6}} )?{_TOWN}){{1,2}}"

ADDRESS_FORMS = {
    "{CAPITAL}": _CAPITAL,
    "{NAME}": _NAME,
    "{HOUSE}": _NUMBER,
    "{UNIT}": _UNIT,
    "{GAP}": _GAP,
    "{TOWN}": _TOWN,
    "{REST}": rf"(?:{_WITH_UNIT}|{_CODE_FIRST}|{_WITH_CODE}|{_WITH_TOWN})?",
}
"""Bytes, not letters, are matched: what is no ASCII has two bytes or more, and the first hints at a
capital."""
