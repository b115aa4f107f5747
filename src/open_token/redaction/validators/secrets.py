"""Validators of the rules for secrets."""

import base64
import binascii
import re

import msgspec

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.validators import Candidate, Validator
from open_token.redaction.validators.bigrams import measure_wordiness
from open_token.redaction.validators.key_names import find_name, is_harmless_name, is_secret_name
from open_token.redaction.validators.named_values import is_structured_secret
from open_token.redaction.validators.near_words import is_near_password, is_near_secret
from open_token.redaction.validators.passwords import CODE_AFTER, PASSWORDS, QUOTES
from open_token.redaction.validators.values import (
    compute_entropy,
    count_character_classes,
    has_symbols,
    is_base64,
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
    is_practice_value,
    is_random,
    is_reference,
    is_sentence,
    is_uuid,
    is_words,
)
from open_token.redaction.validators.wallets import is_seed_phrase, is_wif

_LONG = 20
# The rest is omitted or to be filled in; closing tags and line breaks in HTML do not say so.
_OMITTED_AFTER = lazy_compile(r"###|\*\*\*|\.\.\.|…|<(?!/|[a-z]{1,6}[ />])")
_PREFIX_LENGTH = 6
_FEW_CHARACTERS = 3
# A hash or a file in base64, in which some characters look like the prefix of a token.
_HASH_BEFORE = lazy_compile(
    r"\b(?:sha(?:1|224|256|384|512)|md5)[=:-][0-9A-Za-z+/_-]{0,80}$", re.IGNORECASE
)
_SUM_BEFORE = lazy_compile(r"\bh1:$")
_BASE64_BEFORE = lazy_compile(r"[0-9A-Za-z+/]{24,}[+/]$")
# A signing key is identified by its fingerprint.
_FINGERPRINT = lazy_compile(r"(?:0x)?(?:[0-9A-F]{16}|[0-9A-F]{40})")
_SIGNING_KEY_BEFORE = lazy_compile(
    r"(?:(?:[pg]pg:?|gnupg|signing|upstream|release|archive|using|[rd]sa|e[cd]dsa|elg|[’']s)[ _-]key|key ?id):?[ \t]+$",
    re.IGNORECASE,
)
_MAX_CHECKED_LENGTH = 200
_MIXED = lazy_compile(r"(?=.*[a-z])(?=.*[A-Z]).*[0-9]")
_JOSE_FIELDS = frozenset(
    """alg typ enc kid cty zip apu apv epk iv tag p2s p2c jku jwk x5u x5c x5t x5t#S256 crit b64 ppt url nonce svt iss
    sub aud key_ops kty""".split()
)
# Names of long and random values that are no secrets.
_PUBLIC_NAME = lazy_compile(
    r"(?:cid|kid|nonce|challenge|verifier|cursor|addr|address|txid|tx|wallet|pub|sig|seed|data|content|contents|blob|base64|b64|"
    r"img|src|class|classname|body|payload|text|string|expected|actual|output|input|encoded|bytes|raw|ipfs|fid|slug|"
    r"anchor|marker|after|before|offset|query|cert|crt|pem|der|list|fbid|story_fbid)[ ]?=[ ]?[\"']?$",
    re.IGNORECASE,
)
_PARAMETER_BEFORE = lazy_compile(r"[?&][\w.-]{1,40}=$")
_ANY_DIGIT = lazy_compile("[0-9]")
_LONE_NAME = lazy_compile("[0-9A-Za-z]+")
# The token in the badge of a README is public.
_BADGE_BEFORE = lazy_compile(r"\.svg\?(?:[\w=&-]*&)?\w+=$")
_FILE_NAME_BEFORE = lazy_compile(r"\w\.[a-z]\w{0,4}[\"'][ \t]*:[ \t]*[\"']$")
_BASE64_ZEROS = "AA"
_HEX = lazy_compile("[0-9A-Fa-f]+")
# Tokens of any service whose prefix says what they are: `sk`, `pat` or `secret`, then random
# characters.
_TOKEN_WORD = lazy_compile(r"(?i:sk|pat|apikey|secret|token|key|api)[_-]")
_MIXED_WITH_DIGITS = lazy_compile(r"(?=.*[a-z])(?=.*[A-Z])(?:.*[0-9]){2}")
_MIN_DIGITS = 2
_ASSIGNMENT_AFTER = lazy_compile(r"[ \t]*(?:=(?!=)|:=)[ \t]*[^\s=]")
# Of one case, they must be long and alternate with digits, as in hexadecimal.
_LONG_RUN = lazy_compile("[a-z0-9]{28,}|[A-Z0-9]{28,}")
_DIGIT_CHANGE = lazy_compile("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_MIN_CHANGES = 7
_MAX_WORDINESS = -0.5
_MAX_WORDINESS_WITH_CHANGES = 0.0
_MIN_TOKEN_ENTROPY = 3.3
_MAX_TOKEN_LENGTH = 400


def _is_token(candidate: Candidate) -> bool:
    """Accept anything but a placeholder or a name from code: the prefix alone says much."""
    value = candidate.value
    if is_filler(value) or _OMITTED_AFTER.match(candidate.after):
        return False
    if len(set(value[_PREFIX_LENGTH:])) <= _FEW_CHARACTERS:
        return False
    rest = value.partition("_")[2]
    if 2 * len(rest) > len(value) and is_camel_case(rest):
        return False
    return not _is_inside_data(candidate.before)


def _is_inside_data(before: str) -> bool:
    """Return whether a hash or base64 precedes, in which any characters may follow."""
    run = _BASE64_BEFORE.search(before)
    if run and is_base64(run[0]):
        return True
    return _HASH_BEFORE.search(before) is not None


def _is_random(candidate: Candidate) -> bool:
    return is_random(candidate.value) and not _is_inside_data(candidate.before)


def _is_mixed(candidate: Candidate) -> bool:
    """Accept random values of both cases and digits, which hashes and names with numbers lack."""
    if not _is_random(candidate) or not _MIXED.match(candidate.value):
        return False
    return not is_name(candidate.value)


def _is_drawn(candidate: Candidate) -> bool:
    """Accept mixed values, but neither zero bytes in base64 nor hexadecimal digits."""
    value = candidate.value
    if not _is_mixed(candidate) or value.count(_BASE64_ZEROS) > len(value) // _LONG:
        return False
    return not _HEX.fullmatch(value)


def _is_bearer_of_as(candidate: Candidate) -> bool:
    return is_random(candidate.value.lstrip("A"))


def _is_near_token(candidate: Candidate) -> bool:
    """Accept a value of a service's form after its name; a hash or a UUID only if the name says
    that it is a secret."""
    value, before, after = candidate
    if is_harmless_name(before) or is_filler(value) or is_name(value):
        return False
    if is_integrity_hash(value) or _OMITTED_AFTER.match(after):
        return False
    if is_digest(value) or is_uuid(value) or is_practice_value(value):
        return is_secret_name(before)
    return is_random(value) or is_likely_key(value)


def _is_service_key(candidate: Candidate) -> bool:
    """Accept a value after the name of a service that issues keys; if the name says more, it must
    be about secrets."""
    value, before, after = candidate
    if _ANY_DIGIT.search(value) is None:  # the cheapest test, and most words have none
        return False
    if is_harmless_name(before) or is_filler(value) or is_reference(value) or is_name(value):
        return False
    if _OMITTED_AFTER.match(after):
        return False
    if is_secret_name(before):
        return is_likely_key(value) or is_practice_value(value)
    if _LONE_NAME.fullmatch(find_name(before)) is None:
        return False
    return len(value) >= _LONG and is_likely_key(value)


def _is_private_key(candidate: Candidate) -> bool:
    body = re.sub(r"-----[A-Z0-9 +]+-----|-----END.*|\\[nrt]|\s", "", candidate.value)
    return len(body) >= 24 and len(set(body)) > 8


def _is_jwt(candidate: Candidate) -> bool:
    """Accept a token whose first part is a JSON object with a field of a JOSE header."""
    encoded = candidate.value.split(".")[0]
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and bool(_JOSE_FIELDS & header.keys())


def _is_aws_secret(candidate: Candidate) -> bool:
    value = candidate.value
    if candidate.after[:1] in ("/", "+", "="):
        return False
    if count_character_classes(value) < 3 or compute_entropy(value) < 3.8:
        return False
    return _is_token(candidate)


def _is_auth_value(candidate: Candidate) -> bool:
    value = candidate.value.rstrip(".:")
    if is_placeholder(value) or is_reference(value) or is_words(value) or len(value) < 8:
        return False
    if is_harmless_name(candidate.before):
        return False
    if value.startswith("AWS4-HMAC") or candidate.after.startswith("("):
        return False
    if _ANY_DIGIT.search(value):
        return True
    if len(value) < _LONG:
        return False
    return compute_entropy(value) >= 3.5 and count_character_classes(value) >= 2


def _is_basic_auth(candidate: Candidate) -> bool:
    """Accept a user name and a password in base64."""
    value = candidate.value
    try:
        text = base64.b64decode(value + "=" * (-len(value) % 4)).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in text and text.isprintable() and not is_placeholder(text.split(":", 1)[1])


def _is_cookie(candidate: Candidate) -> bool:
    values = [part.partition("=")[2] or part for part in candidate.value.split(";")]
    return any(len(value) >= 8 and is_random(value) for value in values)


def _is_session(candidate: Candidate) -> bool:
    value = candidate.value
    if candidate.after.startswith("("):
        return False
    return is_random(value) and not is_uuid(value) and not is_reference(value)


def _is_named_secret(candidate: Candidate) -> bool:
    value = candidate.value
    if is_placeholder(value) or is_reference(value) or is_words(value):
        return False
    if is_harmless_name(candidate.before) or is_sentence(value):
        return False
    if compute_entropy(value) < 1.9:
        return False
    return count_character_classes(value) >= 2 or len(value) >= 24


def _is_assigned_secret(candidate: Candidate) -> bool:
    value, before, after = candidate
    if CODE_AFTER.match(after) or is_harmless_name(before) or _BADGE_BEFORE.search(before):
        return False
    if _is_fingerprint(value, before):
        return False
    if is_digest(value) and _FILE_NAME_BEFORE.search(before):
        return False
    if is_secret_name(before):
        if is_likely_key(value):
            return True
        is_quoted = before[-1:] in QUOTES
        return is_quoted and has_symbols(value) and is_password(value) and not is_code(value)
    if len(value) < _LONG or not is_key(value) or _SUM_BEFORE.search(before):
        return False
    # The key of a cache ends with a digest: `npm-` and the hash of a file.
    return not is_digest(value.rpartition("-")[2]) and not is_uuid(value)


def _is_spaced_secret(candidate: Candidate) -> bool:
    """Accept a value after a name and a space or `is`, where mostly words follow."""
    value = candidate.value.rstrip(".:")
    before = candidate.before
    if is_harmless_name(before) or len(value) < 16 or candidate.after.startswith("("):
        return False
    if is_secret_name(before):
        if not is_likely_key(value):
            return False
        if len(value) < _LONG and not is_key(value) and not is_practice_value(value):
            return False
    else:
        if len(value) < _LONG or not is_key(value):
            return False
        if compute_entropy(value) < 3.3 or is_digest(value):
            return False
    return not _is_fingerprint(value, before) and not _is_inside_data(before)


def _is_fingerprint(value: str, before: str) -> bool:
    if _FINGERPRINT.fullmatch(value) is None:
        return False
    return _SIGNING_KEY_BEFORE.search(before) is not None


def _is_glued_secret(candidate: Candidate) -> bool:
    """Accept a value after a name that ends with a word for secrets, even if only a hyphen, a
    point or a space separates the two."""
    value = candidate.value
    assignment = candidate.before.rstrip("-. ") + "="
    if not is_secret_name(assignment) or is_harmless_name(assignment) or is_name(value):
        return False
    if _is_fingerprint(value, candidate.before):
        return False
    if len(_ANY_DIGIT.findall(value[:_MAX_CHECKED_LENGTH])) < _FEW_CHARACTERS:
        return False
    if re.search("[A-Za-z]", value) is None:
        return False
    is_practice = is_practice_value(value) and not is_filler(value)
    if not is_likely_key(value) and not is_uuid(value) and not is_practice:
        return False
    return not _is_inside_data(candidate.before)


def _is_lone_assignment(candidate: Candidate) -> bool:
    """Accept, where no word says that it is a secret, only what is long, mixed and random."""
    value = candidate.value
    if is_harmless_name(candidate.before) or _PUBLIC_NAME.search(candidate.before):
        return False
    # Pages of results and of shops have long parameters to follow people with.
    if _PARAMETER_BEFORE.search(candidate.before):
        return False
    if is_digest(value) or not is_key(value):
        return False
    rarest = min(len(re.findall(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return rarest >= 3 and compute_entropy(value) >= 4.2


def _is_worded_token(candidate: Candidate) -> bool:
    """Accept a random value after a word such as `sk_` or `token-`."""
    value = candidate.value
    # What is assigned to is a name.
    if _ASSIGNMENT_AFTER.match(candidate.after):
        return False
    word = _TOKEN_WORD.search(value)
    # The cheapest test: names have few digits.
    if word is None or len(_ANY_DIGIT.findall(value[:_MAX_TOKEN_LENGTH])) < _MIN_DIGITS:
        return False
    assignment = value[: word.end() - 1] + "="
    tail = value[word.end() :][:_MAX_TOKEN_LENGTH]
    if not is_secret_name(assignment) or is_harmless_name(assignment):
        return False
    if is_placeholder(tail) or is_name(tail) or not _is_random_tail(tail):
        return False
    return not _is_inside_data(candidate.before)


def _is_random_tail(tail: str) -> bool:
    run = _LONG_RUN.search(tail)
    if run and len(_DIGIT_CHANGE.findall(run[0])) >= _MIN_CHANGES:
        return True
    if not _MIXED_WITH_DIGITS.match(tail) or compute_entropy(tail) < _MIN_TOKEN_ENTROPY:
        return False
    has_many_changes = len(_DIGIT_CHANGE.findall(tail)) > _MIN_CHANGES
    max_wordiness = _MAX_WORDINESS_WITH_CHANGES if has_many_changes else _MAX_WORDINESS
    return measure_wordiness(tail) < max_wordiness


VALIDATORS: dict[str, Validator] = {
    **PASSWORDS,
    "any": lambda candidate: True,
    "token": _is_token,
    "random": _is_random,
    "mixed": _is_mixed,
    "drawn": _is_drawn,
    "bearer_of_as": _is_bearer_of_as,
    "near_token": _is_near_token,
    "service_key": _is_service_key,
    "wif": lambda candidate: is_wif(candidate.value),
    "seed": lambda candidate: is_seed_phrase(candidate.value),
    "private_key": _is_private_key,
    "jwt": _is_jwt,
    "aws_secret": _is_aws_secret,
    "auth_value": _is_auth_value,
    "basic_auth": _is_basic_auth,
    "cookie": _is_cookie,
    "session": _is_session,
    "named_secret": _is_named_secret,
    "assigned_secret": _is_assigned_secret,
    "spaced_secret": _is_spaced_secret,
    "glued_secret": _is_glued_secret,
    "lone_assignment": _is_lone_assignment,
    "worded_token": _is_worded_token,
    "structured": is_structured_secret,
    "near_secret": is_near_secret,
    "near_password": is_near_password,
}
