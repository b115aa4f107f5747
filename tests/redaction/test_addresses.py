"""Street addresses are found in the forms of many countries, and not in other text with numbers."""

import gzip
import json
from pathlib import Path

import pytest

from helpers.growth import grows_linearly
from open_token.redaction.detector import Detector
from open_token.redaction.ruleset import load_rules

RULES = tuple(rule for rule in load_rules("pii") if rule.type == "address")
FAST, SLOW = (Detector(RULES, engine=engine) for engine in ("hyperscan", "keywords"))


def addresses(text: str) -> list[str]:
    """The addresses in a text, on which both engines must agree."""
    fast, slow = (detector.find([text]) for detector in (FAST, SLOW))
    assert fast == slow
    raw = text.encode()
    return [raw[item.start : item.end].decode() for _, findings in fast for item in findings]


@pytest.mark.parametrize(
    "text",
    [
        "742 Evergreen Terrace, Springfield, IL 62704",
        "Sonnenberg 45\n71751 Bad Soden",
        "Lipova 129/4, 554 16 Ostrava",
        "Via Verdi, 53 - 45543 Reggio Calabria",
        "Plot 162, Lal Bagh Road, Mysuru, 583279",
        "Flat 9, Vasant Kunj II, Delhi - 183848",
        "Mevlana Sokak No: 11, Konya",
        "2456 Northcote Avenue\n Suite 510\n Ballarat\n Australia 91234",
        "PSC 0413, Box 8144\nAPO AA 42323",
        "221B Baker Street, London NW1 6XE",
        "10 Downing Street, London, SW1A 2AA, UK",
        "120 Bremner Blvd, Toronto, ON M5J 0A8",
        "1600 Pennsylvania Avenue NW, Washington, DC 20500",
        "14 Rue de la Paix, 75002 Paris",
        "14 rue de la Paix 75002 Paris, France",
        "39 Rue du Centre 108, Masnuy-Saint-Pierre",
        "Ørbækvej 12, 5700 Svendborg",
        "Musterstraße 12a, 12345 Berlin",
        "Kaisaniemenkatu 5",
        "Erzsébet tér 19.",
        "Rua do Arenque 1634, Goiânia",
        "12 bis, rue de la Paix",
        "ul. Kwiatowa 12",
        "улица Ленина 5",
        "北京市朝阳区建国路88号",
        "東京都千代田区丸の内1丁目9番1号",
        "서울시 강남구 테헤란로 152",
    ],
)
def test_an_address_is_masked_whole(text: str) -> None:
    assert addresses(f"{text}") == [text]
    assert addresses(f"see: {text}; done") == [text]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("my new address is 03751 Gerrit Achterberghove 137.", "03751 Gerrit Achterberghove 137."),
        ("she lives at Joaquin Suarez 2906", "Joaquin Suarez 2906"),
        ("My zip code is 35649", "35649"),
        ("postcode: SW1A 1AA", "SW1A 1AA"),
        ("お客さん、東京都千代田区丸の内1-2-3まで", "東京都千代田区丸の内1-2-3"),
        ("I live at 12 Long Street", "12 Long Street"),
        ("street\x0112 Long Street", "12 Long Street"),
        ('"addressLine1": "12 Long Street"', "12 Long Street"),
    ],
)
def test_a_word_before_it_gives_an_address_away(text: str, value: str) -> None:
    assert addresses(text) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "see 4 Next Steps Walk",
        "in 3 Easy Steps Drive",
        "Gateway 2, String 5, Delegate 12, Monitoring 3",
        "Via Model 3",
        "located at Line 12",
        "sent to Node 3",
        "moved to Version 3",
        "address: 127.0.0.1",
        "address is 0x7ffe",
        "Test Suite 1203",
        "unzip 12345.zip",
        "Python 3 Release 12 Build 5",
        "第3章 道具",
    ],
)
def test_words_with_a_number_are_no_address(text: str) -> None:
    assert addresses(text) == []


@pytest.mark.parametrize(
    "piece",
    ["1 Aa Street ", "Apt. 1 A ", "Via A ", "Aa Suite 101\n", "address: 1 A ", "路1号", "Aaweg "],
)
def test_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    assert grows_linearly(lambda size: FAST._search([piece * (size // len(piece))]), 40_000)


@pytest.mark.parametrize("name", ["clean_real", "clean_rulefp", "clean_piifp", "clean_prose"])
def test_nothing_is_taken_for_an_address(corpus: Path, name: str) -> None:
    with gzip.open(corpus / "redaction" / f"{name}.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    assert FAST.find(texts) == []
