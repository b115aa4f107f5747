"""Judge the name before a value: whether it is the name of a secret, or only sounds like one."""

import functools
import re

from open_token.redaction.lazy_patterns import lazy_compile

_NAME = lazy_compile(
    r"([\w$@.\-]+(?:[ \t][^\W\d][\w\-]*){0,3})(?:\\{0,3}[\"'`*\])])*[ \t]*"
    r"(?:[:?.+!]{0,3}=|=>|->|:|：|＝|,|>|\||\(|\x01|-|%3[DdAa]|[ \t\r\n])"
    r"[ \t\r\n=>|({]*[A-Za-z@]?(?:\\{0,3}[\"'`(\[{*])*[ \t]*$"
)
_VALUE_NAMES = frozenset(("value", "default", "body"))
_FIRST_OF_PAIR = lazy_compile(r"([\w$@.\-]+)\\{0,3}[\"']?[ \t\r\n,{]*\\{0,3}[\"']?$")
_WORD = lazy_compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HARMLESS_LAST_WORDS = frozenset(
    """id ids uuid guid name names length len size type kind source sources result results path paths file files
    filename dir directory folder url uri urls endpoint host hostname domain port region zone bucket vault arn
    alias prefix suffix format regex pattern chars alphabet charset index count limit usage policy group class
    version versions hash digest checksum sha sha1 sha256 sha512 md5 fingerprint signature signatures algorithm
    alg expiry expires expiration ttl timeout error message label title description placeholder hint field
    column table schema model models scope scopes audience issuer provider frame keyframe distance event state
    status mode level date time timestamp at on by ref refs commit commits rev revision branch tag image icon
    color tokens keys keywords keyword tokenizer import imports from env variable integrity resolved etag blob
    tree parent email user username project org title selector example store storage manager client clients
    request response header headers doi isbn curve charset encoding startswith endswith pubkey certificate
    certificates cert chain""".split()
)
_HARMLESS_QUALIFIERS = frozenset(
    """public primary foreign cache sort partition idempotency row object index hot short join unique composite
    natural surrogate registry translation route event lookup dedupe dedup continuation next page paging
    pagination cursor nonce sync map dict group hash sha commit build release trace span message etag ssh pub
    pubkey socket lock change update action unit request starting""".split()
)
_SECRET_WORDS = frozenset(
    """secret secrets token password passwd key apikey credential credentials auth private signing encryption
    client access pat passphrase authorization cookie jwt bearer login api cred creds apitoken authtoken
    secretkey accesskey pwd sdk crumb authtoken sk""".split()
)
_FOREIGN_SECRET_WORDS = lazy_compile(
    "ключ|токен|секрет|парол|schlüssel|geheim|jeton|clave|contrase|senha|segredo|secreto|chiave|segreto|sleutel|klucz|"
    "anahtar|密钥|密鑰|秘钥|密码|密碼|口令|令牌|凭证|憑證|トークン|シークレット|キー|秘密鍵|パスワード|토큰|비밀|암호|κλειδ|κωδικ",
    re.IGNORECASE,
)
# The name of a type or a resource: "AWS::IAM::AccessKey": , arn:aws:secretsmanager:...:secret:
_RESOURCE = lazy_compile(r"::\w+[\"']?[ \t]*[:=][ \t\"']*$|\b[au]rn:[\w:*/.-]*$")
_STOP_WORDS = frozenset(
    "is was are the a an my our your this that new old es est ist lautet env export set const let var".split()
)
_NOT_KEYS = frozenset(("monkey", "donkey", "turkey", "hockey", "jockey", "whiskey", "tiktoken"))
_PUBLIC_WORDS = frozenset(("public", "pubkey"))
# The name of a file in an object store.
_OBJECT_KEY = lazy_compile(r"s3[_-]?key$", re.IGNORECASE)


def find_name(before: str) -> str:
    """Return the name right before a value; of a pair of name and value, the name's value."""
    return _find_name(before[-80:])


@functools.lru_cache(4096)  # several validators ask for it, and the search is slow
def _find_name(before: str) -> str:
    match = _NAME.search(before)
    if not match:
        return ""
    name = match[1]
    if name.lstrip("-").lower() in _VALUE_NAMES:
        pair = _FIRST_OF_PAIR.search(before[: match.start()])
        return pair[1] if pair else name
    return name


def _split_words(name: str) -> list[str]:
    """Return the words of a name in lower case, without numbers and stop words."""
    words = [word.lower() for word in _WORD.findall(name) if not word.isdigit()]
    return [word for word in words if word not in _STOP_WORDS]


def is_harmless_name(before: str) -> bool:
    """Return whether the name is that of an id, a length, a public key or the like."""
    name = find_name(before)
    words = _split_words(name)
    if not words:
        return False
    if words[-1] in _HARMLESS_LAST_WORDS or not _PUBLIC_WORDS.isdisjoint(words):
        return True
    if _RESOURCE.search(before) or _OBJECT_KEY.search(name):
        return True
    if len(words) < 2 or words[-1] not in ("key", "token", "api", "access"):
        return False
    return words[-2] in _HARMLESS_QUALIFIERS


def is_secret_name(before: str) -> bool:
    """Return whether the name says that this is a secret, so that even a hash may be one; `key`
    alone does not."""
    name = find_name(before)
    words = [word for word in _split_words(name) if word not in _NOT_KEYS]
    if words in (["key"], ["access"], ["api"], ["client"]):
        return False
    for word in words:
        if word in _SECRET_WORDS or word.endswith(("key", "token", "secret", "password")):
            return True
    return bool(_FOREIGN_SECRET_WORDS.search(name))
