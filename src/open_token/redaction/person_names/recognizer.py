"""Recognize names of people: capitalized words, lists of names, and cues around them.

Each word gets a score as a given and as a family name; the text before and after adds to it.
"""

import functools
import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from open_token.redaction.lazy_patterns import lazy_compile
from open_token.redaction.person_names.name_lists import (
    NameTables,
    load_common_words,
    load_names,
    set_cache_folder,
    strip_accents,
)

__all__ = [
    "NameSearch",
    "find_names",
    "find_names_in_email",
    "list_name_parts",
    "select_lines_with_cues",
    "set_cache_folder",
]

# Ranges with capitals; they have lower-case letters, too, which the shape of a word reveals.
_UPPER = "A-ZÀ-ÖØ-ÞĀ-ɏΆ-ΫЀ-ЯѠ-ӿԀ-ԯ"
_INITIALS = rf"\.(?:[{_UPPER}]\.){{0,2}}"
# Some systems write accents as combining characters.
_BARE = r"[^\W\d_]*(?:[\u0300-\u036f]+[^\W\d_]*)*"
_LETTERS = rf"{_BARE}(?:['’](?!s\b)[^\W\d_]{_BARE}|-[^\W\d_]{_BARE})*"
_UNIT = rf"[{_UPPER}](?:{_INITIALS}|{_LETTERS})"
_PARTICLES = "de|da|do|dos|das|del|della|di|du|des|la|le|van|von|der|den|ter|ten|zu|zum|zur|el|al|bin|ibn|ben|bint|af|av|y|e"
# Starts with the capital, so that the search can skip to one; look-behinds come after it.
_FIRST = rf"[{_UPPER}](?<![\w@/\\.$#&%=~+^-].)(?<!\w['’].)"
_WORD = lazy_compile(_FIRST + _LETTERS)
# The same for ASCII, which is faster.
_PLAIN_WORD = lazy_compile(
    r"[A-Z](?<![\w@/\\.$#&%=~+^-].)(?<!\w'.)[A-Za-z]*(?:'(?!s\b)[A-Za-z]+|-[A-Za-z]+)*", re.ASCII
)
_RUN = lazy_compile(
    rf"{_FIRST}(?:{_INITIALS}|{_LETTERS})"
    rf"(?: (?:(?:{_PARTICLES}) ){{0,2}}{_UNIT}){{0,7}}"
)
_PART = lazy_compile(_UNIT)
_ENUMERATION = lazy_compile(
    rf"{_FIRST}{_LETTERS}(?:(?:,? (?:and|und|y|et|e|og|och|en|i|&) |, |/){_UNIT}(?! [{_UPPER}])){{1,15}}"
)
_LOWER_CUES = (
    r"(?:my|your|his|her|the) name(?:'s| is| was)?|name\??|i am|i'm|im|this is|call me|ask|asked|tell|told|remind|thanks|"
    r"thank you|regards|cheers|dear|hi|hello|hey|contact|customer|client|patient|colleague|boss|manager|wife|husband|"
    r"son|daughter|friend|brother|sister|mother|father|uncle|aunt|mrs?|ms|dr|prof|herr|frau|assigned (?:it )?to|"
    r"belongs to|spoke (?:to|with)|talk(?:ed)? (?:to|with)|meet(?:ing)? with|met|follow up with|please call|know|"
    r"mail from|table for|shouted at|given|ich bin|ich heiße|je suis|je m'appelle|soy|me llamo|sono|mi chiamo|eu sou|"
    r"меня зовут|says|by"
)
_CUE_BEFORE_LOWER = lazy_compile(
    rf"(?<![^\W_])(?:{_LOWER_CUES})[,:=?]?[ \"'\\]{{0,3}}$", re.IGNORECASE
)
_VERB_AFTER_LOWER = lazy_compile(
    r"'s\b|:|,? (?:called|said|says|asked|asks|wrote|replied|told|shouted|lives|lived|had given|has been|is my|"
    r"is a very|and i|will be talking)\b"
)
_MIN_LENGTH_OF_LOWER = 4
_SMALL_WORD = lazy_compile(r"(?<![\w./@-])[^\W\d_A-Z]{4,24}(?:-[^\W\d_]{2,24})?(?!\w)")
_NEXT_SMALL_WORD = lazy_compile(r" ([^\W\d_A-Z]{4,24}(?:-[^\W\d_]{2,24})?)(?!\w)")
_NO_LOWER_NAMES: set[str] = set()
"""Words in small letters that are no given names."""
_CODE_AFTER = lazy_compile(r"[\w(\[{/\\=@#$%^~+|]|\.\w|::|-\w|->| ?=[^=]|</")
_HYPHEN = lazy_compile("['’-]")
_SURNAME_PREFIX = lazy_compile("(?:Mc|Mac|De|Di|Du|La|Le|Van|Fitz)(?=[^\\W\\d_a-z])")
_MIN_SCORE = 3.5
# What an initial or a patronymic between two other names adds.
_MIDDLE_NAME_SCORE = 1.5
# What a word is worth that no list has, nor that of common words.
_UNLISTED_SCORE = 1.0
# A given name of the lists that is no common word is a name wherever it stands.
_MIN_SCORE_ALONE = 3.0
_MIN_LENGTH_ALONE = 4
_CAPITAL_AFTER = lazy_compile(rf" [{_UPPER}]")
# Without a strong cue, no two words below this score are enough.
_MIN_WORD_SCORE = 2.0
_MAX_WORD_LENGTH = 24
_MAX_COMMON_WORDS = 1 << 16
_CUE_LENGTH = 48
_COMMON_WORDS: set[str] = set()
"""Capitalised words that are no names: most of those that a text has, over and over."""

