"""The judges that rules name: each says whether what a pattern found is really what the rule is about."""

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from open_token.passes._candidate import Candidate
from open_token.passes._names import is_harmless, is_telling
from open_token.passes._values import (
    classes,
    entropy,
    is_camel_case,
    is_digest,
    is_key,
    is_password,
    is_placeholder,
    is_random,
    is_reference,
    is_sentence,
    is_uuid,
    is_words,
)

_SURE_LENGTH = 20
_CODE_AFTER = re.compile(r"\s*[(\[{]|\s*\?\?|\s*\|\|")


def _token(found: Candidate) -> bool:
    """Anything but a placeholder or a name from code that begins like a token."""
    return not is_placeholder(found.value) and not is_camel_case(found.value.partition("_")[2])


def _random(found: Candidate) -> bool:
    return is_random(found.value)


def _near_token(found: Candidate) -> bool:
    if is_digest(found.value) or is_uuid(found.value):
        return is_telling(found.before) and not is_harmless(found.before) and _token(found)
    return is_random(found.value) and not is_harmless(found.before)


def _private_key(found: Candidate) -> bool:
    body = re.sub(r"-----[A-Z0-9 ]+-----|-----END.*|\\[nrt]|\s", "", found.value)
    return len(body) >= 24 and len(set(body)) > 8


def _jwt(found: Candidate) -> bool:
    """The first part is a JSON object that names an algorithm."""
    head = found.value.split(".")[0]
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and ("alg" in header or "typ" in header or "enc" in header or "kid" in header)


def _aws_secret(found: Candidate) -> bool:
    value = found.value
    return found.after[:1] not in ("/", "+", "=") and classes(value) >= 3 and entropy(value) >= 3.8 and _token(found)


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
    return not re.fullmatch(r"[A-Z][A-Z_]+|[$%{<*].*", value) and not re.fullmatch(r"\d{1,5}(?:[,/?].*)?", value)


def _query_secret(found: Candidate) -> bool:
    return is_key(found.value) or (len(found.value) >= 8 and is_random(found.value))


def _auth_value(found: Candidate) -> bool:
    value = found.value.rstrip(".:")
    if is_placeholder(value) or is_reference(value) or is_words(value) or len(value) < 8:
        return False
    return bool(re.search("[0-9]", value)) or (len(value) >= 20 and entropy(value) >= 3.5 and classes(value) >= 2)


def _basic_auth(found: Candidate) -> bool:
    """base64 of a name and a password."""
    try:
        text = base64.b64decode(found.value + "=" * (-len(found.value) % 4)).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in text and text.isprintable() and not is_placeholder(text.split(":", 1)[1])


def _cookie(found: Candidate) -> bool:
    values = [part.partition("=")[2] or part for part in found.value.split(";")]
    return any(len(value) >= 8 and is_random(value) for value in values)


def _session(found: Candidate) -> bool:
    return is_random(found.value) and not is_uuid(found.value)


def _argument(found: Candidate) -> bool:
    value = found.value
    if value.lower() in _WEAK or is_placeholder(value) or is_reference(value) or found.after.startswith(("(", "[")):
        return False
    return not is_words(value) and (len(value) >= 6 or classes(value) >= 2) and classes(value) >= 2


def _password(found: Candidate) -> bool:
    return (
        is_password(found.value)
        and not _CODE_AFTER.match(found.after)
        and not found.before.rstrip().endswith(("==", "!="))
    )


def _environment_password(found: Candidate) -> bool:
    """A password in the form of an environment file may be made of words: nothing else stands there."""
    value = found.value
    return not (value.lower() in _WEAK or is_placeholder(value) or is_reference(value) or value.isupper())


def _named_password(found: Candidate) -> bool:
    """Under a key for it even a plain word may be the password, but not a label or a sentence."""
    value = found.value
    if len(value) > 256 or is_placeholder(value) or is_reference(value) or is_sentence(value):
        return False
    return value.lower() not in _WEAK and not re.search(
        "pass|kennwort|required|string|optional|secret", value, re.IGNORECASE
    )


def _named_secret(found: Candidate) -> bool:
    value = found.value
    if is_placeholder(value) or is_reference(value) or is_words(value) or is_harmless(found.before):
        return False
    if is_sentence(value):
        return False
    return entropy(value) >= 1.9 and (classes(value) >= 2 or len(value) >= 24)


def _assigned_secret(found: Candidate) -> bool:
    value = found.value
    if not is_key(value) or _CODE_AFTER.match(found.after) or is_harmless(found.before):
        return False
    if is_digest(value) or is_uuid(value) or len(value) < _SURE_LENGTH:
        return is_telling(found.before)
    return True


def _spaced_secret(found: Candidate) -> bool:
    value = found.value
    return is_key(value) and entropy(value) >= 3.3 and not is_harmless(found.before)


def _any(found: Candidate) -> bool:
    return True


VALIDATORS: dict[str, Callable[[Candidate], bool]] = {
    "any": _any,
    "token": _token,
    "random": _random,
    "near_token": _near_token,
    "private_key": _private_key,
    "jwt": _jwt,
    "aws_secret": _aws_secret,
    "url_password": _url_password,
    "query_secret": _query_secret,
    "auth_value": _auth_value,
    "basic_auth": _basic_auth,
    "cookie": _cookie,
    "session": _session,
    "argument": _argument,
    "password": _password,
    "environment_password": _environment_password,
    "named_password": _named_password,
    "named_secret": _named_secret,
    "assigned_secret": _assigned_secret,
    "spaced_secret": _spaced_secret,
}
