"""The judges that rules name: each says whether what a pattern found is really what the rule is
about."""

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from open_token.passes._candidate import Candidate
from open_token.passes._late import late
from open_token.passes._names import is_harmless, is_telling, name_of
from open_token.passes._passwords import CODE_AFTER, PASSWORDS, QUOTES
from open_token.passes._values import (
    classes,
    entropy,
    has_signs,
    is_base64,
    is_camel_case,
    is_code,
    is_digest,
    is_drill,
    is_integrity,
    is_key,
    is_likely_key,
    is_name,
    is_password,
    is_placeholder,
    is_random,
    is_reference,
    is_sentence,
    is_stand_in,
    is_uuid,
    is_words,
)
from open_token.passes._wallets import is_seed_phrase, is_stellar_seed, is_wif
from open_token.passes._worded import is_worded_token

_SURE_LENGTH = 20
# The rest is left out, or to be put in; a tag that closes, or makes a line end, says nothing of the
# kind.
_LEFT_OUT = late(r"###|\*\*\*|\.\.\.|…|<(?!/|[a-z]{1,6}[ />])")
_BEGINNING, _FEW = 6, 3
# A hash, or a file as text, in which some letters look like the head of a token.
_HASH_BEFORE = late(r"\b(?:sha(?:1|224|256|384|512)|md5)[=:-][0-9A-Za-z+/_-]{0,80}$", re.IGNORECASE)
_BASE64_BEFORE = late(r"[0-9A-Za-z+/]{24,}[+/]$")
# The key with which somebody signs is told by its fingerprint.
_FINGERPRINT = late(r"(?:0x)?(?:[0-9A-F]{16}|[0-9A-F]{40})")
_SIGNS_WITH = late(
    r"(?:(?:[pg]pg:?|gnupg|signing|upstream|release|archive|using|[rd]sa|e[cd]dsa|elg|[’']s)[ _-]key|key ?id):?[ \t]+$",
    re.IGNORECASE,
)
_PUBLIC_KEY = late(r"PUBLIC KEY-----\s*(?:\\[nr])*$")
_JUDGED = 200
_MIXED = late(r"(?=.*[a-z])(?=.*[A-Z]).*[0-9]")
_JOSE = frozenset(
    """alg typ enc kid cty zip apu apv epk iv tag p2s p2c jku jwk x5u x5c x5t x5t#S256 crit b64 ppt url nonce svt iss
    sub aud key_ops kty""".split()
)
# Names of what is long and odd and yet no secret.
_OPEN_NAME = late(
    r"(?:cid|kid|nonce|challenge|verifier|cursor|addr|address|txid|tx|wallet|pub|sig|seed|data|content|contents|blob|base64|b64|"
    r"img|src|class|classname|body|payload|text|string|expected|actual|output|input|encoded|bytes|raw|ipfs|fid|slug|"
    r"anchor|marker|after|before|offset|query|cert|crt|pem|der|list|fbid|story_fbid)[ ]?=[ ]?[\"']?$",
    re.IGNORECASE,
)
_ANY_DIGIT = late("[0-9]")
_LONE_NAME = late("[0-9A-Za-z]+")
# A badge of a README shows its token to everybody.
_BADGE = late(r"\.svg\?(?:[\w=&-]*&)?\w+=$")
_ABOVE = late(r"[0-9A-Za-z+/=]{40,}(?:\r?\n|\\r\\n|\\n)[ \t]*$")
_NAMED_AS_FILE = late(r"\w\.[a-z]\w{0,4}[\"'][ \t]*:[ \t]*[\"']$")
_ZEROES, _HEX = "AA", late("[0-9A-Fa-f]+")


def _token(found: Candidate) -> bool:
    """Anything but a placeholder or a name from code that begins like a token; the beginning alone
    says much."""
    value = found.value
    if is_stand_in(value) or _LEFT_OUT.match(found.after):
        return False
    rest = value.partition("_")[2]
    is_named = 2 * len(rest) > len(value) and is_camel_case(rest)
    return len(set(value[_BEGINNING:])) > _FEW and not is_named and not _is_inside(found.before)


