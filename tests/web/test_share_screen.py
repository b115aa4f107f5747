"""What is shared is what the page shows: decided findings, own words, what is left out, both ends."""

import re
from pathlib import Path
from typing import Any

import pytest

from helpers.signers import create_key
from helpers.web_client import Answer, WebClient
from library.index.sessions import SessionFile
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.validation.validate import validate_bytes

FIRST = "11111111-aaaa-4aaa-8aaa-111111111111"
TOKEN = fill_placeholders("ghp_{alnum:36}", "share")[0]
OTHER = fill_placeholders("ghp_{alnum:36}", "other")[0]


class Share:
    """The screen of one session, as its script uses it."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        key = client.get("/web/sessions").json["sessions"][0]["key"]
        self.path = f"/web/share/{key}"
        self.state: Any = client.get(self.path).json

    def change(self, **changes: Any) -> Any:
        answer = self._client.post(self.path, {**self.state["draft"], **changes})
        assert answer.status == 200, answer.text
        self.state = answer.json
        return self.state

    def find(self, value: str) -> Any:
        for finding in self.state["findings"]:
            body = {"finding": finding["id"]}
            if self._client.post(f"{self.path}/value", body).json["value"] == value:
                return finding
        raise AssertionError("not found")

    def decide(self, decision: str, *values: str) -> None:
        decisions = {self.find(value)["id"]: decision for value in values}
        self.change(decisions={**self.state["draft"]["decisions"], **decisions})

    @property
    def page(self) -> str:
        return self._client.get(f"{self.path}/page").text

    def publish(self, to: str, **how: bool) -> Answer:
        return self._client.post(f"{self.path}/publish", {"to": to, **how})


@pytest.fixture
def share(tmp_path: Path) -> Share:
    session = SessionFile(tmp_path, FIRST, cwd=str(tmp_path / "tide"))
    session.ask(f"Fix the harbor. The token is {TOKEN}.")
    session.call("Bash", {"command": f"curl -H '{TOKEN}' harbor"}, f"ok {OTHER}")
    session.answer("Harbor is fixed.")
    session.ask("Tell sam.lee@harbor-works.org about it.")
    session.answer("Told.")
    client = WebClient(tmp_path)
    client.index()
    return Share(client)


def get_rows(page: str) -> str:
    """Return the conversation on a page, without what surrounds it."""
    main = re.search('<main id="ot-main">(.*)</main>', page, re.DOTALL)
    assert main is not None
    return re.sub('<data id="ot-version".*?</data>', "", main[1])


def test_undecided_findings_are_counted_and_masked(share: Share) -> None:
    assert share.state["undecided"] == 2
    assert [finding["decision"] for finding in share.state["findings"]] == ["", ""]
    assert TOKEN not in share.page
    assert OTHER not in share.page
    assert TOKEN not in str(share.state)
    for finding in share.state["findings"]:
        assert finding["marker"] in share.page


def test_the_published_page_has_the_rows_of_the_screen(share: Share) -> None:
    share.decide("keep", OTHER)
    share.decide("mask", TOKEN)
    share.change(words=["harbor"])
    published = share.publish("html")
    assert published.status == 200
    assert get_rows(published.text) == get_rows(share.page)
    assert OTHER in published.text
    assert TOKEN not in published.text
    assert "arbor" not in published.text
    assert published.headers["content-disposition"].endswith(".html")


@pytest.mark.parametrize("to", ["html", "markdown", "json"])
def test_publishing_asks_while_something_is_undecided(share: Share, to: str) -> None:
    asked = share.publish(to)
    assert (asked.status, asked.json["undecided"]) == (409, 2)
    confirmed = share.publish(to, is_confirmed=True)
    assert confirmed.status == 200
    assert TOKEN not in confirmed.text
    share.decide("mask", TOKEN, OTHER)
    assert share.publish(to).status == 200


def test_a_document_is_valid_and_verifies(share: Share) -> None:
    share.decide("keep", TOKEN, OTHER)
    prompts = [prompt["id"] for prompt in share.state["prompts"]]
    share.change(end=prompts[1])
    written = share.publish("json").body
    assert validate_bytes(written) == []
    assert verify_bytes(written).status == VERIFIED
    assert TOKEN.encode() in written
    assert b"Told" not in written


def test_a_word_of_ones_own_is_masked_and_locked(share: Share) -> None:
    state = share.change(words=["harbor-works"])
    word = next(finding for finding in state["findings"] if finding["type"] == "word")
    assert (word["decision"], word["lock"]) == ("mask", "you marked this word")
    share.change(decisions={word["id"]: "keep"})
    assert "harbor-works" not in share.page
    assert state["undecided"] == 2


def test_rows_are_left_out_and_put_back(share: Share) -> None:
    row = re.findall(r'id="(evt_\d+)"><summary><span class="k"[^>]*>Bash', share.page)[0]
    state = share.change(dropped=[row])
    assert "curl" not in share.page
    assert [event["label"] for event in state["left_out"]] == ["assistant: Bash"]
    assert "left out by choice" in share.page
    share.change(dropped=[])
    assert "curl" in share.page


def test_both_ends_can_be_cut(share: Share) -> None:
    prompts = [prompt["id"] for prompt in share.state["prompts"]]
    share.change(first=prompts[1])
    assert "Harbor is fixed" not in share.page
    assert "Told." in share.page
    assert len(share.state["prompts"]) == 2
    assert share.state["findings"] == []


def test_the_level_changes_what_is_found(share: Share) -> None:
    assert "sam.lee" in share.page
    state = share.change(level="pii")
    assert {finding["type"] for finding in state["findings"]} >= {"github_token", "email"}
    assert "sam.lee" not in share.page


def test_the_page_learns_what_has_changed(share: Share) -> None:
    version = re.findall('id="ot-version" value="([^"]*)"', share.page)[0]
    assert version == share.state["version"]
    share.decide("keep", TOKEN)
    client = share._client
    change = client.get(f"{share.path}/change?version={version}").json
    assert change["version"] == share.state["version"]
    assert TOKEN in str(change["blocks"])
    assert client.get(f"{share.path}/change?version={change['version']}").json is None


def test_a_false_positive_is_remembered_when_it_is_published(share: Share, tmp_path: Path) -> None:
    share.decide("false for good", TOKEN, OTHER)
    allowed = tmp_path / "open-token" / "settings" / "allow.toml"
    assert not allowed.exists()
    assert share.publish("markdown").status == 200
    assert allowed.read_text().count("hmac:") == 2


def test_a_document_is_signed_if_there_is_a_key(tmp_path: Path) -> None:
    session = SessionFile(tmp_path, FIRST, cwd=str(tmp_path))
    session.ask("Nothing secret.")
    unsigned = WebClient(tmp_path)
    unsigned.index()
    assert Share(unsigned).state["signer"] == ""
    refused = Share(unsigned).publish("json", is_signed=True)
    assert (refused.status, refused.json["error"]) == (400, "no signing key was given")
    key = create_key(tmp_path)
    (tmp_path / "open-token" / "settings" / "config.toml").write_text(f'sign_key = "{key}"\n')
    signed = WebClient(tmp_path)
    signed.index()
    screen = Share(signed)
    assert screen.state["signer"] == key.name
    written = screen.publish("json", is_signed=True)
    assert b'"signatures"' in written.body
    assert verify_bytes(written.body).status == VERIFIED
    assert screen.publish("html", is_signed=True).status == 400


@pytest.mark.parametrize(
    "changes",
    [
        {"level": "none"},
        {"media": "some"},
        {"decisions": {"x": "perhaps"}},
        {"words": ["x"]},
        {"dropped": ["evt"] * 100_001},
        {"dropped": 5},
    ],
)
def test_what_no_screen_sends_is_refused(share: Share, changes: Any) -> None:
    answer = share._client.post(share.path, {**share.state["draft"], **changes})
    assert answer.status == 400
    assert share._client.post(f"{share.path}/value", {"finding": "nobody"}).status == 400
    assert share.publish("pdf").status == 400