# Scores of cues. After a certain one, almost any capitalized word is a name.
CERTAIN = 3.0
LIKELY = 2.0
HINT = 1.0

_TITLES = """mr mrs ms mx miss dr prof professor herr frau hr monsieur madame mme mlle señor señora señorita sr sra srta
    doña signor signora sig dott dra senhor senhora pani paní heer mevrouw господин госпожа пані κύριος κυρία""".split()
_GREETINGS = """dear cher chère liebe lieber geehrter geehrte querido querida estimado estimada caro cara gentile prezado
    prezada beste kära kære kjære szanowny szanowna drogi droga vážený vážená уважаемый уважаемая дорогой
    дорогая regards sincerely cheers yours grüße grüßen cordialement saludos atenciosamente saluti says said
    @author""".split()
_HINTS = """hi hello hey hola hallo bonjour salut olá ciao hej привет thanks thx merci danke gracias obrigado obrigada
    grazie you i'm am it's asked asks told tell met meet with from by for to and & or between under versus vs
    und et von par por ping cc contact call calls starring featuring feat kid child son daughter wife husband
    brother sister mother father uncle aunt friend colleague boss neighbour neighbor singer player director
    songwriter ceo cto founder president minister senator actor actress writer poet engineer lawyer judge doctor
    nurse assistant of copyright (c) ©""".split()

WORDS_BEFORE = (
    dict.fromkeys(_HINTS, HINT)
    | dict.fromkeys(_GREETINGS, LIKELY)
    | dict.fromkeys(_TITLES, CERTAIN)
)
"""Scores of the word right before a name, in lower case, without punctuation."""

_PHRASES = (
    r"(?:my|your|his|her|their|the|maiden|full|last|first|sur) ?name(?:s? (?:is|was)|'s)|your name\?|"
    r"(?:calls?|called|nicknamed) (?:me|him|her)|"
    r"(?:i am|i'm|is|was|man|woman|person|girl|boy|guy|someone) (?:named|called)|"
    r"ich hei(?:ß|ss)e|mein name ist|je m'appelle|mon nom est|me llamo|mi nombre es|meu nome é|me chamo|mi chiamo|"
    r"mio nome è|mijn naam is|ik heet|jag heter|mitt namn är|jeg hedder|jeg heter|mit navn er|nimeni on|a nevem|"
    r"nazywam się|na imię|jmenuji se|volám sa|меня зовут|мене звати|με λένε|benim adım"
)
PHRASE = lazy_compile(rf"(?<!\w)(?:{_PHRASES}) $", re.IGNORECASE)
PHRASE_ENDS = frozenset(
    """is was are name's me him her named called name? heiße heisse ist m'appelle est llamo es é chamo chiamo è
    heet heter är hedder er on nevem się imię se sa зовут звати λένε adım""".split()
)

