"""What the name before a value says about it: that it is a secret, or that it only sounds like one."""

import re

_NAME = re.compile(
    r"([A-Za-z0-9_$@.\-]+(?:[ \t][A-Za-z][\w\-]*){0,3})(?:\\{0,3}[\"'`\])])*[ \t]*"
    r"(?:[:?.+]{0,3}=|=>|->|:|：|,|>|\||\(|\x01|[ \t])"
    r"[ \t=>|]*[A-Za-z@]?(?:\\{0,3}[\"'`(\[{])*[ \t]*$"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_LAST = frozenset(
    """id ids uuid guid name names length len size type kind source sources result results path paths file files
    filename dir directory folder url uri urls endpoint host hostname domain port region zone bucket vault arn
    alias prefix suffix format regex pattern chars alphabet charset index count limit usage policy group class
    version versions hash digest checksum sha sha1 sha256 sha512 md5 fingerprint signature signatures algorithm
    alg expiry expires expiration ttl timeout error message label title description placeholder hint field
    column table schema model models scope scopes audience issuer provider frame keyframe distance event state
    status mode level date time timestamp at on by ref refs commit commits rev revision branch tag image icon
    color tokens keys keywords keyword tokenizer import imports from env variable integrity resolved etag blob
    tree parent email user username project org title selector example store storage manager client clients
    request response header headers doi isbn""".split()
)
_FIRST = frozenset(
    """public primary foreign cache sort partition idempotency row object index hot short join unique composite
    natural surrogate registry translation route event lookup dedupe dedup continuation next page paging
    pagination cursor nonce sync map dict group hash sha commit build release trace span message etag ssh pub
    pubkey""".split()
)
_SECRET = frozenset(
    """secret secrets token password passwd key apikey credential credentials auth private signing encryption
    client access pat passphrase authorization cookie jwt bearer login api cred creds apitoken authtoken
    secretkey accesskey pwd sdk""".split()
)


def words_of(before: str) -> list[str]:
    """The words of the name that stands right before a value."""
    found = _NAME.search(before[-80:])
    return [word.lower() for word in _WORD.findall(found[1])] if found else []


def is_harmless(before: str) -> bool:
    """The name is of something that is no secret: an id, a length, a public key."""
    words = [word for word in words_of(before) if not word.isdigit()]
    if not words:
        return False
    if words[-1] in _LAST:
        return True
    return len(words) > 1 and words[-1] in ("key", "token", "api", "access") and words[-2] in _FIRST


def is_telling(before: str) -> bool:
    """The name says outright that this is a secret, so that even a hash or a UUID may be one; `key` alone does not."""
    words = [word for word in words_of(before) if not word.isdigit()]
    if words in (["key"], ["access"], ["api"], ["client"]):
        return False
    return any(word in _SECRET or word.endswith(("key", "token", "secret", "password")) for word in words)