def _is_inside(before: str) -> bool:
    """What stands before goes on: a hash, or base64, where any letters may come."""
    run = _BASE64_BEFORE.search(before)
    return bool(run and is_base64(run[0])) or _HASH_BEFORE.search(before) is not None


def _random(found: Candidate) -> bool:
    return is_random(found.value) and not _is_inside(found.before)


def _mixed(found: Candidate) -> bool:
    """Random, and of small letters, capitals and digits: a hash or a name with a number is not."""
    return _random(found) and _MIXED.match(found.value) is not None and not is_name(found.value)


def _drawn(found: Candidate) -> bool:
    """Mixed, and neither the zero bytes of a file in base64 nor the digits of one in
    hexadecimal."""
    value = found.value
    return (
        _mixed(found)
        and value.count(_ZEROES) <= len(value) // _SURE_LENGTH
        and not _HEX.fullmatch(value)
    )


def _bearer_of_as(found: Candidate) -> bool:
    return is_random(found.value.lstrip("A"))


def _near_token(found: Candidate) -> bool:
    """A value of the service's own shape behind its name; a hash or a UUID only if the name says it
    is a secret."""
    value, before, after = found
    if (
        is_harmless(before)
        or is_stand_in(value)
        or is_name(value)
        or is_integrity(value)
        or _LEFT_OUT.match(after)
    ):
        return False
    if is_digest(value) or is_uuid(value) or is_drill(value):
        return is_telling(before)
    return is_random(value) or is_likely_key(value)


def _service_key(found: Candidate) -> bool:
    """Behind the name of a service that gives out keys; where more is said than that name, it must
    speak of secrets."""
    value, before, after = found
    if _ANY_DIGIT.search(value) is None:  # the cheapest test of all, and most words have none
        return False
    if (
        is_harmless(before)
        or is_stand_in(value)
        or is_reference(value)
        or is_name(value)
        or _LEFT_OUT.match(after)
    ):
        return False
    if is_telling(before):
        return is_likely_key(value) or is_drill(value)
    is_alone = _LONE_NAME.fullmatch(name_of(before)) is not None
    return is_alone and len(value) >= _SURE_LENGTH and is_likely_key(value)


def _private_key(found: Candidate) -> bool:
    body = re.sub(r"-----[A-Z0-9 +]+-----|-----END.*|\\[nrt]|\s", "", found.value)
    return len(body) >= 24 and len(set(body)) > 8


def _jwt(found: Candidate) -> bool:
    """The first part is a JSON object with a field that such a header has."""
    head = found.value.split(".")[0]
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and bool(_JOSE & header.keys())


def _aws_secret(found: Candidate) -> bool:
    value = found.value
    return (
        found.after[:1] not in ("/", "+", "=")
        and classes(value) >= 3
        and entropy(value) >= 3.8
        and _token(found)
    )


def _query_secret(found: Candidate) -> bool:
    if _BADGE.search(found.before):
        return False
    return is_key(found.value) or (len(found.value) >= 8 and is_random(found.value))


def _auth_value(found: Candidate) -> bool:
    value = found.value.rstrip(".:")
    if (
        is_placeholder(value)
        or is_reference(value)
        or is_words(value)
        or len(value) < 8
        or is_harmless(found.before)
    ):
        return False
    if value.startswith("AWS4-HMAC") or found.after.startswith("("):
        return False
    return bool(re.search("[0-9]", value)) or (
        len(value) >= 20 and entropy(value) >= 3.5 and classes(value) >= 2
    )


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
    if found.after.startswith("("):
        return False
    return is_random(found.value) and not is_uuid(found.value) and not is_reference(found.value)


def _named_secret(found: Candidate) -> bool:
    value = found.value
    if is_placeholder(value) or is_reference(value) or is_words(value) or is_harmless(found.before):
        return False
    if is_sentence(value):
        return False
    return entropy(value) >= 1.9 and (classes(value) >= 2 or len(value) >= 24)


