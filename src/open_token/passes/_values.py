"""What tells a secret from a word, a name, a path, a reference or a placeholder, judged by the value alone."""

import math
import re
from collections import Counter

_PLACEHOLDER = re.compile(
    r"example|placeholder|change[-_ ]?me|change[-_]?this|changeit|(?:^|[^a-z])(?:your|my|the|some|any)[-_ ]|<[^<>]*>|"
    r"\.{3}|…|x{5,}|\*{3,}|_{4,}|dummy|redacted|insert[-_ ]|replace[-_ ]?(?:me|with|this)|todo|f[oO]{2}[-_]?bar|lorem|"
    r"(?:^|[-_])fake|(?:^|[-_])mock(?:$|[-_])|not[-_ ]?a[-_ ]?real|secret[-_]?goes|goes[-_ ]?here|[-_ ]here$|hidden|"
    r"masked|\{[A-Za-z_][\w.:,]*\}|^\[[A-Za-z_ ]+\]$|^(?:user|username)[:>]|pass(?:word)?[>\])}]$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(
    r"^[$%@!&*~^]?[{(<]|\$\{|\{\{|\$\(|^\$[A-Za-z_]+[0-9]{0,2}$|^%\w+%$|#\{|<%|process\.env|os\.environ|getenv|\benv\b[.\[(]|"
    r"^env:|secrets?\.[a-z]|^vault:|^ssm:|^arn:|^op://|^!ref|^var\.|^local\.|^data\.|^(?:self|this|args?|opts?|options|config|cfg|settings|"
    r"params?|props|req|request|res|response|ctx|context|event|input|state|user|data|body|form|model|app|std|java|process|"
    r"window|document|module|import|require|await|async|return|new|lambda|function|def|class|const|let|var|public|private|"
    r"static|final|string|str|int|bool|boolean|number|object|array|null|none|nil|undefined|true|false|void|any|optional)"
    r"(?:$|[.\[(<>?!:,;\s])",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]+(?:[-_./:@ ][A-Za-z]+)*[:.!?]?")
_IDENTIFIER = re.compile(
    r"[a-z]+(?:[A-Z][a-z]+)+[0-9]{0,3}|[A-Z]{2,}(?:_[A-Z]+)*_?[0-9]{0,2}|[a-z]+(?:[-_.](?:[a-z]+[0-9]{0,3}|[0-9]{1,8}))+"
)
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[\\/](?:[\w.@+-]+[\\/])*[\w.@+-]*|(?:[\w.-]+/)+[\w.-]*\.\w{1,5}")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^@\s]*", re.IGNORECASE)
_DOTTED = re.compile(r"[A-Za-z_]{2,}[0-9]{0,5}[A-Za-z_]*(?:\.[A-Za-z_]+[0-9]{0,5}[A-Za-z_]*)+")
_CALL = re.compile(r"[A-Za-z_][\w.]*\(.*\)?.*")
_VERSION = re.compile(r"[~^v=<>]*\d+(?:\.[\dx*]+)+(?:[-+][\w.]+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,Z+-]+)?")
_DIGEST = re.compile(r"(?:sha(?:1|256|384|512)|md5|h1)[-:][A-Za-z0-9+/=]+", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CAMEL = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONG_WORD, _USUAL_WORD = 24, 3.5
_HEAD = 60
_HEX = re.compile("[0-9a-fA-F]+")
_DIGIT, _LETTER = re.compile("[0-9]"), re.compile("[A-Za-z]")
_SPACED_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
_CLASSES = (re.compile("[a-z]"), re.compile("[A-Z]"), re.compile("[0-9]"), re.compile(r"[^a-zA-Z0-9]"))
_RUNS = ("01234567", "12345678", "abcdefgh", "qwertyui", "98765432")
_SAME = re.compile(r"([A-Za-z*_.#-])\1{7}")
_JUDGED = 2000


def entropy(text: str) -> float:
    """Bits a letter, by how often each letter stands in the text itself."""
    size = len(text)
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values()) if size else 0.0


def classes(text: str) -> int:
    """How many of lower case, upper case, digits and signs are in a text."""
    return sum(bool(kind.search(text)) for kind in _CLASSES)


def is_placeholder(text: str) -> bool:
    """Stands where a secret would stand."""
    text = text[:_JUDGED]
    if _PLACEHOLDER.search(text) or len(set(text)) <= 3 or _SAME.search(text):
        return True
    lowered = text.lower()
    return "abcdefghijklmnopqrstuvwxyz" in lowered or (any(run in lowered for run in _RUNS) and entropy(text) < 3.7)


def is_reference(text: str) -> bool:
    """Says where a secret is, not what it is: a variable, a call, a path, an address without a password."""
    if _REFERENCE.search(text) or _CALL.match(text):
        return True
    return any(kind.fullmatch(text) for kind in (_DOTTED, _PATH, _URL, _VERSION, _DATE, _DIGEST))


def is_words(text: str) -> bool:
    """Words or a name from code, not something drawn by lot."""
    if _IDENTIFIER.fullmatch(text):
        return True
    if not _WORDS.fullmatch(text):
        return False
    return len(text) < _LONG_WORD or len(text) / max(1, len(_CAMEL.findall(text))) >= _USUAL_WORD


def is_camel_case(text: str) -> bool:
    """A name of several words in code: letters only, and capitals that begin words."""
    words = _CAMEL.findall(text)
    return len(words) > 1 and "".join(words) == text and len(text) / len(words) >= _USUAL_WORD


def is_uuid(text: str) -> bool:
    return bool(_UUID.fullmatch(text))


def is_digest(text: str) -> bool:
    """As long as a hash, and of its letters."""
    return bool(_HEX.fullmatch(text)) and len(text) in (32, 40, 56, 64, 96, 128)


def is_sentence(text: str) -> bool:
    """Several words, or anything with spaces that has no part drawn by lot."""
    parts = text[:400].split()
    return len(parts) > 1 and (len(_SPACED_WORD.findall(text[:400])) >= 3 or not any(is_random(part) for part in parts))


def is_random(text: str) -> bool:
    """Letters and digits as if drawn by lot."""
    if is_placeholder(text) or is_words(text) or not _DIGIT.search(text):
        return False
    return entropy(text) >= min(3.0, math.log2(max(2, len(text))) - 0.7)


def is_password(text: str) -> bool:
    """Could be a password that stands behind the word for it."""
    return (
        len(text) >= 6
        and classes(text) >= 2
        and not (is_placeholder(text) or is_reference(text) or is_words(text))
        and (bool(_DIGIT.search(text)) or classes(text) >= 3)
    )


def is_key(text: str) -> bool:
    """Could be a key or a token that stands behind a word for it: long, mixed, drawn by lot."""
    if len(text) < 12 or not (_LETTER.search(text) and _DIGIT.search(text, 0, _HEAD)):
        return False
    bits = entropy(text)
    if bits < 3.0 and (bits < 1.9 or classes(text) < 3 or len(text) < 20):
        return False
    return not is_placeholder(text) and not is_reference(text) and not is_words(text)


def may_recur(text: str) -> bool:
    """Long and odd enough that the same letters elsewhere are the same value."""
    if len(text) < 8 or classes(text) < 2 or entropy(text) < 1.9:
        return False
    return not (is_words(text) or is_reference(text) or is_sentence(text))
