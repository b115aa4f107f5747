"""Redaction of a conversation that is still going on."""

from typing import Any

from open_token.context import Context, Policy
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.live import LiveRedaction

SECRET = "gh" + "p_" + "Zx8vK2mQ9rT4wY7uJ1nB5cD3fG6hL0pS2aEo"
PEOPLE: list[Any] = [{"actor_id": "act_001", "kind": "human", "name": "user"}]


def event(text: str) -> Any:
    return {
        "id": "evt_000001",
        "seq": 0,
        "type": "message",
        "actor_id": "act_001",
        "visibility": "public",
        "role": "user",
        "content": {"mime": "text/plain", "text": text},
    }


def live(
    key: bytes | None = bytes(32), policy: Policy | None = None, **words: str
) -> LiveRedaction:
    return LiveRedaction(Context(ExportOptions.of(words), key=key, policy=policy or Policy()))


def texts(events: list[Any]) -> list[str]:
    return [item["content"]["text"] for item in events]


def test_a_value_found_once_is_masked_in_all_that_follows() -> None:
    redaction = live()
    (first,) = texts(redaction.redact_events([event(f"password: {SECRET}")], "session"))
    (second,) = texts(redaction.redact_events([event(f"what is {SECRET}?")], "session"))
    assert SECRET not in first + second
    assert first.split("[REDACTED:")[1][:20] == second.split("[REDACTED:")[1][:20]
    final = redaction.redact_metadata(Record({"id": "session", "title": SECRET}, PEOPLE, ()))
    assert SECRET not in str(final.conversation)
    assert final.conversation["redaction"]["mode"] == "secrets"
    assert final.conversation["redaction"]["notes"]


def test_nothing_found_is_said_too() -> None:
    redaction = live()
    assert texts(redaction.redact_events([event("hello")], "session")) == ["hello"]
    assert (
        redaction.redact_metadata(Record({"id": "session"}, PEOPLE, ())).conversation["redaction"][
            "notes"
        ]
        == []
    )


def test_none_touches_nothing() -> None:
    redaction = live(redact="none")
    assert texts(redaction.redact_events([event(SECRET)], "session")) == [SECRET]
    assert (
        "redaction"
        not in redaction.redact_metadata(Record({"id": "session"}, PEOPLE, ())).conversation
    )


def test_the_policy_holds() -> None:
    assert SECRET not in str(
        live(policy=Policy(min_redact="secrets"), redact="none").redact_events(
            [event(SECRET)], "session"
        )
    )


def test_without_a_key_nothing_of_the_value_is_reported() -> None:
    (masked,) = texts(live(key=None).redact_events([event(SECRET)], "session"))
    assert ":00000000]" in masked