def _assigned_secret(found: Candidate) -> bool:
    value, before, after = found
    if (
        CODE_AFTER.match(after)
        or is_harmless(before)
        or _BADGE.search(before)
        or _is_fingerprint(value, before)
    ):
        return False
    if is_digest(value) and _NAMED_AS_FILE.search(before):
        return False
    if is_telling(before):
        is_odd = (
            before[-1:] in QUOTES and has_signs(value) and is_password(value) and not is_code(value)
        )
        return is_likely_key(value) or is_odd
    return len(value) >= _SURE_LENGTH and is_key(value) and not (is_digest(value) or is_uuid(value))


def _spaced_secret(found: Candidate) -> bool:
    """Between a name and a value there is only a space, or `is`: what is said of a key is mostly
    words."""
    value = found.value.rstrip(".:")
    if is_harmless(found.before) or len(value) < 16 or found.after.startswith("("):
        return False
    if is_telling(found.before):
        is_secret = is_likely_key(value) and (
            len(value) >= _SURE_LENGTH or is_key(value) or is_drill(value)
        )
    else:
        is_secret = (
            len(value) >= _SURE_LENGTH
            and is_key(value)
            and entropy(value) >= 3.3
            and not is_digest(value)
        )
    return is_secret and not _is_fingerprint(value, found.before) and not _is_inside(found.before)


def _is_fingerprint(value: str, before: str) -> bool:
    return _FINGERPRINT.fullmatch(value) is not None and _SIGNS_WITH.search(before) is not None


def _glued_secret(found: Candidate) -> bool:
    """Behind a name that ends with a word for secrets, even where a hyphen, a stop or a space alone
    parts the two."""
    value, named = found.value, found.before.rstrip("-. ") + "="
    if (
        not is_telling(named)
        or is_harmless(named)
        or is_name(value)
        or _is_fingerprint(value, found.before)
    ):
        return False
    has_digits = (
        len(re.findall("[0-9]", value[:_JUDGED])) >= _FEW
        and re.search("[A-Za-z]", value) is not None
    )
    is_secret = (
        is_likely_key(value) or is_uuid(value) or (is_drill(value) and not is_stand_in(value))
    )
    return has_digits and is_secret and not _is_inside(found.before)


def _lone_assignment(found: Candidate) -> bool:
    """No word says that it is a secret: only what is long, has all kinds of letters and follows no
    pattern."""
    value = found.value
    if (
        is_harmless(found.before)
        or _OPEN_NAME.search(found.before)
        or is_digest(value)
        or not is_key(value)
    ):
        return False
    kinds = min(len(re.findall(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return kinds >= 3 and entropy(value) >= 4.2


def _secret_below(found: Candidate) -> bool:
    value, before = found.value, found.before
    if found.after.startswith(":"):  # another name
        return False
    if is_harmless(before) or is_name(value.strip("@-:")) or is_reference(value) or is_code(value):
        return False
    if _ABOVE.search(before) or _PUBLIC_KEY.search(before):
        return False
    name = name_of(before).lower()
    if "pass" in name:
        return is_password(value)
    return _spaced_secret(found)


def _any(found: Candidate) -> bool:
    return True


VALIDATORS: dict[str, Callable[[Candidate], bool]] = {
    **PASSWORDS,
    "any": _any,
    "token": _token,
    "random": _random,
    "mixed": _mixed,
    "drawn": _drawn,
    "bearer_of_as": _bearer_of_as,
    "near_token": _near_token,
    "service_key": _service_key,
    "wif": lambda found: is_wif(found.value),
    "stellar": lambda found: is_stellar_seed(found.value),
    "seed": lambda found: is_seed_phrase(found.value),
    "private_key": _private_key,
    "jwt": _jwt,
    "aws_secret": _aws_secret,
    "query_secret": _query_secret,
    "auth_value": _auth_value,
    "basic_auth": _basic_auth,
    "cookie": _cookie,
    "session": _session,
    "named_secret": _named_secret,
    "assigned_secret": _assigned_secret,
    "spaced_secret": _spaced_secret,
    "secret_below": _secret_below,
    "glued_secret": _glued_secret,
    "lone_assignment": _lone_assignment,
    "worded_token": lambda found: is_worded_token(found) and not _is_inside(found.before),
}
