"""Accounts that are made of a person's name, and those of projects and programs."""

import pytest

from open_token.redaction.detector import Detector
from open_token.redaction.person_names.account_names import is_name_like
from open_token.redaction.ruleset import load_rules


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_rules("pii"), engine="keywords")


def find_values(detector: Detector, text: str) -> list[str]:
    raw = text.encode()
    return [item.get_value(raw) for _, findings in detector.find([text]) for item in findings]


@pytest.mark.parametrize(
    "account", ["ingrid.solberg", "matteorossi", "mrossi", "matteo-r", "matteo99", "KeijoSalmela"]
)
def test_an_account_with_a_name(account: str) -> None:
    assert is_name_like(account)


@pytest.mark.parametrize(
    "account", ["facebook", "angular", "pytest-dev", "openai", "numpy", "my_project", "x"]
)
def test_an_account_without_a_name(account: str) -> None:
    assert not is_name_like(account)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("https://www.linkedin.com/in/qzorvat/", "qzorvat"),
        ("qzorvat@laptop:~$ ls", "qzorvat"),
        ("uid=1000(qzorvat) groups=4(adm)", "qzorvat"),
        ("~qzorvat/public_html", "qzorvat"),
        ("see https://github.com/matteorossi/notes", "matteorossi"),
        ("ping @ingrid-solberg on Slack", "ingrid-solberg"),
        ("user: Ingrid Solberg", "Ingrid Solberg"),
    ],
)
def test_accounts_are_found(detector: Detector, text: str, value: str) -> None:
    assert find_values(detector, text) == [value]


@pytest.mark.parametrize(
    "text",
    [
        "https://github.com/facebook/react",
        "npm install @matteo/parser",
        "@dataclass",
        "root@host:~# ls",
        "uid=0(root)",
        "cd ~/src/x",
    ],
)
def test_projects_and_system_accounts_are_left(detector: Detector, text: str) -> None:
    assert find_values(detector, text) == []
