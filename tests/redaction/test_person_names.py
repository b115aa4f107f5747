"""Names of people are found by lists and context in many languages, and not in code or products."""

import gzip
import hashlib
import json
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.growth import grows_linearly
from open_token.context import Context
from open_token.model.document import Event, Record
from open_token.options import ExportOptions
from open_token.redaction.detector import Detector
from open_token.redaction.markers import MARKER
from open_token.redaction.person_names import name_lists, recognizer
from open_token.redaction.person_names.recognizer import (
    LIKELY,
    WORDS_BEFORE,
    NameSearch,
    find_names,
    select_lines_with_cues,
    split_name,
)
from open_token.redaction.prefilter import KeywordPrefilter, get_matcher
from open_token.redaction.redactor import redact
from open_token.redaction.ruleset import load_rules

needs_lists = pytest.mark.skipif(
    name_lists.find_names_folder() is None, reason="the package mimesis is not installed"
)
PERSON = tuple(rule for rule in load_rules("pii") if rule.type == "person")
FAST, SLOW = (Detector(PERSON, engine=engine) for engine in ("hyperscan", "keywords"))


def lines_with_names(data: bytes) -> list[tuple[int, int]]:
    return select_lines_with_cues(data, KeywordPrefilter(PERSON).find_lines(0, data))


def names(text: str) -> list[str]:
    """The names in a text, on which both engines must agree."""
    fast, slow = (detector.find([text]) for detector in (FAST, SLOW))
    assert fast == slow
    raw = text.encode()
    return [raw[item.start : item.end].decode() for _, findings in fast for item in findings]


def forget() -> None:
    for kept in (
        name_lists.find_names_folder,
        name_lists.load_name_lists,
        name_lists.load_names,
        recognizer._score_word,
    ):
        kept.cache_clear()
    for detector in (FAST, SLOW):
        detector._remembered.clear()
        detector._window_matches.clear()
    recognizer._COMMON_WORDS.clear()


@pytest.fixture
def without_lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(name_lists, "_PACKAGE", "no_such_package")
    forget()
    yield
    monkeypatch.undo()
    forget()


BY_CONTEXT = [
    ("Torvalin Qvistberg wrote it", ["Torvalin Qvistberg"]),
    ("my name is Torvild Enqvist.", ["Torvild Enqvist"]),
    ("ask Mrs. Ekelund-Ros", ["Ekelund-Ros"]),
    ("first_name: Torvild", ["Torvild"]),
    ('{"last_name": "Enqvist"}', ["Enqvist"]),
    ("family_name\x01Enqvist", ["Enqvist"]),
    ("Signed-off-by: Torvild Enqvist <t@mail.test>", ["Torvild Enqvist"]),
    ("je m'appelle Torvild", ["Torvild"]),
    ("Ich heiße Torvild", ["Torvild"]),
    ("Меня зовут Торвильд", ["Торвильд"]),
    ("Торвильд Сергеевич Прошутинский", ["Торвильд Сергеевич Прошутинский"]),
    ("我叫王小明。", ["王小明"]),
    ("联系人：李娜，电话", ["李娜"]),
    ("氏名：田中 太郎", ["田中 太郎"]),
    ("이름은 김민수입니다", ["김민수"]),
]
BY_LISTS = [
    ("Thanks to Jennifer Lopes for the review", ["Jennifer Lopes"]),
    ("Wolfgang Schmidt is here", ["Wolfgang Schmidt"]),
    ("João da Silva e outros", ["João da Silva"]),
    ("met Katarzyna Nowak-Kowalska there", ["Katarzyna Nowak-Kowalska"]),
    ("Ольга Иванова сказала", ["Ольга Иванова"]),
    ("directed by Mark Johnson.", ["Mark Johnson"]),
    ("Copyright (c) 2011-2013 Isabella J. Ferreira", ["Isabella J. Ferreira"]),
    ("JENNIFER JOHNSON", ["JENNIFER JOHNSON"]),
    ("Hi Jennifer, could you look at it?", ["Jennifer"]),
    ("Jennifer's idea", ["Jennifer"]),
    ("Jennifer: what is this?", ["Jennifer"]),
    ("Ask Jennifer O'Connor", ["Jennifer O'Connor"]),
    ("田中さんに聞く", ["田中"]),
]
NOBODY = [
    "Hello World",
    "Next Steps",
    "Visual Studio Code and Claude Code",
    "from Monday to Friday, January to May",
    "New York, San Francisco and Paris",
    "class JenniferJohnson(Base):",
    "jennifer_johnson = Jennifer.Johnson()",
    "src/Jennifer/Johnson.py",
    "Jennifer.Johnson",
    "Author: the team",
    "Co-Authored-By: Claude <noreply@mail.test>",
    "Dear Customer",
    "John Doe",
    "Copyright (c) 2020 Mozilla Foundation",
    "Travis CI and Jenkins run Julia with Jackson",
    "(for fast startup prior to Mac OS X 10.3)",
    "The Quebec Sales Tax ID number",
    "my name is not in the list",
    "Name: PostgreSQL Server",
    "Error: Connection Refused by Docker Compose",
    "お客様",
    "attribute_author: True",
    "San Francisco Bay Area weather",
    "[REDACTED:person:0123abcd]",
]


