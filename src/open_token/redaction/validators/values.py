"""Tell random values from words, names, paths, references and placeholders, by the value alone."""

import math
import re
from collections import Counter

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.validators.bigrams import is_identifier, is_word_like, measure_wordiness

_FILLER = lazy_compile(
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
_REFERENCE = lazy_compile(
    # Format strings, and members of one-letter variables in minified code.
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
_CODE = lazy_compile(
    r"&#?\w+;|&&|\|\||->|=>|::|\)\);|\);[a-z]|^\W+$|\(\?|\[[a-z0-9]-[a-z0-9]|(?:a-z|a-f|0-9){2}|\\[wds]",
    re.IGNORECASE,
)
_EQUATION = lazy_compile(r"([A-Za-z_][\w.:]{0,60}?)[-+*/!=]{0,2}=(?!=?$)")
_WORDS = lazy_compile(r"[A-Za-z]+(?:[-_./:@ ][A-Za-z]+)*[:.!?]?")
_IDENTIFIER = lazy_compile(
    r"[a-z]+(?:[A-Z][a-z]+)+[0-9]{0,3}|[A-Z]{2,}(?:_[A-Z]+)*_?[0-9]{0,2}|[a-z]+[0-9]{0,2}(?:[-_.](?:[a-z]+[0-9]{0,3}|[0-9]{1,12}))+"
)
_PATH = lazy_compile(
    r"(?:~|\.{1,2}|[A-Za-z]:|/)?[\\/](?:[\w.@+-]+[\\/])*[\w.@+-]*|(?:[\w.@-]+/)+[\w.-]*\.\w{1,5}"
)
_FILE = lazy_compile(
    r"(?:[\w.@+-]+/)*[\w.@+-]*\.(?:[ch]|cc|cpp|cs|css|go|hpp|html?|ini|in|java|js|json|jsx|lock|md|php|pl|po|py|rb|rs|rst|"
    r"sh|sql|svg|toml|tsx?|txt|xml|ya?ml|[1-8](?:bsd|p|pm|ssl|x)?)(?:#[\w-]+)?:?",
    re.IGNORECASE,
)
_PACKAGE = lazy_compile(r"@[a-z0-9][\w.-]*/[\w./:-]+", re.IGNORECASE)
_EDIT = lazy_compile(r"s([/|#])[\w.-]+\1[\w.-]*\1g?")
_URL = lazy_compile(r"[a-z][a-z0-9+.-]*(?:://|%3A%2F%2F)[^@\s]*", re.IGNORECASE)
_DOTTED = lazy_compile(
    r"[A-Za-z_]{2,}(?:[0-9]{1,5}[A-Za-z_]*)?(?:\.[A-Za-z_]+(?:[0-9]{1,5}[A-Za-z_]*)?)+:?"
)
_DOTTED_WORDS = lazy_compile(r"[A-Za-z_]{2}\w*(?:\.[A-Za-z_]\w*)+")
_CALL = lazy_compile(r"[A-Za-z_][\w.]*(?:::\w+)*[\[(<].*")
_VERSION = lazy_compile(r"(?:\w+:)?[~^v=<>]*\d+(?:\.[\dx*]+)+(?:[-+:][\w.]+)?")
_DATE = lazy_compile(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,Z+-]+)?")
_DIGEST = lazy_compile(r"(?:sha(?:1|256|384|512)|md5|h1)[-:=][A-Za-z0-9+/=_-]+", re.IGNORECASE)
_NUMBER = lazy_compile(r"0x[0-9a-f]{1,16}[ul]{0,3}\.?", re.IGNORECASE)
_ISSUE = lazy_compile(r"(?:bug|issue)#\d+", re.IGNORECASE)
_FINGERPRINT = lazy_compile(r"(?:[0-9a-f]{2}:){5,}[0-9a-f]{2}", re.IGNORECASE)
# Names of algorithms and the like, whose numbers do not make them random.
_TECHNICAL = lazy_compile(
    r"(?:sha|aes|hmac|curve|salsa|mlkem|kyber|blake|wgs|oauth|pbkdf|utf|base|uint|int|float|win|amd|ascii|crc|secp)_?-?[0-9]+(?:[kr]1|_[0-9]+)?|"
    r"(?<![A-Za-z])(?:x|ed)(?:25519|448|509)|a(?:128|192|256)(?:cbc|gcm|kw)|(?<![A-Za-z])[a-z]{1,2}[0-9]{2,3}k_[a-z]+|(?<![A-Za-z])[hrep]s(?:256|384|512)",
    re.IGNORECASE,
)
_TYPE_NAME = lazy_compile(
    r"[~\w.]*[a-z0-9_](?:Keys?|Tokens?|Secrets?|Credentials?|Params|Options|Config|Request|Response|Provider)"
)
_UUID = lazy_compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CAMEL = lazy_compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_BASE64 = lazy_compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[0-9A-Za-z+/]+={0,2}")
_MEAN_WORD_LENGTH = 3.5
_MIN_WORDINESS = 0.3
_MIN_BASE64_LENGTH = 24
_MAX_BASE64_WORDINESS = -0.7
_MIN_SCRAMBLED_LENGTH = 12
_MIN_SYMBOLS = 4
_HEAD_LENGTH = 60
_HEX = lazy_compile("[0-9a-fA-F]+")
_DIGIT = re.compile("[0-9]")
_LETTER = re.compile("[A-Za-z]")
_LETTERS = re.compile("[A-Za-z]+")
_DIGIT_CHANGE = lazy_compile("[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])")
_SPACED_WORD = lazy_compile(r"(?<!\w)[^\W\d_]{2,}(?!\w)")
_CLASSES = (
    re.compile("[a-z]"),
    re.compile("[A-Z]"),
    re.compile("[0-9]"),
    re.compile(r"[^a-zA-Z0-9]"),
)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LETTER_RUNS = ("abcdefgh", "ijklmnop", "zyxwvuts", "qwertyui")
_DIGIT_RUNS = ("01234567", "12345678", "98765432")
_PERIODIC = lazy_compile(r"(.{3,12}?)\1\1")
_REPEATED = lazy_compile(r"([A-Za-z*_.#-])\1{7,}|([0-9])\2{11,}")
_MIN_REST = 16
_MAX_CHECKED_LENGTH = 2000
_REFERENCE_FORMS = (
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


def compute_entropy(text: str) -> float:
    """Return the Shannon entropy of a text in bits a character."""
    size = len(text)
    if not size:
        return 0.0
    return -sum(count / size * math.log2(count / size) for count in Counter(text).values())


def count_character_classes(text: str) -> int:
    """Return how many of lower case, upper case, digits and symbols a text has."""
    return sum(bool(kind.search(text)) for kind in _CLASSES)


def is_filler(text: str, letters: int = 3) -> bool:
    """Return whether a text says that it is a placeholder, or repeats a few characters."""
    text = text[:_MAX_CHECKED_LENGTH]
    if _FILLER.search(text) or len(set(text)) <= letters:
        return True
    # Some tokens have such a run at a fixed place; then the rest is as long.
    repeated = sum(len(match[0]) for match in _REPEATED.finditer(text))
    return repeated > 0 and 2 * repeated > len(text) - _MIN_REST


def is_alphabet(text: str) -> bool:
    """Return whether a text is all letters in order: what a program draws characters from."""
    lowered = text[:_MAX_CHECKED_LENGTH].lower()
    return lowered.count(_ALPHABET) == 2 and len(text) <= 2 * len(_ALPHABET) + 16


def is_practice_value(text: str) -> bool:
    """Return whether a text has characters in order or repeated, as authors type examples."""
    lowered = text[:_MAX_CHECKED_LENGTH].lower()
    if any(run in lowered for run in _LETTER_RUNS) or _PERIODIC.match(lowered):
        return True
    return any(run in lowered for run in _DIGIT_RUNS) and compute_entropy(text) < 3.7


def is_placeholder(text: str) -> bool:
    """Return whether a text stands in for a secret."""
    return is_filler(text) or is_practice_value(text)


def is_reference(text: str) -> bool:
    """Return whether a text says where a secret is: a variable, a call, a path, a URL."""
    text = text[:_MAX_CHECKED_LENGTH].lstrip("!")
    if _REFERENCE.search(text) or _CALL.match(text):
        return True
    if _PATH.fullmatch(text) or _FILE.fullmatch(text):
        return not is_base64(text)
    if any(form.fullmatch(text) for form in _REFERENCE_FORMS) or _is_choice(text):
        return True
    if _DOTTED_WORDS.fullmatch(text) and measure_wordiness(text) > _MIN_WORDINESS:
        return True
    return bool(_DOTTED.fullmatch(_TECHNICAL.sub("", text)))


def _is_choice(text: str) -> bool:
    """Return whether a text is words between bars, as in a pattern or a union type."""
    if "|" not in text:
        return False
    parts = re.split(r"[|/?\[\]-]+", text)
    return all(len(part) < 4 or is_name(part) for part in parts)


def is_base64(text: str) -> bool:
    """Return whether a text is random base64, which begins like a path once in 64 times."""
    if len(text) < _MIN_BASE64_LENGTH or not _BASE64.fullmatch(text):
        return False
    return measure_wordiness(text) < _MAX_BASE64_WORDINESS


def is_scrambled(text: str) -> bool:
    """Return whether letters of both cases make no words: some random values have no digit."""
    letters = "".join(_LETTERS.findall(text))
    if len(letters) < _MIN_SCRAMBLED_LENGTH or letters.islower() or letters.isupper():
        return False
    return not is_word_like(letters)


def is_code(text: str) -> bool:
    """Return whether a text is a comparison, a keyword argument or a pattern."""
    text = text[:_MAX_CHECKED_LENGTH]
    if _CODE.search(text):
        return True
    equation = _EQUATION.match(text)
    if equation is None:
        return False
    right = text[equation.end() :]
    if _NUMBER.fullmatch(right):
        return True
    if len(right) >= 8 and not is_name(right):
        return False
    return measure_wordiness(equation[1]) > -0.5


def is_words(text: str) -> bool:
    """Return whether a text is words or a name from code, not random."""
    if not (_IDENTIFIER.fullmatch(text) or _WORDS.fullmatch(text)):
        return False
    return is_word_like("".join(_LETTERS.findall(text)))


def is_name(text: str) -> bool:
    """Return whether a text is words, or a name from code that may have numbers in it."""
    text = text[:_MAX_CHECKED_LENGTH].strip("_|~")
    if is_words(text) or is_identifier(text) or _TYPE_NAME.fullmatch(text):
        return True
    bare = _TECHNICAL.sub("", text)
    if bare == text:
        return False
    return not _LETTER.search(bare) or is_words(bare.strip("_.-")) or is_identifier(bare)


def is_camel_case(text: str) -> bool:
    """Return whether a text is a camel-case name of several words, without digits."""
    words = _CAMEL.findall(text)
    if len(words) < 2 or "".join(words) != text or len(text) / len(words) < _MEAN_WORD_LENGTH:
        return False
    return is_word_like(text)


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID."""
    return bool(_UUID.fullmatch(text))


def is_digest(text: str) -> bool:
    """Return whether a text has the length and the characters of a hexadecimal hash."""
    return bool(_HEX.fullmatch(text)) and len(text) in (32, 40, 56, 64, 96, 128)


def is_integrity_hash(text: str) -> bool:
    """Return whether a text is a hash with the name of its algorithm, as in lock files."""
    return bool(_DIGEST.fullmatch(text))


def is_sentence(text: str) -> bool:
    """Return whether a text has several words, or spaces and no random part."""
    parts = text[:400].split()
    if len(parts) < 2:
        return False
    if len(_SPACED_WORD.findall(text[:400])) >= 3:
        return True
    return not any(is_random(part) for part in parts)


def is_random(text: str) -> bool:
    """Return whether a text looks like random letters and digits."""
    if is_placeholder(text) or is_words(text):
        return False
    if not _DIGIT.search(text) and not is_scrambled(text):
        return False
    return compute_entropy(text) >= min(3.0, math.log2(max(2, len(text))) - 0.7)


def is_password(text: str) -> bool:
    """Return whether a text after a word for passwords may be one."""
    if len(text) < 6 or count_character_classes(text) < 2:
        return False
    if is_placeholder(text) or is_reference(text) or is_words(text):
        return False
    if _DIGIT.search(text) or count_character_classes(text) >= 3:
        return True
    return has_symbols(text) or is_scrambled(text)


def has_symbols(text: str) -> bool:
    """Return whether a text has so many different symbols that it is neither words nor code."""
    symbols = {
        character
        for character in text[:_MAX_CHECKED_LENGTH]
        if not character.isalnum() and not character.isspace()
    }
    return len(symbols) >= _MIN_SYMBOLS


def is_key(text: str) -> bool:
    """Return whether a text may be a key or a token: long, mixed and random."""
    if len(text) < 12 or not (_LETTER.search(text) and _DIGIT.search(text, 0, _HEAD_LENGTH)):
        return False
    entropy = compute_entropy(text)
    if entropy < 1.9:
        return False
    if entropy < 3.0 and (count_character_classes(text) < 3 or len(text) < 20):
        return False
    return not (is_placeholder(text) or is_reference(text) or is_name(text) or is_code(text))


def is_likely_key(text: str) -> bool:
    """Return whether a text after a name for secrets may be one: it may be shorter, of letters
    alone, or in the order of an example."""
    if len(text) < 8 or is_filler(text) or is_reference(text) or is_code(text) or is_alphabet(text):
        return False
    if is_name(text):
        return len(text) >= 16 and is_practice_value(text)
    if not _LETTER.search(text):
        return len(text) >= 20 and text.isdigit()
    if not _DIGIT.search(text, 0, _HEAD_LENGTH):
        return len(text) >= 16 and text.isascii() and compute_entropy(text) >= 2.5
    changes = len(_DIGIT_CHANGE.findall(text))
    if changes >= 3:
        return True
    if compute_entropy(text) < 1.9:
        return False
    return len(text) >= 16 or (changes > 1 and len(text) >= 10)


def may_recur(text: str) -> bool:
    """Return whether a text is so long and unusual that it is the same value elsewhere."""
    if len(text) < 8 or count_character_classes(text) < 2 or compute_entropy(text) < 1.9:
        return False
    return not (is_words(text) or is_reference(text) or is_sentence(text))