_NAME_FIELDS = (
    "(?:full|first|last|given|family|middle|maiden|legal|real|display|sur|fore|birth)[ _-]?name|vor(?:- und nach)?name|"
    "nachname|familienname|prénom|nom de famille|nombre completo|apellidos?|sobrenome|nome completo|cognome|imię|"
    "nazwisko|příjmení|jméno|фамилия|имя|отчество|прізвище|όνομα|επώνυμο"
)
_ROLE_FIELDS = (
    "authors?|maintainers?|contributors?|creator|customer|client|patient|employee|assignee|reviewers?|approver|committer|"
    "owner|manager|contact(?: person)?|recipient|sender|signatory|attendees?|participant|guest|speaker|student|teacher|"
    "passenger|cardholder|account holder|beneficiary|signed|attn|by|ansprechpartner|kunde|autora?|auteur|cliente|"
    "kontakt|contatto|автор|клиент"
)
_FIELD_END = r"[\"'`*]{0,3}[ \t]{0,4}(?:[:=]|\x01|：)[ \t]{0,8}[\[({\"'`*]{0,3}$"
FIELDS = (
    (CERTAIN, lazy_compile(rf"(?<![^\W_])(?:{_NAME_FIELDS}){_FIELD_END}", re.IGNORECASE)),
    (LIKELY, lazy_compile(rf"(?<![^\W_])(?:{_ROLE_FIELDS}){_FIELD_END}", re.IGNORECASE)),
    (
        HINT,
        lazy_compile(
            rf"(?<![^\W_])(?:name|naam|nom|nombre|nome|navn|namn){_FIELD_END}", re.IGNORECASE
        ),
    ),
)
FIELD_CHARACTERS = frozenset(":=\x01：\"'`*[({")
COPYRIGHT_YEARS = lazy_compile(
    r"(?:\(c\)|©|copyright)(?: \(c\)| ©)?(?: \d{4}(?:[-–, ]{1,2}\d{4}){0,8}),?(?: by)? $",
    re.IGNORECASE,
)

ADDRESS_AFTER = lazy_compile(
    r" ?<(?!(?:no-?reply|do-?not-?reply|bot|git|support|info|admin|action)[@.+-])"
    r"[\w.+%'-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}>"
)
SAID_AFTER = lazy_compile(r",? (?:said|says|asked|replied|wrote|told)\b")
HINT_AFTER = lazy_compile(
    r"['’]s\b|['’] |,? (?:asks|tells|writes|thinks|thought|wants|had|has|lives?|lived|will|would|is|was|shouted|"
    r"whispered|answered|spent|listed|likes|loves|needs|works|worked|mentioned|suggested|noted|reviewed|approved|"
    r"agreed|joined|left|sent|called|moved|died|married|and (?:his|her|their|i)|who|himself|herself|his|her)\b|"
    r", (?:I|you|we|can|could|please|thanks|thank|your|it|do|did|are|have|this|here)\b|さん|様|氏"
)
SPEAKER = lazy_compile(r":(?: |[\"“]|\\\")\S")

FAMILY_ENDING = lazy_compile(
    r"(?:sson|ssen|dottir|dóttir|[a-z]{2}sen|[a-z]{2}mann|[a-z]{2}stein|berger|feld|hauser|meier|mayer|ström|strom|qvist|"
    r"kvist|lund|gren|[a-z]{3}ov|[a-z]{2}ova|[a-z]{2}ová|[a-z]{3}ev|[a-z]{2}eva|[a-z]{2}sky|[a-z]{2}ski|wska|[a-z]ská|"
    r"skaya|cki|cka|wicz|czyk|enko|chuk|vić|[a-z]ić|[a-z]ovic|čič|č|escu|eanu|opoulos|idis|[a-z]{2}akis|shvili|adze|oglu|"
    r"oğlu|[a-zäö]{3}nen|yama|moto|mura|guchi|kawa|gawa|zaki|saki|bayashi|shima|jima|yeva|yev|ов|ова|ев|ева|ский|ская|енко|чук|όπουλος|"
    r"ίδης|άκης)$"
)
"""Endings of family names that few other words have."""
PATRONYMIC = lazy_compile(r"(?:ович|евич|ьич|овна|евна|ична|івна|йович)(?!\w)")

