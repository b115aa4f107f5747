"""What leaves and what comes in: blobs in full, documents unchanged, nothing half written."""

import gzip
import io
import shutil
import tempfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import open_token
from helpers.server.server_client import SESSION_EVENTS, ServerClient, run_with_server
from helpers.signers import create_key, public
from open_token import api
from open_token.errors import OpenTokenError, StoreError
from open_token.jsontools.canonical import hash_events
from open_token.server.clock import Clock
from open_token.server.config import Limits
from open_token.server.transfers.transfer import PENDING_KEY, remove_interrupted_imports
from open_token.session import SessionState
from open_token.session.actions import build_text_blocks, send_user_message


async def exported(ask: ServerClient, session_id: str, **words: str) -> Any:
    usual = {"format": "json", "redact": "none", "include": "include-internal", "internal": "full"}
    answer = await ask("GET", f"/api/sessions/{session_id}/export", params=usual | words)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content)


@pytest.mark.parametrize(
    ("value", "media_type"),
    [({"lines": ["x" * 50] * 9}, "application/json"), ("many words " * 50, "text/plain")],
)
def test_blobs_are_exported_in_full(tmp_path: Path, value: Any, media_type: str) -> None:
    async def test(ask: ServerClient) -> Any:
        data = msgspec.json.encode(value) if media_type == "application/json" else value.encode()
        blob = await ask.services.store.put_blob(data, media_type)
        held = {
            "blob": blob.sha256,
            "size": blob.size,
            "media_type": media_type,
            "preview": blob.preview[:20],
        }
        await ask.create_session()
        made = [
            ("turn.opened", {"turn": {"turn_id": "turn_9"}}),
            ("tool.called", {"turn_id": "turn_9", "call": {"id": "tc_9", "tool_name": "Read"}}),
            ("tool.result", {"turn_id": "turn_9", "tool_call_id": "tc_9", "result": held}),
        ]
        await ask.services.journal.write(
            ask.owner, "sess_1", lambda state: made, blobs=[blob.sha256]
        )
        return await exported(ask, "sess_1")

    results = [
        event["content"]
        for event in run_with_server(tmp_path, test)["events"]
        if event["type"] == "tool_result"
    ]
    assert value in (results[-1].get("data"), results[-1].get("text"))