@pytest.mark.parametrize(("text", "expected"), BY_CONTEXT)
def test_context_gives_a_name_away(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(("text", "expected"), BY_CONTEXT)
@pytest.mark.usefixtures("without_lists")
def test_context_is_enough_without_lists(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@needs_lists
@pytest.mark.parametrize(("text", "expected"), BY_LISTS)
def test_lists_know_a_name(text: str, expected: list[str]) -> None:
    assert names(text) == expected


@pytest.mark.parametrize("text", NOBODY)
def test_nobody_is_masked(text: str) -> None:
    assert names(text) == []


@pytest.mark.usefixtures("without_lists")
@pytest.mark.parametrize("text", NOBODY + [text for text, _ in BY_LISTS[:6]])
def test_without_lists_a_name_without_context_stays(text: str) -> None:
    assert names(text) == []


@given(st.text(alphabet="Aa Z'-.s_/9", max_size=16))
def test_words_of_plain_text_are_those_of_any(text: str) -> None:
    assert recognizer.find_capitalized(text) == recognizer._WORD.findall(text)


def test_the_parts_of_a_name_are_those_that_are_no_words() -> None:
    assert split_name("Torvild van der Enqvist") == ["Torvild", "Enqvist"]
    assert split_name("Mark Enqvist") == ["Enqvist"]
    assert split_name("Torvild") == []


def record(*texts: str) -> Record:
    events: list[Event] = [
        {
            "id": f"e{n}",
            "seq": n,
            "type": "message",
            "content": {"mime": "text/plain", "text": text},
        }
        for n, text in enumerate(texts, 1)
    ]
    return Record(conversation={"id": "c"}, participants=[], events=events)


def masked(
    *texts: str, level: str = "pii", cache: Path | None = None
) -> tuple[list[str], dict[str, Any]]:
    context = Context(ExportOptions.of({"redact": level}), key=bytes(32), rule_cache=cache)
    done = redact(record(*texts), context, "keywords")
    return [event["content"]["text"] for event in done.events], dict(done.conversation["redaction"])


def test_a_full_name_and_its_parts_are_masked_wherever_they_recur() -> None:
    texts, account = masked(
        "my name is Torvild Enqvist", "git blame Enqvist", "so Torvild Enqvist did it", "torvild"
    )
    assert not any("Enqvist" in text for text in texts)
    assert texts[3] == "torvild"
    assert texts[0].removeprefix("my name is ") == texts[2][3:-7]
    assert "masked 3 person (2 distinct values)" in account["notes"]


def test_accents_apart_from_their_letters_are_a_part_of_the_name() -> None:
    texts, _ = masked(
        unicodedata.normalize(
            "NFD", "my name is Zoë Müller-Lüdenscheidt, ask Zoë Müller-Lüdenscheidt"
        )
    )
    assert MARKER.sub("#", texts[0]) == "my name is #, ask #"


def test_a_name_that_stood_alone_is_masked_there_only() -> None:
    texts, _ = masked("my name is Torvild", "the Torvild engine")
    assert "Torvild" not in texts[0]
    assert texts[1] == "the Torvild engine"


def test_names_are_left_at_lower_levels() -> None:
    texts, _ = masked("my name is Torvild Enqvist", level="secrets")
    assert texts == ["my name is Torvild Enqvist"]


@pytest.mark.usefixtures("without_lists")
def test_an_account_says_when_the_lists_are_missing() -> None:
    remark = (
        "people's names were looked for by a short list alone: the package mimesis is not installed"
    )
    assert masked("nothing here")[1]["notes"] == [remark]
    assert masked("my name is Torvild")[1]["notes"] == [
        "masked 1 person (1 distinct value)",
        remark,
    ]
    assert masked("nothing here", level="secrets")[1]["notes"] == []


@needs_lists
def test_an_account_says_nothing_when_they_are_there() -> None:
    assert masked("nothing here")[1]["notes"] == []


def test_damaged_lists_are_no_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "damaged_names" / "datasets" / "en"
    folder.mkdir(parents=True)
    (tmp_path / "damaged_names" / "__init__.py").write_text("raise SystemExit")
    (folder / "person.json").write_text('{"names": {"male": [1, "Torvild", null]}, "surnames": 7}')
    (tmp_path / "damaged_names" / "datasets" / "de").mkdir()
    (tmp_path / "damaged_names" / "datasets" / "de" / "person.json").write_text("{")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(name_lists, "_PACKAGE", "damaged_names")
    forget()
    try:
        damaged = name_lists.load_name_lists()
        monkeypatch.setattr(name_lists, "_PACKAGE", "no_such_package")
        forget()
        own = name_lists.load_name_lists()
        assert damaged.given - own.given == {"torvild"}
        assert damaged.family == own.family
    finally:
        monkeypatch.undo()
        forget()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Wolfgang hat das schon gemacht", ["Wolfgang"]),
        ("on call: Ingrid/Matteo", ["Ingrid", "Matteo"]),
        ("Attendees: Ingrid, Xyloma and Matteo", ["Ingrid", "Xyloma", "Matteo"]),
        ("my name is ingrid solberg", ["ingrid solberg"]),
        ("please call matteo back", ["matteo"]),
        ("matteo called yesterday", ["matteo"]),
        ("Chrome, Firefox and Safari", []),
        ("China, India and Nepal", []),
        ("Wolfgang Street is long", []),
        ("ask the server whether it runs", []),
        ("matteo.txt, see pkg/ingrid", []),
    ],
)
def test_names_alone_in_lists_and_in_small_letters(line: str, names: list[str]) -> None:
    assert [line[start:end] for start, end in find_names(line)] == names


