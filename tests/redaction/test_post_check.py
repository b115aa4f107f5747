"""The post-check stops an export in which a value survived, without revealing it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from open_token.cli import main
from open_token.errors import OpenTokenError
from open_token.redaction import masker
from open_token.redaction.detector import Detector
from open_token.redaction.found_values import FoundValues
from open_token.redaction.post_check import PostCheck
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_rules

RULES = load_rules("secrets")
TOKEN = fill_placeholders("ghp_{alnum:36}", "guard")[0]
PASSWORD = fill_placeholders("{pass:16}", "guard")[0]


def guard(engine: str, *known: str) -> PostCheck:
    found = FoundValues()
    for value in known:
        found.add(value, 0, next(rule for rule in RULES if rule.id == "assigned-password"))
    return PostCheck(Detector(RULES, engine=engine), found)


def look(engine: str, event: dict[str, Any], *known: str) -> None:
    made: Any = {"id": "evt_000007", **event}
    guard(engine, *known)([made], msgspec.json.encode(made))


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize(
    ("event", "known"),
    [
        ({"content": {"text": f"see {TOKEN}"}}, []),
        ({"content": {"data": {"deep": [{TOKEN: 1}]}}}, []),
        ({"foreign": {"x": TOKEN}}, []),
        ({"links": {"note": TOKEN}}, []),
        ({"content": {"text": f"it was {PASSWORD}"}}, [PASSWORD]),
        ({"content": {"data": {"x": f"a\nb {PASSWORD}"}}}, [PASSWORD]),
    ],
)
def test_a_survivor_stops_it_and_is_not_reported(
    event: dict[str, Any], known: list[str], engine: str
) -> None:
    with pytest.raises(OpenTokenError) as caught:
        look(engine, event, *known)
    assert caught.value.code == "redaction.survivor"
    assert "evt_000007" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_what_must_stay_passes(engine: str) -> None:
    look(engine, {"content": {"text": "[REDACTED:github_token:0123abcd]"}})
    look(
        engine,
        {
            "links": {"call_id": TOKEN},
            "content": {"data": {"signature": TOKEN, "call_id": PASSWORD}},
        },
        PASSWORD,
    )


def test_what_stands_around_the_events_is_looked_at_too() -> None:
    with pytest.raises(OpenTokenError) as caught:
        guard("keywords").check_metadata([{"title": f"about {TOKEN}"}])
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize("words", [[], ["mode=ndjson"], ["--to", "html"]], ids=str)
def test_no_file_appears(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(masker, "mask_record", lambda record, *rest: record)
    session = tmp_path / "session.json"
    session.write_bytes(
        msgspec.json.encode(
            {"model": "m", "messages": [{"role": "user", "content": f"see {TOKEN}"}]}
        )
    )
    assert main(["export", str(session), "-o", str(tmp_path / "out"), *words]) == 3
    assert not (tmp_path / "out").exists()
    out, err = capsys.readouterr()
    assert "a value that should have been masked is still in the output" in err
    assert TOKEN not in out + err