def test_a_result_that_only_looks_like_a_blob(tmp_path: Path) -> None:
    odd = {"blob": "../../etc", "size": 1, "media_type": "x", "preview": "p"}

    async def test(ask: ServerClient) -> Any:
        call = {"id": "tc_9", "tool_name": "Read"}
        await ask.create_session(
            ("turn.opened", {"turn": {"turn_id": "turn_9"}}),
            ("tool.called", {"turn_id": "turn_9", "call": call}),
            ("tool.result", {"turn_id": "turn_9", "tool_call_id": "tc_9", "result": odd}),
        )
        return await exported(ask, "sess_1")

    results = [
        event["content"]
        for event in run_with_server(tmp_path, test)["events"]
        if event["type"] == "tool_result"
    ]
    assert results[-1]["data"] == odd


ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [path for path in sorted((ROOT / "examples").iterdir()) if path.is_file()]
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*/*/input.*"))


async def sent(ask: ServerClient, path: Path, route: str = "import", **fields: str) -> Any:
    with path.open("rb") as stream:
        return await ask(
            "POST", f"/api/sessions/{route}", files={"file": (path.name, stream)}, data=fields
        )


def documents_in(path: Path) -> dict[str | None, Any]:
    """The conversations of a file as the library exports them; none where it refuses to."""
    words = {"redact": "none", "include": "include-internal", "internal": "full", "branches": "all"}
    with tempfile.TemporaryDirectory() as alone:
        copy = Path(shutil.copy(path, alone))
        try:
            names = [item.id for item in api.conversations(copy)]
            return {
                name: api.export(copy, conversation=name, **words) for name in names[:3] or [None]
            }
        except OpenTokenError:
            return {}


async def comes_back(ask: ServerClient, path: Path) -> None:
    for name, document in documents_in(path).items():
        answer = await sent(ask, path, **({"conversation": name} if name else {}))
        assert answer.status_code == 200, answer.text
        session_id = answer.json()["session_id"]
        back = await exported(ask, session_id, branches="all")
        assert back["events"] == document["events"]
        assert back["integrity"]["events_hash"] == document["integrity"]["events_hash"]
        assert back["participants"] == document["participants"]
        again = await ask("GET", f"/api/sessions/{session_id}/export", params={"redact": "none"})
        assert again.status_code == 200


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_comes_back_as_it_was(tmp_path: Path, path: Path) -> None:
    run_with_server(tmp_path, lambda ask: comes_back(ask, path))


@pytest.mark.spec("session-import")
def test_golden_cases_come_back_as_they_were(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> None:
        for path in [item for item in GOLDEN if item.is_file()][::8]:
            await comes_back(ask, path)

    run_with_server(tmp_path, test)


@pytest.mark.parametrize("part", range(4))
def test_the_corpus_comes_back_as_it_was(corpus: Path, tmp_path: Path, part: int) -> None:
    files = [path for path in sorted(corpus.rglob("*")) if path.is_file()]
    small = [path for path in files if path.stat().st_size < 1 << 20]

    async def test(ask: ServerClient) -> None:
        for path in small[part::16]:
            await comes_back(ask, path)

    run_with_server(tmp_path, test, seconds=300)


def test_big_results_become_blobs_and_come_back(tmp_path: Path) -> None:
    document = (
        api.read(EXAMPLES[0]) if EXAMPLES[0].name.startswith("open") else api.export(EXAMPLES[0])
    )
    results = [event for event in document["events"] if event["type"] == "tool_result"]
    results[0]["content"] = {"mime": "application/json", "data": {"lines": ["word"] * 2000}}
    results[-1]["content"] = {"mime": "text/plain", "text": "letter é " * 2000}
    document["integrity"]["events_hash"] = hash_events(document["events"])
    path = tmp_path / "big.json"
    path.write_bytes(msgspec.json.encode(document))

    async def test(ask: ServerClient) -> Any:
        answer = await sent(ask, path)
        session_id = answer.json()["session_id"]
        state = await ask.state(session_id)
        shown = [call.result for turn in state.branch() for call in turn.tool_calls]
        first = next(result for result in shown if isinstance(result, dict) and "blob" in result)
        assert await ask.services.store.read_blob(ask.owner, session_id, first["blob"])
        assert len(first["preview"]) == 2000
        return await exported(ask, session_id)

    back = run_with_server(tmp_path / "data", test, limits=Limits(frame_bytes=4000))
    assert back["events"] == document["events"]
    assert back["integrity"]["events_hash"] == document["integrity"]["events_hash"]


@pytest.mark.spec("session-import")
def test_our_zip_brings_the_workspace_along(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        files = ask.services.workspaces.get("sess_1").folder / "sub"
        files.mkdir(parents=True)
        (files / "a.txt").write_text("alpha")
        packed = tmp_path / "ours.zip"
        packed.write_bytes(
            (await ask("GET", "/api/sessions/sess_1/export?exported_at=omit")).content
        )
        output = await sent(ask, packed, "preview-import")
        answer = await sent(ask, packed, name="Again")
        again = answer.json()
        there = ask.services.workspaces.get(again["session_id"]).folder
        assert (there / "sub" / "a.txt").read_text() == "alpha"
        first = await exported(ask, "sess_1", include="visible-only")
        second = await exported(ask, again["session_id"], include="visible-only")
        assert first["events"] == second["events"]
        return output.json(), again

    output, again = run_with_server(tmp_path / "data", test)
    assert (output["reader"], output["title"], output["turns"], output["models"]) == (
        "open_token",
        "A session",
        3,
        ["demo"],
    )
    assert output["warnings"] == []
    assert (again["intent"], again["status"], again["imported_from"]) == (
        "Again",
        "completed",
        "open_token",
    )


def test_a_file_that_was_changed_says_so(tmp_path: Path) -> None:
    document: Any = api.export(EXAMPLES[0])
    document["events"][0]["content"] = {"mime": "text/plain", "text": "something else"}
    path = tmp_path / "changed.json"
    path.write_bytes(msgspec.json.encode(document))
    output = run_with_server(
        tmp_path / "data", lambda ask: sent(ask, path, "preview-import")
    ).json()
    assert "hash" in output["warnings"][0]


def test_an_import_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = max(EXAMPLES, key=lambda item: item.stat().st_size)
    monkeypatch.setattr("open_token.server.transfers.tasks._BATCH_ENTRIES", 2)

    async def test(ask: ServerClient) -> Any:
        append, count = ask.services.store.append, 0

        async def failing(step: Any) -> Any:
            nonlocal count
            count += 1
            if count == 3:
                raise StoreError("the disk is full", code="store.full")
            return await append(step)

        monkeypatch.setattr(ask.services.store, "append", failing)
        answer = await sent(ask, path)
        return (
            answer,
            count,
            await ask.services.store.sessions(ask.owner),
            await ask.services.store.setting(PENDING_KEY),
        )

    answer, count, page, mark = run_with_server(tmp_path, test)
    assert (answer.status_code, count) == (503, 3)
    assert (page.total, mark) == (0, None)


def test_a_crash_in_the_middle_is_swept_up(tmp_path: Path) -> None:
    async def crash(ask: ServerClient) -> None:
        await ask.create_session(session_id="sess_half")
        await ask.create_session(session_id="sess_whole")
        await ask.services.store.set_setting(PENDING_KEY, f'{{"sess_half": "{ask.owner}"}}')

    async def after(ask: ServerClient) -> Any:
        page = await ask.services.store.sessions(ask.owner)
        return [item.id for item in page.items], await ask.services.store.setting(PENDING_KEY)

    run_with_server(tmp_path, crash)
    assert run_with_server(tmp_path, after) == (["sess_whole"], None)


def test_the_import_of_another_node_is_left_alone(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        services = ask.services
        for name in ("sess_new", "sess_old"):
            await ask.create_session(session_id=name)
        old = Clock(moment=lambda: datetime.now(UTC) + timedelta(hours=1))
        await services.store.set_setting(
            PENDING_KEY, f'{{"sess_new": "{ask.owner}", "sess_gone": "{ask.owner}"}}'
        )
        services.config = msgspec.structs.replace(services.config, database="postgresql://shared")
        swept = (
            await remove_interrupted_imports(services),
            (await services.store.sessions(ask.owner)).total,
        )
        services.clock = old
        return (
            swept,
            await remove_interrupted_imports(services),
            (await services.store.sessions(ask.owner)).total,
        )

    assert run_with_server(tmp_path, test) == ((1, 2), 1, 1)


def test_several_conversations(tmp_path: Path) -> None:
    path = tmp_path / "several.ndjson"
    lines = []
    for name in ("sess_a", "sess_b"):
        state = SessionState(name)
        steps = [("session.created", {"session": {"intent": name}}), *SESSION_EVENTS]
        lines += [
            msgspec.json.encode(state.add(kind, data, "2026-01-01T00:00:00Z"))
            for kind, data in steps
        ]
    path.write_bytes(b"\n".join(lines) + b"\n")

    async def test(ask: ServerClient) -> Any:
        return [
            await sent(ask, path),
            await sent(ask, path, conversation="sess_b"),
            await sent(ask, path, conversation="sess_z"),
        ]

    which, chosen, unknown = run_with_server(tmp_path / "data", test)
    assert which.status_code == 422
    assert "sess_a, sess_b" in which.json()["detail"]
    assert chosen.json()["intent"] == "sess_b"
    assert unknown.status_code == 422


def test_an_imported_session_can_go_on(tmp_path: Path) -> None:
    """Its calls are closed, and its turns are known as imported, so that their system text need not
    be trusted."""
    path = tmp_path / "open.json"
    document = api.export(
        ROOT / "tests" / "golden" / "session_server" / "turns" / "expected.json", redact="none"
    )
    path.write_bytes(msgspec.json.encode(document))

    async def test(ask: ServerClient) -> Any:
        session_id = (await sent(ask, path)).json()["session_id"]
        await ask.services.journal.write(
            ask.owner,
            session_id,
            lambda state: send_user_message(
                "turn_new", build_text_blocks("And now?"), checkpoint_id="cp_new"
            ),
        )
        state = await ask.state(session_id)
        assert all(turn.imported for name, turn in state.turns.items() if name != "turn_new")
        assert not state.questions
        assert {call.status for turn in state.branch() for call in turn.tool_calls} <= {
            "done",
            "error",
            "cancelled",
        }
        back = await exported(ask, session_id)
        assert back["events"][-1]["content"]["text"] == "And now?"
        return back["events"][:-1]

    before = [{**event, "seq": 0} for event in document["events"]]
    assert [{**event, "seq": 0} for event in run_with_server(tmp_path / "data", test)][
        : len(before)
    ] == before


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("My session", "My session"),
        (" \n ", "First"),
        ("", "First"),
        ("a\x00b\nc\x1b", "ab c"),
        ("x" * 500, "x" * 200),
    ],
)
def test_what_a_session_is_called(tmp_path: Path, name: str, title: str) -> None:
    path = tmp_path / "a.json"
    document: Any = api.export(EXAMPLES[0])
    document["conversation"]["title"] = "First"
    path.write_bytes(msgspec.json.encode(document))
    assert (
        run_with_server(tmp_path / "data", lambda ask: sent(ask, path, name=name)).json()["intent"]
        == title
    )


@pytest.mark.spec("session-import")
def test_a_title_that_somebody_chose_is_exported(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    document: Any = api.export(EXAMPLES[0])
    document["conversation"]["title"] = "First  "
    path.write_bytes(msgspec.json.encode(document))

    async def test(ask: ServerClient) -> None:
        plain, named = [
            (await sent(ask, path, **given)).json()["id"] for given in ({}, {"name": "Second"})
        ]
        assert (await exported(ask, plain))["conversation"]["title"] == "First  "
        assert (await exported(ask, named))["conversation"]["title"] == "Second"
        await ask("PATCH", f"/api/sessions/{plain}", json={"intent": "Third"})
        back = await exported(ask, plain)
        assert (back["conversation"]["title"], back["events"]) == ("Third", document["events"])

    run_with_server(tmp_path / "data", test)


def test_the_policy_of_this_machine_wins(tmp_path: Path) -> None:
    settings = tmp_path / "home" / "settings"
    settings.mkdir(parents=True)
    (settings / "config.toml").write_text(
        '[policy]\nmin_redact = "pii"\nforbid_internal_full = true\n'
    )

    async def test(ask: ServerClient) -> Any:
        extra = send_user_message(
            "turn_9", build_text_blocks("Write to anna.schmidt@mail-of-anna.de please.")
        )
        await ask.create_session(*extra)
        return await ask(
            "GET",
            "/api/sessions/sess_1/export?format=json&redact=none&include=include-internal&internal=full",
        )

    output = run_with_server(tmp_path, test).text
    assert "mail-of-anna" not in output
    assert '"summary": "extract"' in output


def test_exports_are_signed_with_the_key_of_the_server(tmp_path: Path) -> None:
    key = create_key(tmp_path)

    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        return await exported(ask, "sess_1"), await exported(ask, "sess_1", integrity="none")

    signed, bare = run_with_server(tmp_path / "server", test, sign_key=key)
    (judged,) = open_token.verify(signed, trust=public(key)).signatures
    assert (judged.state, judged.by) == ("trusted", "mia@example.org")
    assert "integrity" not in bare


def test_a_key_that_cannot_sign_is_the_operators_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    create_key(tmp_path)
    (tmp_path / "rubbish").write_text("no key")
    (tmp_path / "rubbish").chmod(0o600)

    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        return await ask("GET", "/api/sessions/sess_1/export?format=json")

    for key in ("missing", "rubbish"):
        answer = run_with_server(tmp_path / f"server-{key}", test, sign_key=tmp_path / key)
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text
        assert "cannot sign export" in caplog.text
        caplog.clear()


def test_broken_files_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    """Real files with some bytes changed, cut or doubled: read or refused, never half."""
    rolls = Random(7)
    whole = [path.read_bytes() for path in EXAMPLES]

    def broken(data: bytes) -> bytes:
        made = bytearray(data)
        for _ in range(rolls.choice((1, 3, 30))):
            place = rolls.randrange(len(made))
            made[place : place + rolls.choice((0, 1, 1, 40))] = rolls.choice(
                (b"", b"\x00", b"\xff", b'"', b"}", b"[" * 2000)
            )
        return bytes(made[: rolls.choice((len(made), rolls.randrange(1, len(made))))])

    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        packed = (await ask("GET", "/api/sessions/sess_1/export")).content
        found = []
        for _ in range(150):
            data = broken(rolls.choice([*whole, packed, packed, gzip.compress(whole[0])]))
            answer = await ask("POST", "/api/sessions/import", files={"file": ("x", data)})
            found.append(answer.status_code)
            if answer.status_code == 200:
                again = await ask(
                    "GET", f"/api/sessions/{answer.json()['session_id']}/export?format=ndjson"
                )
                assert again.status_code == 200, again.text
        return found, (await ask.services.store.sessions(ask.owner)).total

    found, total = run_with_server(tmp_path, test)
    assert set(found) <= {200, 413, 422}
    assert total == 1 + found.count(200)


def test_files_of_the_user_are_not_part_of_a_bundle(tmp_path: Path) -> None:
    async def list_names(ask: ServerClient) -> list[str]:
        session_id = await ask.create_session()
        ask.services.workspaces.bind(session_id, tmp_path)
        answer = await ask("GET", f"/api/sessions/{session_id}/export")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            return archive.namelist()

    (tmp_path / "theirs.txt").write_text("theirs")
    names = run_with_server(tmp_path / "data", list_names)
    assert names == ["session.open-token.json", "events.ndjson"]
