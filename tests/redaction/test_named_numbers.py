"""Numbers behind the word for them: the word is enough, whatever the check digits."""

import pytest

from open_token.redaction.detector import Detector
from open_token.redaction.ruleset import load_rules


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_rules("pii"), engine="keywords")


def find_values(detector: Detector, text: str) -> list[str]:
    raw = text.encode()
    return [item.get_value(raw) for _, findings in detector.find([text]) for item in findings]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Mi CUIT es 20-99999999-0", "20-99999999-0"),
        ('{"amka": "01017012345"}', "01017012345"),
        ("| Kennitala | 010170-9999 |", "010170-9999"),
        ("Isikukood\n37001010000", "37001010000"),
        ("1234567890 (UTR)", "1234567890"),
        ("身份证 110101197001011234", "110101197001011234"),
        ("numéro de compte : 12345678", "12345678"),
        ("account number 99887766", "99887766"),
        ("Kreditkarte: 1234 5678 9012 3456", "1234 5678 9012 3456"),
        ('{"card_number": "1234567890123456"}', "1234567890123456"),
        ("call me at 21 23 45", "21 23 45"),
        ("my number is 5123 8219", "5123 8219"),
    ],
)
def test_a_number_behind_its_word_is_found(detector: Detector, text: str, value: str) -> None:
    assert find_values(detector, text) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "order 1234567890123456",
        "the cardinality is 1234567890123456",
        "a nit: 12345678 lines",
        "call 2024-01-15",
        "account locked after 3 tries",
    ],
)
def test_other_numbers_are_left(detector: Detector, text: str) -> None:
    assert find_values(detector, text) == []
