"""Tells passwords: behind a name, in an address, given to a command."""

import re
from collections.abc import Callable

from open_token.passes._candidate import Candidate
from open_token.passes._late import late
from open_token.passes._names import is_harmless
from open_token.passes._values import (
    classes,
    has_signs,
    is_code,
    is_likely_key,
    is_name,
    is_password,
    is_placeholder,
    is_reference,
    is_sentence,
    is_stand_in,
    is_words,
)

CODE_AFTER = late(r"\s*[(\[{]|\s*\?\?|\s*\|\|")
QUOTES = ('"', "'", "`")
_OPTION_SIGNS, _CLOSING = "-@[", "]},.`’”»:"
_ANYBODY, _LEAST_OF_ANYBODY = ("user", "username"), 12
# What stands behind a comma, a bracket or a comparison need not belong to the name before it.
_IN_CODE = late(r"(?:[!=]=|[,(])[ \t]*[brufBRUF@]?[\"'`]*$")
_CONSTANT = late(r"[A-Z]_?(?:PASSWORD|PASSWD|PWD)[ \t\"']+$")
_LEAST_BARE = 8
_LETTER_AND_DIGIT = late(r"^(?=.*[A-Za-z])(?=.*[0-9])[^._/:-]*$")
_NO_LOGIN = late(r"[^:]*(?:::|[\[\]()},<>])")
_WEB_CLIENT = late(r"\b(?:curl|wget|https?)\b", re.IGNORECASE)
_OF_A_PATH = late(r"(?:join|Path|open|dirname|resolve)\([^()]*$")
_WEAK = {
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "token",
    "user",
    "username",
    "root",
    "test",
    "guest",
    "postgres",
    "admin",
}


def _url_password(found: Candidate) -> bool:
    value = found.value
    if value.lower() in _WEAK or is_placeholder(value) or is_reference(value):
        return False
    return not re.fullmatch(r"[A-Z][A-Z_]+|[$%{<*].*", value) and not re.fullmatch(
        r"\d{1,5}(?:[,/?].*)?", value
    )


def _login(found: Candidate) -> bool:
    """A name and a password behind an option; other tools have that option too, for two plain words
    or numbers."""
    name, _, behind = found.value.partition(":")
    name, password = name.strip("\\\"'{"), behind.strip("\\\"'{}")
    is_anybody = name.lower() in _ANYBODY
    if _NO_LOGIN.match(found.value) or not _login_password(password):
        return False
    if is_stand_in(behind if is_anybody else found.value):
        return False
    if is_anybody:
        return len(password) >= _LEAST_OF_ANYBODY and is_likely_key(password)
    if _WEB_CLIENT.search(found.before):
        return True
    return not is_reference(name) and (is_likely_key(password) or classes(password) >= 3)


def _lone_login(found: Candidate) -> bool:
    """A key in the place of the name, with no password behind it."""
    value = found.value
    return is_likely_key(value) or (
        classes(value) >= 3 and is_password(value) and not is_name(value)
    )


def _login_password(password: str) -> bool:
    if (
        password.lower() in _WEAK
        or is_reference(password)
        or is_placeholder(password)
        or "/" in password[:2]
    ):
        return False
    return len(password) >= 3 and not re.fullmatch(r"[A-Z][A-Z_]+|[0-9]{1,6}", password)


def _login_name(found: Candidate) -> bool:
    value = found.value
    return not (is_placeholder(value) or is_reference(value) or re.fullmatch(r"[$%{<*@].*", value))


def _argument(found: Candidate) -> bool:
    value = found.value.rstrip(_CLOSING)
    if is_words(value.lstrip(_OPTION_SIGNS)) or is_harmless(found.before):
        return False
    if (
        value.lower() in _WEAK
        or is_placeholder(value)
        or is_reference(value)
        or found.after.startswith(("(", "["))
    ):
        return False
    if (value.startswith("-") and found.before[-1:] != "=") or is_code(value):
        return False
    return classes(value) >= 2


def _password(found: Candidate) -> bool:
    value = found.value.strip("_|")
    if (
        value.startswith("//")
        or ")." in value
        or not is_password(value)
        or CODE_AFTER.match(found.after)
    ):
        return False
    if (
        len(value) < _LEAST_BARE
        and found.before[-1:] not in QUOTES
        and not _is_short_password(found)
    ):
        return False
    if not _IN_CODE.search(found.before):
        return True
    if (
        found.before[-1:] not in QUOTES
        or len(value) < 8
        or is_name(value)
        or _OF_A_PATH.search(found.before)
    ):
        return False
    return has_signs(value) or classes(value) >= 3


def _is_short_password(found: Candidate) -> bool:
    """Few letters without quotes are a password only if no name, number or place in a template
    looks like them."""
    return found.before[-1:] != "{" and _LETTER_AND_DIGIT.search(found.value) is not None


def _compared(found: Candidate) -> bool:
    value = found.value
    return (
        is_password(value)
        and not is_name(value)
        and not is_code(value)
        and (has_signs(value) or classes(value) >= 3)
    )


def _spoken_password(found: Candidate) -> bool:
    return (
        is_password(found.value) and not CODE_AFTER.match(found.after) and not is_name(found.value)
    )


def _spaced_password(found: Candidate) -> bool:
    """In a sentence only what no word looks like; behind a name in capitals, as in a Dockerfile,
    any password."""
    value = found.value.rstrip(".:!?") if found.before[-1:] not in QUOTES else found.value
    if not is_password(value) or is_name(value) or is_code(value) or CODE_AFTER.match(found.after):
        return False
    return classes(value) >= 3 or bool(_CONSTANT.search(found.before))


def _environment_password(found: Candidate) -> bool:
    """A password in the form of an environment file may be made of words: nothing else stands
    there."""
    value = found.value.rstrip(",")
    return not (
        value.lower() in _WEAK or is_placeholder(value) or is_reference(value) or value.isupper()
    )


def _named_password(found: Candidate) -> bool:
    """Under a key for it even a plain word may be the password, but not a label or a sentence."""
    value = found.value
    if len(value) > 256 or is_placeholder(value) or is_reference(value) or is_sentence(value):
        return False
    return value.lower() not in _WEAK and not re.search(
        "pass|kennwort|required|string|optional|secret", value, re.IGNORECASE
    )


PASSWORDS: dict[str, Callable[[Candidate], bool]] = {
    "url_password": _url_password,
    "login": _login,
    "lone_login": _lone_login,
    "login_name": _login_name,
    "argument": _argument,
    "password": _password,
    "compared": _compared,
    "spoken_password": _spoken_password,
    "spaced_password": _spaced_password,
    "environment_password": _environment_password,
    "named_password": _named_password,
}
