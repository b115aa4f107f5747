"""What tells a secret from a word, a name, a path, a reference or a placeholder, judged by the
value alone."""

import math
import re
from collections import Counter

from open_token.passes._late import late
from open_token.passes._writing import is_identifier, is_written, wordiness

_STAND_IN = late(
    r"example|placeholder|change[-_ ]?me|change[-_]?this|changeit|(?:^|[^a-z0-9])(?:your|the|some|any)[-_ ]|"
    r"(?:^|[^a-z0-9])my[-_ ](?-i:[a-z]{3}|[A-Z]{3})|"
    r"<[^<>]*>|"
    r"\.{3}|…|x{5,}|\*{3,}|_{4,}|#{4,}|dummy|redacted|insert[-_ ]|replace[-_ ]?(?:me|with|this)|"
    r"(?<![a-z0-9])todo(?![a-z0-9])|foo[-_]?bar|lorem|"
    r"(?:^|[-_])fake|(?:^|[-_])mock(?:$|[-_])|not[-_ ]?a[-_ ]?real|secret[-_]?goes|goes[-_ ]?here|[-_ ]here$|hidden|"
    r"masked|\{[A-Za-z_][\w.:,]+(?:\}|[\[(!][^{}]{0,40}(?:\}|$))|\{[0-9](?::[0-9a-z.,<>^]{0,8})?\}|"
    r"^\[[A-Za-z_ ]+\]$|^(?:user|username)[:>]|pass(?:word)?[>\])}]$",
    re.IGNORECASE,
)
_REFERENCE = late(
    # What a program fills in, and what minified code says of a letter.
    r"%[0-9]*\.[0-9]*f|(?:^|[=/])%s(?:$|[-/.&])|%[sdr](?![0-9a-f]).*%[sdr](?![0-9a-f])|^(?-i:[a-z])\.[a-z_$][\w$]*[.+?]|"
    r"^[$%@!&*~^]?[{(<](?!\d)|\$\{[\w.:-]+\}|\{\{[^{}]*\}\}|\$\(|^\$[A-Za-z_]+[0-9]{0,2}$|^%[\w.]+%$|#\{|<%|process\.env|os\.environ|getenv|"
    r"\benv\b[.\[(]|^env:|secrets?\.[a-z]|^vault:|^ssm:|^arn:|^op://|^!ref|^var\.|^local\.|^data\.|"
    r"^(?:self|this|args?|opts?|options|config|cfg|settings|params?|props|req|request|res|response|ctx|context|event|input|"
    r"state|user|data|body|form|model|app|std|java|process|window|document|module|import|require|await|async|return|new|"
    r"lambda|function|def|class|const|let|var|public|private|static|final|string|str|int|bool|boolean|number|object|"
    r"array|null|none|nil|undefined|true|false|void|any|optional)"
    r"(?:$|[.\[(<>?!:,;\s])",
    re.IGNORECASE,
)
_CODE = late(
    r"&#?\w+;|&&|\|\||->|=>|::|\)\);|\);[a-z]|^\W+$|\(\?|\[[a-z0-9]-[a-z0-9]|(?:a-z|a-f|0-9){2}|\\[wds]",
    re.IGNORECASE,
)
_EQUATION = late(r"([A-Za-z_][\w.:]{0,60}?)[-+*/!=]{0,2}=(?!=?$)")
_WORDS = late(r"[A-Za-z]+(?:[-_./:@ ][A-Za-z]+)*[:.!?]?")
_IDENTIFIER = late(
    r"[a-z]+(?:[A-Z][a-z]+)+[0-9]{0,3}|[A-Z]{2,}(?:_[A-Z]+)*_?[0-9]{0,2}|[a-z]+[0-9]{0,2}(?:[-_.](?:[a-z]+[0-9]{0,3}|[0-9]{1,12}))+"
)
_PATH = late(
    r"(?:~|\.{1,2}|[A-Za-z]:|/)?[\\/](?:[\w.@+-]+[\\/])*[\w.@+-]*|(?:[\w.@-]+/)+[\w.-]*\.\w{1,5}"
)
_FILE = late(
    r"(?:[\w.@+-]+/)*[\w.@+-]*\.(?:[ch]|cc|cpp|cs|css|go|hpp|html?|ini|in|java|js|json|jsx|lock|md|php|pl|po|py|rb|rs|rst|"
    r"sh|sql|svg|toml|tsx?|txt|xml|ya?ml|[1-8](?:bsd|p|pm|ssl|x)?)(?:#[\w-]+)?:?",
    re.IGNORECASE,
)
_PACKAGE = late(r"@[a-z0-9][\w.-]*/[\w./:-]+", re.IGNORECASE)
_EDIT = late(r"s([/|#])[\w.-]+\1[\w.-]*\1g?")
_URL = late(r"[a-z][a-z0-9+.-]*(?:://|%3A%2F%2F)[^@\s]*", re.IGNORECASE)
_DOTTED = late(
    r"[A-Za-z_]{2,}(?:[0-9]{1,5}[A-Za-z_]*)?(?:\.[A-Za-z_]+(?:[0-9]{1,5}[A-Za-z_]*)?)+:?"
)
_DOTTED_WORDS = late(r"[A-Za-z_]{2}\w*(?:\.[A-Za-z_]\w*)+")
_CALL = late(r"[A-Za-z_][\w.]*(?:::\w+)*[\[(<].*")
_VERSION = late(r"(?:\w+:)?[~^v=<>]*\d+(?:\.[\dx*]+)+(?:[-+:][\w.]+)?")
_DATE = late(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,Z+-]+)?")
_DIGEST = late(r"(?:sha(?:1|256|384|512)|md5|h1)[-:=][A-Za-z0-9+/=_-]+", re.IGNORECASE)
_NUMBER = late(r"0x[0-9a-f]{1,16}[ul]{0,3}\.?", re.IGNORECASE)
_ISSUE = late(r"(?:bug|issue)#\d+", re.IGNORECASE)
_FINGERPRINT = late(r"(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}", re.IGNORECASE)
# Names of algorithms and such, whose numbers are no sign that something was drawn by lot.
_TECHNICAL = late(
    r"(?:sha|aes|hmac|curve|salsa|mlkem|kyber|blake|wgs|oauth|pbkdf|utf|base|uint|int|float|win|amd|ascii|crc|secp)_?-?[0-9]+(?:[kr]1|_[0-9]+)?|"
    r"(?<![A-Za-z])(?:x|ed)(?:25519|448|509)|a(?:128|192|256)(?:cbc|gcm|kw)|(?<![A-Za-z])[a-z]{1,2}[0-9]{2,3}k_[a-z]+|(?<![A-Za-z])[hrep]s(?:256|384|512)",
    re.IGNORECASE,
)
_OF_A_TYPE = late(
    r"[~\w.]*[a-z0-9_](?:Keys?|Tokens?|Secrets?|Credentials?|Params|Options|Config|Request|Response|Provider)"
)
_UUID = late(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CAMEL = late("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_BASE64 = late(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[0-9A-Za-z+/]+={0,2}")
_USUAL_WORD, _WORDY = 3.5, 0.3
_LEAST_DRAWN, _UNLIKE_WORDS, _LEAST_SCRAMBLED = 24, -0.7, 12
_LEAST_SIGNS = 4
_HEAD = 60
_HEX = late("[0-9a-fA-F]+")
_DIGIT, _LETTER, _LETTERS = re.compile("[0-9]"), re.compile("[A-Za-z]"), re.compile("[A-Za-z]+")
_CHANGE = late("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_SPACED_WORD = late(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
_CLASSES = (
    re.compile("[a-z]"),
    re.compile("[A-Z]"),
    re.compile("[0-9]"),
    re.compile(r"[^a-zA-Z0-9]"),
)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LETTER_RUNS = ("abcdefgh", "ijklmnop", "zyxwvuts", "qwertyui")
_RUNS = ("01234567", "12345678", "98765432")
_PERIODIC = late(r"(.{3,12}?)\1\1")
_SAME = late(r"([A-Za-z*_.#-])\1{7}|([0-9])\2{11}")
_JUDGED = 2000


def entropy(text: str) -> float:
    """Bits a letter, by how often each letter stands in the text itself."""
    size = len(text)
    return (
        -sum(count / size * math.log2(count / size) for count in Counter(text).values())
        if size
        else 0.0
    )


def classes(text: str) -> int:
    """How many of lower case, upper case, digits and signs are in a text."""
    return sum(bool(kind.search(text)) for kind in _CLASSES)


def is_stand_in(text: str, letters: int = 3) -> bool:
    """Says outright that it stands where a secret would stand, or is a few letters over and
    over."""
    text = text[:_JUDGED]
    return bool(_STAND_IN.search(text)) or len(set(text)) <= letters or bool(_SAME.search(text))


def is_alphabet(text: str) -> bool:
    """All letters in their order and nothing much else: what a program draws letters from."""
    lowered = text[:_JUDGED].lower()
    return lowered.count(_ALPHABET) == 2 and len(text) <= 2 * len(_ALPHABET) + 16


def is_drill(text: str) -> bool:
    """Letters or digits in their order, or a few over and over, as authors of examples type
    them."""
    lowered = text[:_JUDGED].lower()
    if any(run in lowered for run in _LETTER_RUNS) or _PERIODIC.match(lowered):
        return True
    return any(run in lowered for run in _RUNS) and entropy(text) < 3.7


def is_placeholder(text: str) -> bool:
    """Stands where a secret would stand."""
    return is_stand_in(text) or is_drill(text)


def is_reference(text: str) -> bool:
    """Says where a secret is, not what it is: a variable, a call, a path, an address without a
    password."""
    text = text[:_JUDGED].lstrip("!")
    if _REFERENCE.search(text) or _CALL.match(text):
        return True
    if _PATH.fullmatch(text) or _FILE.fullmatch(text):
        return not is_base64(text)
    kinds = (
        _DOTTED,
        _URL,
        _VERSION,
        _DATE,
        _DIGEST,
        _NUMBER,
        _FINGERPRINT,
        _ISSUE,
        _PACKAGE,
        _EDIT,
    )
    if any(kind.fullmatch(text) for kind in kinds) or _is_choice(text):
        return True
    if _DOTTED_WORDS.fullmatch(text) and wordiness(text) > _WORDY:
        return True
    return bool(_DOTTED.fullmatch(_TECHNICAL.sub("", text)))


def _is_choice(text: str) -> bool:
    """Words between bars, as in a pattern or a table of types."""
    return "|" in text and all(
        len(part) < 4 or is_name(part) for part in re.split(r"[|/?\[\]-]+", text)
    )


def is_base64(text: str) -> bool:
    """Drawn by lot from the letters of base64, of which the slash is one: one in 64 begins like a
    path."""
    return (
        len(text) >= _LEAST_DRAWN
        and bool(_BASE64.fullmatch(text))
        and wordiness(text) < _UNLIKE_WORDS
    )


def is_scrambled(text: str) -> bool:
    """Small letters and capitals that make no words: a few of the values drawn by lot have no
    digit."""
    letters = "".join(_LETTERS.findall(text))
    is_mixed = not letters.islower() and not letters.isupper()
    return len(letters) >= _LEAST_SCRAMBLED and is_mixed and not is_written(letters)


def is_code(text: str) -> bool:
    """A comparison, an argument with its name, a pattern: what stands behind a name in a
    program."""
    text = text[:_JUDGED]
    if _CODE.search(text):
        return True
    equation = _EQUATION.match(text)
    if equation is None:
        return False
    right = text[equation.end() :]
    if _NUMBER.fullmatch(right):
        return True
    return (len(right) < 8 or is_name(right)) and wordiness(equation[1]) > -0.5


def is_words(text: str) -> bool:
    """Words or a name from code, not something drawn by lot."""
    if not (_IDENTIFIER.fullmatch(text) or _WORDS.fullmatch(text)):
        return False
    return is_written("".join(_LETTERS.findall(text)))


def is_name(text: str) -> bool:
    """Words, or a name from code with numbers in it."""
    text = text[:_JUDGED].strip("_|~")
    if is_words(text) or is_identifier(text) or _OF_A_TYPE.fullmatch(text):
        return True
    bare = _TECHNICAL.sub("", text)
    return bare != text and (
        not _LETTER.search(bare) or is_words(bare.strip("_.-")) or is_identifier(bare)
    )


def is_camel_case(text: str) -> bool:
    """A name of several words in code: letters only, and capitals that begin words."""
    words = _CAMEL.findall(text)
    if len(words) < 2 or "".join(words) != text or len(text) / len(words) < _USUAL_WORD:
        return False
    return is_written(text)


def is_uuid(text: str) -> bool:
    return bool(_UUID.fullmatch(text))


def is_digest(text: str) -> bool:
    """As long as a hash, and of its letters."""
    return bool(_HEX.fullmatch(text)) and len(text) in (32, 40, 56, 64, 96, 128)


def is_integrity(text: str) -> bool:
    """A hash that says which it is, as lock files have it."""
    return bool(_DIGEST.fullmatch(text))


def is_sentence(text: str) -> bool:
    """Several words, or anything with spaces that has no part drawn by lot."""
    parts = text[:400].split()
    return len(parts) > 1 and (
        len(_SPACED_WORD.findall(text[:400])) >= 3 or not any(is_random(part) for part in parts)
    )


def is_random(text: str) -> bool:
    """Letters and digits as if drawn by lot."""
    if is_placeholder(text) or is_words(text) or not (_DIGIT.search(text) or is_scrambled(text)):
        return False
    return entropy(text) >= min(3.0, math.log2(max(2, len(text))) - 0.7)


def is_password(text: str) -> bool:
    """Could be a password that stands behind the word for it."""
    if (
        len(text) < 6
        or classes(text) < 2
        or is_placeholder(text)
        or is_reference(text)
        or is_words(text)
    ):
        return False
    return bool(_DIGIT.search(text)) or classes(text) >= 3 or has_signs(text) or is_scrambled(text)


def has_signs(text: str) -> bool:
    """So many different signs that it is neither words nor code."""
    return (
        len({letter for letter in text[:_JUDGED] if not letter.isalnum() and not letter.isspace()})
        >= _LEAST_SIGNS
    )


def is_key(text: str) -> bool:
    """Could be a key or a token that stands behind a word for it: long, mixed, drawn by lot."""
    if len(text) < 12 or not (_LETTER.search(text) and _DIGIT.search(text, 0, _HEAD)):
        return False
    bits = entropy(text)
    if bits < 3.0 and (bits < 1.9 or classes(text) < 3 or len(text) < 20):
        return False
    return not (is_placeholder(text) or is_reference(text) or is_name(text) or is_code(text))


def is_likely_key(text: str) -> bool:
    """Could be a key behind a name that says so outright: shorter, of letters alone, or in the
    order of an example."""
    if (
        len(text) < 8
        or is_stand_in(text)
        or is_reference(text)
        or is_code(text)
        or is_alphabet(text)
    ):
        return False
    if is_name(text):
        return len(text) >= 16 and is_drill(text)
    if not _LETTER.search(text):
        return len(text) >= 20 and text.isdigit()
    if not _DIGIT.search(text, 0, _HEAD):
        return len(text) >= 16 and text.isascii() and entropy(text) >= 2.5
    changes = len(_CHANGE.findall(text))
    return changes >= 3 or (
        entropy(text) >= 1.9 and (len(text) >= 16 or (changes > 1 and len(text) >= 10))
    )


def may_recur(text: str) -> bool:
    """Long and odd enough that the same letters elsewhere are the same value."""
    if len(text) < 8 or classes(text) < 2 or entropy(text) < 1.9:
        return False
    return not (is_words(text) or is_reference(text) or is_sentence(text))