NOT_NAMES = frozenset(
    """the a an this that these those my your his her our its their and or not no yes if when where what who how
    why all any some each every one two three else ask see find edit list file line first other many made long
    even just are is was were be been do does did can could should would has have had for from with into via per
    nor so to in on at of by as it he she they we you i san santa saint los las new fort mount lake port inc ltd
    llc gmbh corp corporation company co foundation institute university college school bank group holdings
    limited plc ag sarl bv oy project team authors contributors developers software systems labs studio street
    avenue road airport hospital hotel island river city county state doe mustermann""".split()
)
"""Words that are no names, though some lists of names have them."""

_CHINESE_FAMILY = (
    "欧阳|司马|上官|诸葛|夏侯|东方|皇甫|尉迟|公孙|慕容|令狐|"
    "[王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜"
    "范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文張劉陳楊趙黃吳孫馬羅鄭謝韓馮許呂蘇盧]"
)
_KOREAN_FAMILY = "[김이박최정강조윤장임한오서신권황안송류전홍고문양손배백허유남심노하곽성차주우구민진지엄채원천방공]"
_CHINESE = rf"(?:{_CHINESE_FAMILY})[一-鿿]{{1,2}}"
_SEPARATOR = r"[是为為は은는:：\x01=]{0,2}[ 　]{0,2}[\"“「]?"

_CERTAIN_ASIAN = lazy_compile(
    rf"(?:姓名|名字|联系人|聯絡人|收件人|作者|患者|我叫){_SEPARATOR}(?P<zh>{_CHINESE})(?![一-鿿])|"
    rf"(?<![一-鿿])(?P<title>{_CHINESE})(?=先生|女士|小姐|老师|同学|教授|经理|医生)|"
    rf"(?:氏名|お名前|名前|担当者?|著者){_SEPARATOR}"
    r"(?P<ja>[一-鿿]{1,4}[ 　]?[一-鿿ぁ-ゖァ-ヴー]{1,4})(?=$|[\s、。」\"です])|"
    rf"(?:이름|성명|담당자|저는){_SEPARATOR}(?P<ko>{_KOREAN_FAMILY}[가-힣]{{2}})(?=$|[\s,.\"]|입니다|이고|이에요)|"
    rf"(?<![가-힣])(?P<polite>{_KOREAN_FAMILY}[가-힣]{{2}})(?= ?[씨님](?![가-힣]))"
)
_JAPANESE_HONORIFIC = lazy_compile(r"(?<![一-鿿])([一-鿿]{2,4})(?=さん|様|氏|くん|ちゃん)")
# Names in email addresses: torvild.enqvist, torvild_enqvist7, TorvildEnqvist.
_SPELLED_NAME = re.compile(
    r"([A-Za-z]{3,16})[._-]([A-Za-z]{3,16})[0-9]{0,4}|([A-Z][a-z]{2,15})([A-Z][a-z]{2,15})[0-9]{0,4}"
)
_FEW_WORDS = 64


class NameSearch:
    """Search a text once, then return its names one by one, like a matcher of a pattern."""

    def __init__(self) -> None:
        self._text = b""
        self._spans: list[tuple[int, int]] = []

    def find_spans(self, text: bytes, position: int) -> list[tuple[int, int]] | None:
        """Return the span of the next name from a position on, in bytes; None without one."""
        if text is not self._text:
            self._text = text
            self._spans = _find_byte_spans(text)
            self._spans.reverse()
        while self._spans:
            start, end = self._spans.pop()
            if start >= position:
                return [(start, end)]
        return None


