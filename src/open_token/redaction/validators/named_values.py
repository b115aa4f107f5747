"""Judge a value with the name that a structure gives to it, whatever the structure is."""

import functools

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.validators import Candidate
from open_token.redaction.validators.character_model import measure_randomness
from open_token.redaction.validators.key_names import is_harmless_name, is_secret_name
from open_token.redaction.validators.passwords import WEAK_PASSWORDS
from open_token.redaction.validators.values import (
    count_character_classes,
    is_camel_case,
    is_code,
    is_digest,
    is_filler,
    is_integrity_hash,
    is_key,
    is_likely_key,
    is_name,
    is_password,
    is_placeholder,
    is_reference,
    is_sentence,
    is_uuid,
    is_words,
)

_PASSWORD_NAME = lazy_compile(
    r"(?i)(?:passw(?:or)?d|passwort|passphrase|passcode|pwd|pass|psk|pre-shared-key|kennwort|"
    r"contraseña|contrasena|senha|mot_?de_?passe|wachtwoord|hasło|haslo|heslo|lösenord|пароль|"
    r"密码|密碼|パスワード|비밀번호)"
    r"[_-]?(?:value|plain|text|raw|[0-9]{1,2})?$"
)
# Labels of buttons and of messages end with the same words: "resetPassword", "wrong_password".
_LABEL_NAME = lazy_compile(
    r"(?i)(?:forgot|forgotten|reset|change|confirm|show|hide|enter|invalid|wrong|missing|update|"
    r"verify|create|set|has|is|use|uses|using|require|requires|need|no|with|without|repeat|retype|"
    r"old|weak|strong|bad|incorrect|generate|hash|encrypt|decrypt|check|validate|compare|get|ask|"
    r"prompt|email_?or|by|your|type)[_ -]?"
    r"(?:new[_-]?|old[_-]?|user[_-]?|the[_-]?|my[_-]?)?(?:pass|pwd)|nopass"
)
_LABEL = lazy_compile(
    r"(?i)pass|kennwort|required|string|optional|secret|varchar|hidden|prompt|plain|encrypted|"
    r"hashed|^(?:yes|no|true|false|none|null|on|off|[-+]?[0-9]{1,3}|[0-9]+(?:\.[0-9]+)+|[-*•✓✗.]+)$"
)
_MIN_PASSWORD = 4
_MAX_PASSWORD = 256
_MIN_RANDOMNESS = 2.0
_SURELY_RANDOM = 3.0
_MIN_RANDOM = 12
_MIN_LINK = 16
_CODE_NAME = lazy_compile(r"(?i)(?:otp|pin|one_?time_?(?:code|password))$")
_DIGIT = lazy_compile("[0-9]")
_CODE = lazy_compile("[0-9]{4,10}")
_CONTAINERS_OF_LINKS = ("link", "path", "cookie")


@functools.cache
def _load_dictionary() -> frozenset[str]:
    from open_token.redaction.person_names.name_lists import load_common_words

    return load_common_words() | WEAK_PASSWORDS


def is_structured_secret(candidate: Candidate) -> bool:
    """Accept a value by its name, or by the name of what contains it if it is random, too."""
    value = candidate.value
    container, _, name = candidate.before.rstrip("\x01").rpartition(" > ")
    if len(value) < _MIN_PASSWORD or is_filler(value) or is_reference(value):
        return False
    if container in _CONTAINERS_OF_LINKS:
        return _is_link_secret(container, name, value)
    if container == "list":
        return is_password(value) and _is_random(value)
    if _PASSWORD_NAME.search(name):
        return _is_structured_password(name, value)
    assignment = f"{name}="
    if is_harmless_name(assignment) or is_words(value) or is_sentence(value):
        return False
    if container:
        return _is_random(value) or (is_password(value) and count_character_classes(value) >= 4)
    if not is_secret_name(assignment):
        is_sum = is_digest(value.rpartition("-")[2]) or is_uuid(value)
        if is_sum or len(value) < _MIN_LINK or measure_randomness(value) < _SURELY_RANDOM:
            return False
        return _is_random(value)
    return is_likely_key(value)


def is_password_name(candidate: Candidate) -> bool:
    """Return whether the name that a structure gives to a value is that of a password."""
    return _PASSWORD_NAME.search(candidate.before.rstrip("\x01")) is not None


def _is_structured_password(name: str, value: str) -> bool:
    """Accept even a plain word, but no label, no name of a type and no word of the dictionary."""
    if len(value) > _MAX_PASSWORD or is_placeholder(value) or is_code(value):
        return False
    if _LABEL.search(value):
        return False
    if _LABEL_NAME.search(name) and not _DIGIT.search(value):
        return False
    is_variable = is_camel_case(value) or ("_" in value and is_words(value))
    if is_sentence(value) or is_variable:
        return False
    return value.lower() not in _load_dictionary()


def _is_link_secret(container: str, name: str, value: str) -> bool:
    if container == "link" and _CODE_NAME.search(name):
        return _CODE.fullmatch(value) is not None
    if container == "link" and _PASSWORD_NAME.search(name):
        return _is_structured_password(name, value)
    if is_harmless_name(f"{name}="):
        return False
    if is_integrity_hash(value) or len(value) < _MIN_LINK:
        return False
    return _is_random(value)


def _is_random(value: str) -> bool:
    """Return whether a value looks drawn by chance, whatever its name is."""
    if is_uuid(value) or is_digest(value):
        return not is_placeholder(value)
    if is_placeholder(value) or not _DIGIT.search(value) or len(value) < _MIN_RANDOM:
        return False
    randomness = measure_randomness(value)
    if randomness >= _SURELY_RANDOM and count_character_classes(value) >= 3:
        return True
    return randomness >= _MIN_RANDOMNESS and is_key(value) and not is_name(value)
