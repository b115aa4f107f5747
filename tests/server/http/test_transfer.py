"""Sessions over the wire: exported in every form, with every option; imported from anything, or refused in words."""

import io
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from open_token.checking.validate import validate
from open_token.checking.verify import verify_bytes
from open_token.options import NAMES
from whole_servers import Asking, served

EXPORT = "/api/sessions/sess_1/export"


@pytest.mark.parametrize(
    ("words", "form"), [("format=json", "json"), ("format=ndjson", "ndjson"), ("mode=json", "json")]
)
def test_a_plain_document(tmp_path: Path, words: str, form: str) -> None:
    async def test(ask: Asking) -> Any:
        await ask.talk()
        return await ask("GET", f"{EXPORT}?{words}")

    answer = served(tmp_path, test)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == f'attachment; filename="sess_1.open-token.{form}"'
    assert answer.headers["content-type"].split(";")[0] == {"json": "application/json"}.get(
        form, "application/x-ndjson"
    )
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert verify_bytes(answer.content).status == "verified"
    if form == "json":
        document = msgspec.json.decode(answer.content)
        assert [problem for problem in validate(document) if problem.severity == "error"] == []
        assert [event["type"] for event in document["events"]].count("tool_result") == 1
        assert document["conversation"]["id"] == "sess_1"


def test_options_are_obeyed(tmp_path: Path) -> None:
    async def test(ask: Asking) -> Any:
        await ask.talk()
        shown = await ask(
            "GET", f"{EXPORT}?format=json&include=include-internal&internal=full&exported-at=omit&pretty=false"
        )
        return shown, await ask("GET", f"{EXPORT}?format=json&integrity=none")

    shown, bare = served(tmp_path, test)
    assert b"Let me look." in shown.content
    assert b"exported_at" not in shown.content
    assert b"\n" not in shown.content.strip()
    assert b"Let me look." not in bare.content
    assert b"integrity" not in bare.content


def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = "gh" + "p_" + "a1B2" * 9

    async def test(ask: Asking) -> Any:
        extra = (
            "turn.opened",
            {
                "turn": {
                    "turn_id": "turn_9",
                    "role": "user",
                    "status": "completed",
                    "blocks": [{"type": "text", "content": f"my key is {secret}"}],
                }
            },
        )
        await ask.talk(extra)
        return [await ask("GET", f"{EXPORT}?format={form}") for form in ("json", "zip")]

    plain, packed = served(tmp_path, test)
    assert secret.encode() not in plain.content
    with zipfile.ZipFile(io.BytesIO(packed.content)) as opened:
        assert not any(secret.encode() in opened.read(name) for name in opened.namelist())


def test_the_zip(tmp_path: Path) -> None:
    async def test(ask: Asking) -> Any:
        await ask.talk()
        files = ask.services.workspaces.of("sess_1").folder
        (files / "sub").mkdir(parents=True)
        (files / "a.txt").write_text("alpha")
        (files / "sub" / "b.sh").write_text("beta")
        (files / "sub" / "b.sh").chmod(0o755)
        (files / "link").symlink_to("/etc/hostname")
        (files / "folder-link").symlink_to("/etc")
        return (
            await ask("GET", EXPORT, who="reader"),
            await ask("GET", f"{EXPORT}?exported_at=omit"),
            await ask("GET", f"{EXPORT}?exported_at=omit&format=zip"),
        )

    answer, first, second = served(tmp_path, test)
    assert first.content == second.content
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == [
            "session.open-token.json",
            "events.ndjson",
            "workspace/a.txt",
            "workspace/sub/b.sh",
        ]
        assert opened.read("workspace/a.txt") == b"alpha"
        assert opened.getinfo("workspace/sub/b.sh").external_attr >> 16 & 0o777 == 0o755
        both = [opened.read(name) for name in opened.namelist()[:2]]
    assert [verify_bytes(data).status for data in both] == ["verified", "verified"]
    document, footer = msgspec.json.decode(both[0]), msgspec.json.decode(both[1].strip().split(b"\n")[-1])
    assert document["integrity"]["events_hash"] == footer["integrity"]["events_hash"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("colour=red", ", ".join(NAMES)),
        ("format=pdf", "zip, json, ndjson"),
        ("format=json&mode=ndjson", "different things"),
        ("redact=some", "secrets, none, pii, strict"),
        ("redact=pii&redact=none", "twice"),
        ("max_bytes=-5", "whole number"),
        ("format=json&max_bytes=10", "bytes"),
    ],
)
def test_words_that_make_no_sense(tmp_path: Path, words: str, told: str) -> None:
    async def test(ask: Asking) -> Any:
        await ask.talk()
        return await ask("GET", f"{EXPORT}?{words}")

    answer = served(tmp_path, test)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]


def test_who_may_export(tmp_path: Path) -> None:
    async def test(ask: Asking) -> Any:
        await ask.talk()
        return [(await ask("GET", EXPORT, who=who)).status_code for who in ("nobody", "ben", "reader", "owner")]

    assert served(tmp_path, test) == [401, 404, 200, 200]


def test_a_session_in_which_nothing_was_said(tmp_path: Path) -> None:
    async def test(ask: Asking) -> Any:
        await ask.services.journal.create(ask.owner, {"id": "sess_1"})
        return await ask("GET", EXPORT)

    answer = served(tmp_path, test)
    assert (answer.status_code, answer.json()["code"]) == (422, "input.no-events")