@given(st.text(alphabet="AaÄß éŽžΩоИ'’-.,:<>@1\n王さん\x01\0\ud800", max_size=80))
def test_spans_are_in_order_and_on_whole_letters(text: str) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    search, place, last = NameSearch(), 0, 0
    while found := search.find_spans(raw, place):
        (start, end) = found[0]
        assert last <= start < end <= len(raw)
        raw[start:end].decode("utf-8", "surrogatepass")
        place = last = end


STRONG = sorted(word for word, weight in WORDS_BEFORE.items() if weight >= LIKELY)
ROLES = """author maintainer contributors creator customer patient assignee reviewers owner contact speaker by
    Ansprechpartner autora auteur cliente kontakt автор клиент first_name Surname display-name Vorname Nachname prénom
    PRÉNOM apellidos sobrenome cognome imię nazwisko příjmení jméno имя όνομα""".split()
CUES = [
    *(
        f"{start}{word}{sign} {{}} and"
        for word in STRONG
        for start, sign in (("", ""), ('say "', ","), ("x\n", "."))
    ),
    *(f"{start}{word.upper()} {{}}" for word in STRONG for start in ("", "(")),
    *(f"{role}{sign}{{}}" for role in ROLES for sign in (": ", "=", '": "', "**: ", "\x01")),
    *(
        "my name is {}",
        "the woman called {} is",
        "ich heiße {}",
        "je m'appelle {}",
        "me llamo {}",
        "volám sa {}",
    ),
    *(
        "meu nome é {}",
        "nazywam się {}",
        "меня зовут {}",
        "με λένε {}",
        "benim adım {}",
        "jmenuji se {}",
    ),
    *(
        "{} <q.x@mail.test>",
        "{}, said",
        "{} told us",
        "by {}",
        "{} has",
        "{}'s",
        "© 2024 {}",
        "{}: hm",
    ),
]
WHO = (
    "Qoxvu",
    "Qoxvu Zzyv",
    "Qoxvu B. Zzyv",
    "Qoxvu van Zzyv",
    "Élqov Zzyv",
    "Jennifer",
    "Иван Петрович Зюв",
)


