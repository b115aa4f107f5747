"""What the name before a value says about it: that it is a secret, or that it only sounds like
one."""

import functools
import re

from open_token.passes._late import late

_NAME = late(
    r"([\w$@.\-]+(?:[ \t][^\W\d][\w\-]*){0,3})(?:\\{0,3}[\"'`*\])])*[ \t]*"
    r"(?:[:?.+!]{0,3}=|=>|->|:|：|＝|,|>|\||\(|\x01|-|%3[DdAa]|[ \t\r\n])"
    r"[ \t\r\n=>|({]*[A-Za-z@]?(?:\\{0,3}[\"'`(\[{*])*[ \t]*$"
)
_VALUE = frozenset(("value", "default", "body"))
_PAIR = late(r"([\w$@.\-]+)\\{0,3}[\"']?[ \t\r\n,{]*\\{0,3}[\"']?$")
_WORD = late(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
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
    request response header headers doi isbn curve charset encoding startswith endswith with pubkey certificate
    certificates cert chain""".split()
)
_FIRST = frozenset(
    """public primary foreign cache sort partition idempotency row object index hot short join unique composite
    natural surrogate registry translation route event lookup dedupe dedup continuation next page paging
    pagination cursor nonce sync map dict group hash sha commit build release trace span message etag ssh pub
    pubkey socket lock change update action unit request starting""".split()
)
_SECRET = frozenset(
    """secret secrets token password passwd key apikey credential credentials auth private signing encryption
    client access pat passphrase authorization cookie jwt bearer login api cred creds apitoken authtoken
    secretkey accesskey pwd sdk crumb authtoken sk""".split()
)
_FOREIGN = late(
    "ключ|токен|секрет|парол|schlüssel|geheim|jeton|clave|contrase|senha|segredo|secreto|chiave|segreto|sleutel|klucz|"
    "anahtar|密钥|密鑰|秘钥|密码|密碼|口令|令牌|凭证|憑證|トークン|シークレット|キー|秘密鍵|パスワード|토큰|비밀|암호|κλειδ|κωδικ",
    re.IGNORECASE,
)
# A type or a resource that is named after secrets: "AWS::IAM::AccessKey": ,
# arn:aws:secretsmanager:...:secret:
_RESOURCE = late(r"::\w+[\"']?[ \t]*[:=][ \t\"']*$|\b[au]rn:[\w:*/.-]*$")
_FILLING = frozenset(
    "is was are the a an my our your this that new old es est ist lautet env export set const let var".split()
)
_NO_KEYS = frozenset(("monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "tiktoken"))
_OPEN = frozenset(("public", "pubkey"))
# The name of a file in a store.
_STORED = late(r"s3[_-]?key$", re.IGNORECASE)


def name_of(before: str) -> str:
    """The name that stands right before a value; of a pair such as name and value, what the first
    says."""
    return _name_of(before[-80:])


@functools.lru_cache(4096)  # it is asked for several times, and a long search of little text
def _name_of(before: str) -> str:
    found = _NAME.search(before)
    if not found:
        return ""
    if found[1].lstrip("-").lower() in _VALUE:
        pair = _PAIR.search(before[: found.start()])
        return pair[1] if pair else found[1]
    return found[1]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name) if not word.isdigit()]


def is_harmless(before: str) -> bool:
    """The name is of something that is no secret: an id, a length, a public key."""
    name = name_of(before)
    words = [word for word in _words(name) if word not in _FILLING]
    if not words:
        return False
    if (
        words[-1] in _LAST
        or not _OPEN.isdisjoint(words)
        or _RESOURCE.search(before)
        or _STORED.search(name)
    ):
        return True
    return len(words) > 1 and words[-1] in ("key", "token", "api", "access") and words[-2] in _FIRST


def is_telling(before: str) -> bool:
    """The name says outright that this is a secret, so that even a hash or a UUID may be one; `key`
    alone does not."""
    name = name_of(before)
    words = [word for word in _words(name) if word not in _NO_KEYS and word not in _FILLING]
    if words in (["key"], ["access"], ["api"], ["client"]):
        return False
    if any(
        word in _SECRET or word.endswith(("key", "token", "secret", "password")) for word in words
    ):
        return True
    return bool(_FOREIGN.search(name))