def _find_byte_spans(text: bytes) -> list[tuple[int, int]]:
    line = text.decode("utf-8", "surrogatepass")
    if len(line) == len(text):
        return find_names(line)
    spans = []
    last = 0
    size = 0
    for start, end in sorted(find_names(line) + _find_asian_names(line)):
        size += _count_bytes(line[last:start])
        spans.append((size, size + _count_bytes(line[start:end])))
        last = start
    return spans


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def select_lines_with_cues(data: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return those of some lines in which a word makes a name likely."""
    lines = [data[start:end] for start, end in spans]
    joined = b"\n".join(lines)
    words = _find_likely_words(joined.decode("utf-8", "surrogatepass"))
    if not words:
        return []
    numbers: Iterable[int] = range(len(lines))
    # Of many words, as in a list of people, to search for each would take ever longer.
    if len(words) <= _FEW_WORDS:
        numbers = _find_lines_with_words(words, joined, lines)
    selected = []
    for number in numbers:
        words_of_line = find_capitalized(lines[number].decode("utf-8", "surrogatepass"))
        if not words.isdisjoint(words_of_line):
            selected.append(spans[number])
    return selected


def _find_lines_with_words(words: set[str], joined: bytes, lines: list[bytes]) -> list[int]:
    """Return the numbers of the lines that contain one of the words, even within another."""
    ends = list(accumulate(len(line) + 1 for line in lines))
    numbers = set()
    for word in map(str.encode, words):
        position = joined.find(word)
        while position >= 0:
            number = bisect_right(ends, position)
            numbers.add(number)
            position = joined.find(word, ends[number])
    return sorted(numbers)


def _find_likely_words(text: str) -> set[str]:
    """Return the words that make a name likely; without any, only a strong cue does."""
    found = set(find_capitalized(text))
    found -= _COMMON_WORDS
    if not found:
        return found
    likely = set()
    for word in found:
        if len(word) <= _MAX_WORD_LENGTH and max(_score_word(word)) >= _MIN_WORD_SCORE:
            likely.add(word)
    if len(_COMMON_WORDS) > _MAX_COMMON_WORDS:
        _COMMON_WORDS.clear()
    _COMMON_WORDS.update(found - likely)
    return likely


def find_capitalized(text: str) -> list[str]:
    """Return the words of a text that begin as names do."""
    return (_PLAIN_WORD if text.isascii() else _WORD).findall(text)


def list_name_parts(raw: bytes) -> list[str]:
    """Return a full name and its parts that refer to the same person wherever they occur."""
    name = raw.decode("utf-8", "surrogatepass")
    return [name, *split_name(name)] if " " in name else []


def split_name(name: str) -> list[str]:
    """Return the parts of a full name that refer to the same person by themselves."""
    if " " not in name:
        return []
    parts = []
    for part in name.split():
        is_long = len(part) >= 4 and part[0].isupper()
        if is_long and strip_accents(part) not in load_common_words():
            parts.append(part)
    return parts


def find_names_in_email(raw: bytes) -> list[str]:
    """Return the full name that an email address spells, as it is written elsewhere."""
    local_part = raw.decode("utf-8", "replace").partition("@")[0].partition("+")[0]
    match = _SPELLED_NAME.fullmatch(local_part)
    if not match:
        return []
    words = [part.capitalize() for part in match.groups() if part]
    if not all(map(_may_be_name, words)):
        return []
    return [" ".join(words), "  ".join(words)]


class _Token(NamedTuple):
    start: int
    end: int
    given: float
    family: float
    is_initial: bool


def find_names(line: str) -> list[tuple[int, int]]:
    """Return the spans of names in a line, in order."""
    spans: list[tuple[int, int]] = []
    count = 0
    for run in _RUN.finditer(line):
        text = run[0]
        count += 1
        # Most capitalized words are alone and no names: one look-up is enough.
        if " " in text or len(text) > _MAX_WORD_LENGTH or _may_be_name(text):
            spans += _iter_names(line, run.start(), run.end())
    known = set(spans)
    listed = _find_listed_names(line) if count > 1 or "/" in line else ()
    for span in (*listed, *_find_lower_names(line)):
        if not any(span[0] < end and start < span[1] for start, end in known):
            known.add(span)
    return sorted(known)


def _find_listed_names(line: str) -> Iterator[tuple[int, int]]:
    """Yield the names of an enumeration of single words, most of which the lists have."""
    for match in _ENUMERATION.finditer(line):
        if _CODE_AFTER.match(line, match.end()):
            continue
        parts = list(_PART.finditer(line, match.start(), match.end()))
        words = [part[0] for part in parts]
        if any(strip_accents(word) in load_names().ordinary for word in words):
            continue
        scores = [max(_score_word(word)) for word in words]
        listed = sum(score >= _MIN_WORD_SCORE for score in scores)
        if min(scores) > 0 and 2 * listed >= len(scores) and len(scores) > 1:
            yield from (part.span() for part in parts)


def _find_lower_names(line: str) -> Iterator[tuple[int, int]]:
    """Yield names in small letters behind or before words that leave little doubt."""
    words = set(_SMALL_WORD.findall(line)) - _NO_LOWER_NAMES - load_common_words()
    if not words:
        return
    # Most words are none, and the same ones come again and again.
    no_names = {word for word in words if not _is_lower_given(word)}
    if len(_NO_LOWER_NAMES) > _MAX_COMMON_WORDS:
        _NO_LOWER_NAMES.clear()
    _NO_LOWER_NAMES.update(no_names)
    if len(no_names) == len(words):
        return
    end = 0
    for match in _SMALL_WORD.finditer(line):
        if match.start() < end or match[0] in _NO_LOWER_NAMES or match[0] in load_common_words():
            continue
        start, end = match.span()
        following = _NEXT_SMALL_WORD.match(line, end)
        if following and _is_lower_family(following[1]):
            end = following.end()
        if _CODE_AFTER.match(line, end):
            continue
        before = line[max(0, start - _CUE_LENGTH) : start]
        if _VERB_AFTER_LOWER.match(line, end) or _CUE_BEFORE_LOWER.search(before):
            yield start, end


def _is_lower_given(word: str) -> bool:
    return (
        len(word) >= _MIN_LENGTH_OF_LOWER and _score_word(word.capitalize())[0] >= _MIN_SCORE_ALONE
    )


def _is_lower_family(word: str) -> bool:
    is_ordinary = strip_accents(word) in load_names().ordinary
    return len(word) >= _MIN_LENGTH_OF_LOWER and not is_ordinary


def _find_asian_names(line: str) -> list[tuple[int, int]]:
    """Return the spans of Chinese, Japanese and Korean names in a line."""
    spans = [match.span(match.lastgroup or 0) for match in _CERTAIN_ASIAN.finditer(line)]
    family_names = load_names().family
    for match in _JAPANESE_HONORIFIC.finditer(line):
        if match[1] in family_names or match[1][:2] in family_names:
            spans.append(match.span(1))
    return spans


def _iter_names(line: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of names in a run of capitalized words."""
    tokens = [
        _build_token(match[0], match.start(), match.end())
        for match in _PART.finditer(line, start, end)
    ]
    if _CODE_AFTER.match(line, end):
        tokens.pop()
    position = 0
    while position < len(tokens):
        first = tokens[position]
        if max(first.given, first.family) > 0:
            last = _find_last_token(tokens, position)
            cue = _score_text_before(line, first.start)
            while last >= position and not _is_name(line, tokens[position : last + 1], cue):
                last -= 1
            if last >= position:
                yield first.start, tokens[last].end
                position = last
        position += 1


def _find_last_token(tokens: list[_Token], first: int) -> int:
    """Return the last token that may belong to the name that begins with a token."""
    last = first
    while last + 1 < len(tokens) and last - first < 3:
        following = tokens[last + 1]
        if not following.is_initial and following.family <= 0:
            break
        last += 1
    while last > first and tokens[last].is_initial:
        last -= 1
    return last


def _is_name(line: str, tokens: list[_Token], score_before: float) -> bool:
    first = tokens[0]
    last = tokens[-1]
    score_after = _score_text_after(line, last.end)
    cues = max(score_before, score_after)
    if score_before and score_after:
        cues += 0.5
    if len(tokens) == 1:
        return _is_single_name(line, first, cues)
    has_initial = any(token.is_initial for token in tokens)
    if has_initial or PATRONYMIC.search(line, first.end, last.end):
        cues += _MIDDLE_NAME_SCORE
    score = first.given + max(last.family, last.given * 0.8)
    if last.given >= 1:  # the family name may come first
        score = max(score, (first.family + last.given) * 0.9)
    return score + cues >= _MIN_SCORE


def _is_single_name(line: str, token: _Token, cues: float) -> bool:
    is_line_start = token.start < _CUE_LENGTH and not line[: token.start].strip()
    if not cues and is_line_start and SPEAKER.match(line, token.end):
        cues = HINT
    is_long = token.end - token.start >= _MIN_LENGTH_ALONE
    # Further capitals make it a street, a company or a title.
    if token.given >= _MIN_SCORE_ALONE and is_long and not _CAPITAL_AFTER.match(line, token.end):
        return True
    if not cues:
        return False
    score = max(token.given, token.family * 0.8)
    min_score = _MIN_SCORE if cues >= CERTAIN or score >= 2.5 else _MIN_SCORE + 0.5
    return score + cues >= min_score


def _score_text_before(line: str, start: int) -> float:
    """Return the score of the cue right before a position."""
    character = line[start - 1 : start]
    tail_start = max(0, start - _CUE_LENGTH)
    if character == " ":
        word_start = line.rfind(" ", tail_start, start - 1) + 1
        word = line[word_start : start - 1].lower().strip(".,(\"'*")
        if word in PHRASE_ENDS and PHRASE.search(line[tail_start:start]):
            return CERTAIN
        if word[-1:].isdigit() and COPYRIGHT_YEARS.search(line[tail_start:start]):
            return HINT
        score = WORDS_BEFORE.get(word, 0.0)
        if score or word[-1:] not in FIELD_CHARACTERS:
            return score
    elif character not in FIELD_CHARACTERS:
        return 0.0
    tail = line[tail_start:start]
    for score, field in FIELDS:
        if field.search(tail):
            return score
    return 0.0


def _score_text_after(line: str, end: int) -> float:
    if ADDRESS_AFTER.match(line, end):
        return CERTAIN
    if SAID_AFTER.match(line, end):
        return LIKELY
    return HINT if HINT_AFTER.match(line, end) else 0.0


def _may_be_name(word: str) -> bool:
    """Return whether a word is not a common one, so that it may be a part of a name."""
    return max(_score_word(word)) > 0


@functools.lru_cache(maxsize=1 << 15)
def _score_word(word: str) -> tuple[float, float]:
    """Return the scores of a word as a given and as a family name; negative for common words."""
    return _score_by_lists(word, load_names())


def _score_by_lists(word: str, names: NameTables) -> tuple[float, float]:
    lowered = word.casefold()
    bare = strip_accents(word)
    is_upper = word.isupper()
    if bare in NOT_NAMES or not (_has_name_shape(word) or (is_upper and len(word) > 3)):
        return -3.0, -3.0
    pieces = bare.split("-")
    is_given = _is_listed(lowered, bare, pieces, names.given)
    is_family = _is_listed(lowered, bare, pieces, names.family)
    if all(piece in names.ordinary for piece in pieces):
        given = 1.0 if is_given else -3.0
        family = 0.8 if is_family and len(word) > 3 else -3.0
        return given, family
    if is_upper and not (is_given or is_family):
        return -3.0, -3.0
    given = 3.0 if is_given else _UNLISTED_SCORE
    if is_family:
        family = 2.5
    elif FAMILY_ENDING.search(lowered) or PATRONYMIC.search(lowered):
        family = 2.0
    else:
        family = _UNLISTED_SCORE
    return given, family


def _is_listed(lowered: str, bare: str, pieces: list[str], names: Container[str]) -> bool:
    if bare in names or (lowered != bare and lowered in names):
        return True
    return len(pieces) > 1 and all(piece in names for piece in pieces)


def _has_name_shape(word: str) -> bool:
    """Return whether a word is written like Anna, McCoy, O'Neill or Garcia-Lopez, not GitHub."""
    parts = _HYPHEN.split(_SURNAME_PREFIX.sub("", word, count=1))
    if not parts[0][:1].isupper():
        return False
    return all(part[1:].islower() or (len(part) == 1 and len(parts) > 1) for part in parts)


def _build_token(word: str, start: int, end: int) -> _Token:
    if len(word) > _MAX_WORD_LENGTH:
        return _Token(start, end, -3.0, -3.0, False)
    if len(word) == 1 or word[1] == ".":
        return _Token(start, end, 0.0, 0.0, True)
    given, family = _score_word(word)
    return _Token(start, end, given, family, False)
