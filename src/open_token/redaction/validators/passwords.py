"""Validators of the rules for passwords: after a name, in a URL, as an argument of a command."""

import re

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.validators import Candidate, Validator
from open_token.redaction.validators.key_names import is_harmless_name
from open_token.redaction.validators.values import (
    count_character_classes,
    has_symbols,
    is_code,
    is_filler,
    is_likely_key,
    is_name,
    is_password,
    is_placeholder,
    is_reference,
    is_sentence,
    is_words,
)

CODE_AFTER = lazy_compile(r"\s*[(\[{]|\s*\?\?|\s*\|\|")
QUOTES = ('"', "'", "`")
_OPTION_CHARACTERS = "-@["
_CLOSING = "]},.`’”»:"
_GENERIC_NAMES = ("user", "username")
_MIN_GENERIC_LENGTH = 12
# What follows a comma, a bracket or a comparison need not belong to the name before it.
_CODE_BEFORE = lazy_compile(r"(?:[!=]=|[,(])[ \t]*[brufBRUF@]?[\"'`]*$")
_MIN_BARE_LENGTH = 8
_LETTER_AND_DIGIT = lazy_compile(r"^(?=.*[A-Za-z])(?=.*[0-9])[^._/:-]*$")
_NOT_LOGIN = lazy_compile(r"[^:]*(?:::|[\[\]()},<>])")
_WEB_CLIENT = lazy_compile(r"\b(?:curl|wget|https?)\b", re.IGNORECASE)
_PATH_CALL_BEFORE = lazy_compile(r"(?:join|Path|open|dirname|resolve)\([^()]*$")
WEAK_PASSWORDS = frozenset(
    """password passwd pass pwd secret token user username root test guest postgres
    admin""".split()
)


def _is_url_password(candidate: Candidate) -> bool:
    value = candidate.value
    if value.lower() in WEAK_PASSWORDS or is_placeholder(value) or is_reference(value):
        return False
    if re.fullmatch(r"[A-Z][A-Z_]+|[$%{<*].*", value):
        return False
    return not re.fullmatch(r"\d{1,5}(?:[,/?].*)?", value)


def _is_login(candidate: Candidate) -> bool:
    """Accept a name and a password after an option that other tools have for plain words, too."""
    name, _, rest = candidate.value.partition(":")
    name = name.strip("\\\"'{")
    password = rest.strip("\\\"'{}")
    if _NOT_LOGIN.match(candidate.value) or not _is_login_password(password):
        return False
    if name.lower() in _GENERIC_NAMES:
        if is_filler(rest) or len(password) < _MIN_GENERIC_LENGTH:
            return False
        return is_likely_key(password)
    if is_filler(candidate.value):
        return False
    if _WEB_CLIENT.search(candidate.before):
        return True
    if is_reference(name):
        return False
    return is_likely_key(password) or count_character_classes(password) >= 3


def _is_lone_login(candidate: Candidate) -> bool:
    """Accept a key in place of the name, without a password."""
    value = candidate.value
    if is_likely_key(value):
        return True
    return count_character_classes(value) >= 3 and is_password(value) and not is_name(value)


def _is_login_password(password: str) -> bool:
    if password.lower() in WEAK_PASSWORDS or "/" in password[:2]:
        return False
    if is_reference(password) or is_placeholder(password):
        return False
    return len(password) >= 3 and not re.fullmatch(r"[A-Z][A-Z_]+|[0-9]{1,6}", password)


def _is_login_name(candidate: Candidate) -> bool:
    value = candidate.value
    if is_placeholder(value) or is_reference(value):
        return False
    return not re.fullmatch(r"[$%{<*@].*", value)


def _is_argument(candidate: Candidate) -> bool:
    value = candidate.value.rstrip(_CLOSING)
    if is_words(value.lstrip(_OPTION_CHARACTERS)) or is_harmless_name(candidate.before):
        return False
    if value.lower() in WEAK_PASSWORDS or is_placeholder(value) or is_reference(value):
        return False
    if candidate.after.startswith(("(", "[")):
        return False
    if value.startswith("-") and candidate.before[-1:] != "=":
        return False
    return not is_code(value) and count_character_classes(value) >= 2


def _is_named_password(candidate: Candidate) -> bool:
    value = candidate.value.strip("_|")
    before = candidate.before
    is_quoted = before[-1:] in QUOTES
    if value.startswith("//") or ")." in value or not is_password(value):
        return False
    if CODE_AFTER.match(candidate.after):
        return False
    if len(value) < _MIN_BARE_LENGTH and not is_quoted and not _is_short_password(candidate):
        return False
    if not _CODE_BEFORE.search(before):
        return True
    if not is_quoted or len(value) < 8 or is_name(value) or _PATH_CALL_BEFORE.search(before):
        return False
    return has_symbols(value) or count_character_classes(value) >= 3


def _is_short_password(candidate: Candidate) -> bool:
    """Accept few characters without quotes only if no name, number or template looks like them."""
    if candidate.before[-1:] == "{":
        return False
    return _LETTER_AND_DIGIT.search(candidate.value) is not None


def _is_compared_password(candidate: Candidate) -> bool:
    value = candidate.value
    if not is_password(value) or is_name(value) or is_code(value):
        return False
    return has_symbols(value) or count_character_classes(value) >= 3


def _is_spoken_password(candidate: Candidate) -> bool:
    if not is_password(candidate.value) or CODE_AFTER.match(candidate.after):
        return False
    return not is_name(candidate.value) or count_character_classes(candidate.value) >= 3


def _is_environment_password(candidate: Candidate) -> bool:
    """Accept even words: in an environment file nothing else has this form."""
    value = candidate.value.rstrip(",")
    if value.lower() in WEAK_PASSWORDS or value.isupper():
        return False
    return not is_placeholder(value) and not is_reference(value)


def _is_keyed_password(candidate: Candidate) -> bool:
    """Accept even a plain word under a key for passwords, but no label and no sentence."""
    value = candidate.value
    if len(value) > 256 or is_placeholder(value) or is_reference(value) or is_sentence(value):
        return False
    if value.lower() in WEAK_PASSWORDS:
        return False
    label = "pass|kennwort|required|string|optional|secret"
    return not re.search(label, value, re.IGNORECASE)


PASSWORDS: dict[str, Validator] = {
    "url_password": _is_url_password,
    "login": _is_login,
    "lone_login": _is_lone_login,
    "login_name": _is_login_name,
    "argument": _is_argument,
    "password": _is_named_password,
    "compared": _is_compared_password,
    "spoken_password": _is_spoken_password,
    "environment_password": _is_environment_password,
    "named_password": _is_keyed_password,
}