@pytest.mark.parametrize("who", WHO)
def test_every_line_with_a_name_is_opened(who: str) -> None:
    """The words and the cues that open a line must be there wherever the search would find a name
    in it."""
    for cue in CUES:
        text = cue.format(who)
        for line in text.split("\n"):
            wanted = (
                find_names(line)
                if get_matcher(PERSON[0].pattern).find_spans(line.encode(), 0)
                else []
            )
            raw = line.encode()
            found = [
                (len(raw[: item.start].decode()), len(raw[: item.end].decode()))
                for _, findings in FAST._search([line])
                for item in findings
            ]
            assert found == [span for span in wanted if span[0] > line.find("\x01")], line


@pytest.mark.parametrize(
    "piece",
    [
        "A ",
        "Aa ",
        "Jennifer Johnson ",
        "A-",
        "O'",
        "Dr. ",
        "Jennifer: ",
        "A. ",
        "姓名",
        "<a@b",
        "name: Aa ",
    ],
)
def test_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    assert grows_linearly(lambda size: find_names(piece * (size // len(piece))), 40_000)


def texts_of(corpus: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(corpus / "redaction" / f"{name}.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def is_kept_apart(row: dict[str, Any]) -> bool:
    return int(hashlib.sha256(row["provider"].encode()).hexdigest(), 16) % 5 == 0


@needs_lists
def test_most_names_of_texts_that_were_kept_apart_are_found(corpus: Path) -> None:
    rows = [row for row in texts_of(corpus, "pii") if is_kept_apart(row)]
    spans = [
        (row["text"], span) for row in rows for span in row["spans"] if span["type"] == "person"
    ]
    missed = [
        1 for text, span in spans if text[span["start"] : span["end"]] not in " ".join(names(text))
    ]
    assert len(missed) < 0.4 * len(spans)


@needs_lists
@pytest.mark.parametrize("name", ["clean_real", "clean_rulefp", "clean_piifp", "clean_prose"])
def test_hardly_anything_is_taken_for_a_name(corpus: Path, name: str) -> None:
    rows = texts_of(corpus, name)
    assert len(FAST.find([row["text"] for row in rows])) <= 0.01 * len(rows)


@needs_lists
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("TorvildEnqvist@mail.test", "Torvild Enqvist"),
        ("torvild.enqvist7@mail.test", "Torvild  Enqvist"),
    ],
)
def test_a_name_from_an_email_address_is_masked_elsewhere(address: str, name: str) -> None:
    detector = Detector(load_rules("pii"), engine="keywords")
    [(_, [found])] = detector.find([f"write to {address}"])
    assert name in [value for value, _, _ in found.within]


@pytest.mark.parametrize(
    "address", ["customer.support@mail.test", "release@mail.test", "TheTeam@mail.test"]
)
def test_an_email_address_of_common_words_yields_no_name(address: str) -> None:
    detector = Detector(load_rules("pii"), engine="keywords")
    [(_, [found])] = detector.find([f"write to {address}"])
    assert found.within == ()


@needs_lists
def test_a_list_of_many_people_takes_no_longer_for_each() -> None:
    known = sorted(filter(str.isalpha, name_lists.load_name_lists().given))

    def work(size: int) -> None:
        text = "\n".join(
            f"member {name.title()} since the year {2000 + number % 20}"
            for number, name in enumerate(known[:size])
        )
        lines_with_names(text.encode())

    assert grows_linearly(work, 4_000)


@needs_lists
@pytest.mark.parametrize("count", [3, 200])
def test_the_lines_with_names_are_reported_in_bytes(count: int) -> None:
    known = sorted(
        name.title()
        for name in name_lists.load_name_lists().given
        if name.isalpha() and len(name) > 5
    )
    few = [name for name in known if recognizer._find_likely_words(name)][:count]
    text = "".join(f"ü {name} ü\nnobody here\n" for name in few)
    lines = lines_with_names(text.encode())
    result = [text.encode()[start:end].decode() for start, end in lines]
    assert result == [f"ü {name} ü" for name in few]


@needs_lists
def test_kept_names_say_what_the_lists_say(tmp_path: Path) -> None:
    sets = name_lists.load_name_tables(None)
    assert name_lists.load_name_tables(tmp_path / "cache") == sets
    kept = name_lists.load_name_tables(tmp_path / "cache")
    assert isinstance(kept.given, name_lists.Table)
    listed = sorted(
        name_lists.load_name_lists().given
        | name_lists.load_name_lists().family
        | name_lists.load_common_words()
    )[::7]
    for word in [*listed, *(f"{word}x" for word in listed), "", "\ud800", "a\n", "no such-name"]:
        assert [word in names for names in kept] == [word in names for names in sets], word
        assert recognizer._score_by_lists(word.title(), kept) == recognizer._score_by_lists(
            word.title(), sets
        )


def test_kept_names_that_are_damaged_or_open_to_others_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_lists, "find_names_folder", lambda: tmp_path)
    monkeypatch.setattr(
        name_lists,
        "load_name_lists",
        lambda: name_lists.NameLists(frozenset({"torvild"}), frozenset()),
    )
    monkeypatch.setattr(name_lists, "load_common_words", lambda: frozenset({"table"}))
    cache = tmp_path / "cache"
    name_lists.load_name_tables(cache)
    (file,) = cache.glob("names-*.table")
    whole = file.read_bytes()
    (cache / "names-of-lists-that-are-no-more.table").write_bytes(whole)
    for damage in (b"", b"names 1\n", whole[:-1], whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]):
        file.write_bytes(damage)
        assert "torvild" in name_lists.load_name_tables(cache).given
        assert file.read_bytes() == whole
        assert list(cache.iterdir()) == [file], "a table of other lists is of no use any more"
    file.chmod(0o666)
    assert not isinstance(name_lists.load_name_tables(cache).given, name_lists.Table)
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0, "what others may write is replaced"
    kept = name_lists.load_name_tables(cache)
    assert isinstance(kept.given, name_lists.Table)
    assert ("torvild" in kept.given, "torvild" in kept.family, "table" in kept.ordinary) == (
        True,
        False,
        True,
    )


def test_names_that_no_cache_can_keep_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_lists, "find_names_folder", lambda: tmp_path)
    monkeypatch.setattr(
        name_lists,
        "load_name_lists",
        lambda: name_lists.NameLists(frozenset({"torvild"}), frozenset()),
    )
    (tmp_path / "file").write_text("in the way")
    assert "torvild" in name_lists.load_name_tables(tmp_path / "file" / "cache").given
