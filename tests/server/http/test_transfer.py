"""Sessions over the wire: exported in every form, with every option; imported from anything, or
refused in words."""

import gzip
import io
import stat
import warnings
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.native_data import expand_bytes
from helpers.server.server_client import ServerClient, run_with_server
from open_token.integrity.verify import verify_bytes
from open_token.library.restore import restore_files
from open_token.model.log_events import NewEvent
from open_token.model.session_types import to_builtins
from open_token.options import OPTION_NAMES, OPTIONS
from open_token.server.config import Limits
from open_token.server.core.workspace import Workspace
from open_token.session.actions import build_text_blocks, send_user_message
from open_token.validation.validate import validate

EXPORT = "/api/sessions/sess_1/export"


@pytest.mark.spec("session-export")
@pytest.mark.parametrize(
    ("words", "form"), [("format=json", "json"), ("format=ndjson", "ndjson"), ("mode=json", "json")]
)
def test_a_plain_document(tmp_path: Path, words: str, form: str) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        return await ask("GET", f"{EXPORT}?{words}")

    answer = run_with_server(tmp_path, test)
    assert answer.status_code == 200
    assert (
        answer.headers["content-disposition"] == f'attachment; filename="sess_1.open-token.{form}"'
    )
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


@pytest.mark.spec("session-export")
def test_options_are_obeyed(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        shown = await ask(
            "GET",
            f"{EXPORT}?format=json&include=include-internal&internal=full&exported-at=omit&pretty=false",
        )
        return shown, await ask("GET", f"{EXPORT}?format=json&integrity=none")

    shown, bare = run_with_server(tmp_path, test)
    assert b"Let me look." in shown.content
    assert b"exported_at" not in shown.content
    assert b"\n" not in shown.content.strip()
    assert b"Let me look." not in bare.content
    assert b"integrity" not in bare.content


SECRET, MAIL = "gh" + "p_" + "a1B2" * 9, "anna.schmidt@mail-of-anna.de"
MORE: list[NewEvent] = [
    *send_user_message(
        "turn_4",
        build_text_blocks(f"my key is {SECRET}, write to {MAIL}, {'word ' * 200}"),
        checkpoint_id="cp_4",
    ),
    ("turn.opened", {"turn": {"turn_id": "turn_5"}}),
    (
        "tool.called",
        {"turn_id": "turn_5", "call": {"id": "tc_5", "tool_name": "Agent", "arguments": "{}"}},
    ),
    (
        "turn.opened",
        {"turn": {"turn_id": "turn_6", "loop_id": "child", "parent_fork_tool_call_id": "tc_5"}},
    ),
    ("text.delta", {"turn_id": "turn_6", "text": "the child speaks"}),
    ("turn.ended", {"turn_id": "turn_6"}),
    ("tool.result", {"turn_id": "turn_5", "tool_call_id": "tc_5", "result": "done"}),
    ("turn.ended", {"turn_id": "turn_5"}),
    *send_user_message("turn_7", build_text_blocks("this was left"), checkpoint_id="cp_7"),
    ("branch.moved", {"head": "entry_6", "reason": "rewind"}),
]


@pytest.mark.spec("session-export")
def test_the_log_itself_comes_along_when_that_is_asked_for(tmp_path: Path) -> None:
    whole = (
        "format=json&native=full&redact=none&include=include-internal&internal=full&branches=all"
    )

    async def test(ask: ServerClient) -> Any:
        await ask.create_session(*MORE)
        entries = await ask.services.store.read_log(ask.owner, "sess_1", 0, 1000)
        return [to_builtins(entry) for entry in entries], await ask("GET", f"{EXPORT}?{whole}")

    entries, answer = run_with_server(tmp_path, test)
    (tmp_path / "export.json").write_bytes(answer.content)
    restore_files(tmp_path / "export.json", tmp_path / "back")
    lines = (tmp_path / "back" / "sess_1").read_bytes().splitlines()
    assert [msgspec.json.decode(line) for line in lines] == entries


@pytest.mark.spec("session-export")
def test_every_option_does_its_work_over_the_wire(tmp_path: Path) -> None:
    seen: dict[str, str] = {}

    async def test(ask: ServerClient) -> None:
        await ask.create_session(*MORE)
        for option in OPTIONS:
            for value in option.values or ("2600",):
                words = {"format": "json", **WITH.get(option.name, {}), option.name: value}
                if option.name == "mode":
                    words.pop("format")
                answer = await ask("GET", EXPORT, params=words)
                assert answer.status_code == (422 if value == "never" else 200), (
                    words,
                    answer.text,
                )
                is_native = option.name == "native"
                text = expand_bytes(answer.content) if is_native else answer.text
                seen[f"{option.name}={value}"] = text

    run_with_server(tmp_path, test)
    has = {
        "pretty=true": "\n  ", "internal=redacted": '"redacted": true', "internal=summary": '"summary": "extract"',
        "internal=full": "Let me look.", "include=include-internal": "assistant_thought", "redact=none": SECRET,
        "redact=secrets": MAIL, "max_bytes=2600": '"dropped"', "strategy=drop": ":00000000]", "integrity=tree": "tree",
        "integrity=source": "source", "exported_at=now": "exported_at", "branches=all": "this was left",
        "subagents=inline": "the child speaks", "subagents=reference": "child", "native=full": "turn.opened",
    }  # fmt: skip
    lacks = {
        "pretty=false": "\n  ", "include=visible-only": "assistant_thought", "redact=secrets": SECRET,
        "redact=pii": MAIL, "redact=strict": MAIL, "strategy=mask": ":00000000]", "integrity=none": "integrity",
        "exported_at=omit": "exported_at", "branches=active": "this was left", "subagents=none": "the child speaks",
        "subagents=reference": "the child speaks", "native=none": "turn.opened",
        "drop=oldest": "What is in the folder?",
    }  # fmt: skip
    assert {name: words for name, words in has.items() if words not in seen[name]} == {}
    assert {name: words for name, words in lacks.items() if words in seen[name].strip()} == {}
    assert len(seen["max_bytes=2600"]) <= 2600
    assert len(seen["mode=ndjson"].splitlines()) > 3


WITH = {
    "internal": {"include": "include-internal"},
    "max_bytes": {"drop": "oldest"},
    "drop": {"max_bytes": "4000"},
}
"""What else must be said for an option to have anything to do."""


def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = "gh" + "p_" + "a1B2" * 9

    async def test(ask: ServerClient) -> Any:
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
        await ask.create_session(extra)
        return [await ask("GET", f"{EXPORT}?format={form}") for form in ("json", "zip")]

    plain, packed = run_with_server(tmp_path, test)
    assert secret.encode() not in plain.content
    with zipfile.ZipFile(io.BytesIO(packed.content)) as opened:
        assert not any(secret.encode() in opened.read(name) for name in opened.namelist())


@pytest.mark.spec("session-export")
def test_the_zip(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        files = ask.services.workspaces.get("sess_1").folder
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

    answer, first, second = run_with_server(tmp_path, test)
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
    document, footer = (
        msgspec.json.decode(both[0]),
        msgspec.json.decode(both[1].strip().split(b"\n")[-1]),
    )
    assert document["integrity"]["events_hash"] == footer["integrity"]["events_hash"]


@pytest.mark.parametrize(
    ("words", "result"),
    [
        ("colour=red", ", ".join(OPTION_NAMES)),
        ("format=pdf", "zip, json, ndjson"),
        ("format=json&mode=ndjson", "contradict"),
        ("redact=some", "secrets, none, pii, strict"),
        ("redact=pii&redact=none", "twice"),
        ("max_bytes=-5", "whole number"),
        ("format=json&max_bytes=10", "bytes"),
    ],
)
def test_words_that_make_no_sense(tmp_path: Path, words: str, result: str) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        return await ask("GET", f"{EXPORT}?{words}")

    answer = run_with_server(tmp_path, test)
    assert answer.status_code == 422
    assert result in answer.json()["detail"]


def test_who_may_export(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.create_session()
        return [
            (await ask("GET", EXPORT, who=who)).status_code
            for who in ("nobody", "ben", "reader", "owner")
        ]

    assert run_with_server(tmp_path, test) == [401, 404, 200, 200]


def test_a_session_in_which_nothing_was_said(tmp_path: Path) -> None:
    async def test(ask: ServerClient) -> Any:
        await ask.services.journal.create(ask.owner, {"id": "sess_1"})
        return await ask("GET", EXPORT)

    answer = run_with_server(tmp_path, test)
    result = {"detail": "the session is empty", "code": "input.no-events"}
    assert (answer.status_code, answer.json()) == (422, result)


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in members:
            made.writestr(name, data)
    return out.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


DOCUMENT = Path(__file__).resolve().parents[3].joinpath("examples", "open_token.json").read_bytes()
HEAD = ("session.open-token.json", DOCUMENT)
WHOLE = zip_of(HEAD, ("workspace/a.txt", b"alpha"))
BOMB = zip_of(HEAD, ("workspace/a.txt", bytes(3 << 20)))


def declaring(data: bytes, size: int) -> bytes:
    """A zip whose last member says that it is of another size."""
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 24] + size.to_bytes(4, "little") + data[place + 28 :]


def encrypted(data: bytes) -> bytes:
    place = data.rindex(b"PK\x01\x02")
    return data[: place + 8] + b"\x01" + data[place + 9 :]


HOSTILE: dict[str, tuple[bytes, int, str]] = {
    "nothing": (b"", 422, "empty"),
    "noise": (bytes(range(256)) * 20, 422, ""),
    "unknown json": (b'{"a": 1}', 422, "unrecognized format"),
    "no json": (b'{"a": ', 422, ""),
    "deep json": (b"[" * 100_000, 422, ""),
    "deep object": (
        b'{"open_token_version":"0.1","events":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        422,
        "",
    ),
    "deep event": (
        b'{"open_token_version":"0.1","events":[{"id":"evt_000001","type":"message","actor_id":"a","content":{"data":'
        + b'{"a":' * 90_000
        + b"1"
        + b"}" * 90_000
        + b"}}]}",
        422,
        "",
    ),
    "latin": (b'{"open_token_version": "0.1", "conversation": {"title": "caf\xe9"}}', 422, ""),
    "another version": (DOCUMENT.replace(b'"0.1"', b'"9.9"', 1), 422, "version"),
    "an event twice": (DOCUMENT.replace(b"evt_000002", b"evt_000001"), 422, "twice"),
    "cut zip": (WHOLE[: len(WHOLE) // 2], 422, "damaged"),
    "cut zip tail": (WHOLE[:-5], 422, "damaged"),
    "only the start of a zip": (b"PK\x03\x04", 422, "damaged"),
    "a link": (zip_of(HEAD, (link("workspace/l"), b"/etc/passwd")), 422, "link"),
    "out": (zip_of(HEAD, ("workspace/../../out.txt", b"x")), 422, "outside the workspace"),
    "absolute": (zip_of(HEAD, ("workspace//etc/cron", b"x")), 422, "outside the workspace"),
    "dot": (zip_of(HEAD, ("workspace/./a", b"x")), 422, "outside the workspace"),
    "deep path": (
        zip_of(HEAD, ("workspace/" + "d/" * 40 + "f", b"x")),
        422,
        "outside the workspace",
    ),
    "long name": (zip_of(HEAD, ("workspace/" + "n" * 300, b"x")), 422, "outside the workspace"),
    "twice": (zip_of(HEAD, ("workspace/a", b"x"), ("workspace/a", b"y")), 422, "duplicate"),
    "a gigabyte declared": (declaring(WHOLE, 1 << 30), 413, "MiB"),
    "less declared": (declaring(WHOLE, 2), 422, "damaged"),
    "a bomb": (BOMB, 413, "MiB"),
    "encrypted": (encrypted(WHOLE), 422, "encrypted"),
    "a zip of others": (zip_of(("readme.txt", b"hello")), 422, ""),
    "a damaged document": (zip_of(("session.open-token.json", b'{"open_token_version')), 422, ""),
    "a cut gzip": (gzip.compress(DOCUMENT)[:-20], 422, "gzip"),
    "a cut database": (b"SQLite format 3\0" + bytes(100), 422, "SQLite"),
    "utf-16": (("\ufeff" + DOCUMENT.decode()).encode("utf-16"), 422, ""),
}


@pytest.mark.spec("session-import")
@pytest.mark.parametrize("route", ["import", "preview-import"])
def test_hostile_files(tmp_path: Path, route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refused in words, and nothing of it stays."""
    monkeypatch.setattr(
        Workspace, "write", lambda self, path, data: data.read() and None, raising=False
    )

    async def test(ask: ServerClient) -> Any:
        found = {}
        for name, (data, status, result) in HOSTILE.items():
            answer = await ask(
                "POST", f"/api/sessions/{route}", files={"file": ("../../x/" + name, data)}
            )
            detail = answer.json().get("detail", "")
            if answer.status_code != status or result not in detail or len(detail) > 400:
                found[name] = (answer.status_code, detail[:200])
        return (
            found,
            (await ask.services.store.sessions(ask.owner)).total,
            await ask.services.store.setting("imports"),
        )

    limits = Limits(upload_bytes=2 << 20, workspace_bytes=1 << 20)
    found, total, mark = run_with_server(tmp_path, test, limits=limits)
    unread = (
        {"less declared"} if route == "preview-import" else set()
    )  # files are not unpacked for a look
    assert {name: why for name, why in found.items() if name not in unread} == {}
    assert (total, mark) == (0, None)
    assert list((tmp_path / "workspaces").glob("*")) == []


def multipart(*parts: tuple[str, bytes], boundary: str = "b0") -> bytes:
    made = b""
    for head, data in parts:
        made += (
            b"--"
            + boundary.encode()
            + b"\r\nContent-Disposition: form-data; "
            + head.encode()
            + b"\r\n\r\n"
            + data
        )
        made += b"\r\n"
    return made + b"--" + boundary.encode() + b"--\r\n"


FILE = ('name="file"; filename="a.json"', DOCUMENT)
FORM = "multipart/form-data; boundary=b0"
FORMS: dict[str, tuple[str, bytes, int]] = {
    "whole": (FORM, multipart(FILE), 200),
    "no file": (FORM, multipart(('name="name"', b"x")), 422),
    "file as text": (FORM, multipart(('name="file"', DOCUMENT)), 422),
    "name as file": (FORM, multipart(FILE, ('name="name"; filename="x"', b"x")), 422),
    "two files": (FORM, multipart(FILE, FILE), 422),
    "no boundary": ("multipart/form-data", multipart(FILE), 422),
    "another boundary": ("multipart/form-data; boundary=zz", multipart(FILE), 422),
    "cut": (FORM, multipart(FILE)[:200], 422),
    "empty": (FORM, b"", 422),
    "json": ("application/json", DOCUMENT, 422),
    "plain form": ("application/x-www-form-urlencoded", b"file=a", 422),
    "part without a name": (FORM, multipart(("x=y", b"1")), 422),
    "huge field": (FORM, multipart(FILE, ('name="name"', b"x" * 100_000)), 422),
    "many fields": (
        FORM,
        multipart(FILE, *[(f'name="n{place}"', b"x") for place in range(50)]),
        422,
    ),
    "too long": (FORM, multipart(('name="file"; filename="a"', b" " * (3 << 20))), 413),
}


@pytest.mark.spec("session-import")
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("route", ["import", "preview-import"])
def test_forms(tmp_path: Path, route: str, name: str) -> None:
    kind, body, status = FORMS[name]

    async def pieces() -> AsyncIterator[bytes]:
        for place in range(0, len(body), 1000):
            yield body[place : place + 1000]

    async def test(ask: ServerClient) -> Any:
        path, headers = f"/api/sessions/{route}", {"content-type": kind}
        whole = await ask("POST", path, content=body, headers=headers)
        in_pieces = await ask("POST", path, content=pieces(), headers=headers)
        return whole, in_pieces, (await ask.services.store.sessions(ask.owner)).total

    *answers, total = run_with_server(tmp_path, test, limits=Limits(upload_bytes=2 << 20))
    assert [answer.status_code for answer in answers] == [status, status]
    assert all(answer.json()["detail"] for answer in answers if status != 200)
    assert total == (2 if status == 200 and route == "import" else 0)


@pytest.mark.parametrize("route", ["import", "preview-import"])
def test_who_may_import(tmp_path: Path, route: str) -> None:
    async def test(ask: ServerClient) -> Any:
        codes = {}
        for who in ("nobody", "reader", "ben", "owner"):
            answer = await ask(
                "POST", f"/api/sessions/{route}", who=who, files={"file": ("a", DOCUMENT)}
            )
            codes[who] = answer.status_code
        return codes, (await ask.services.store.sessions("user_ben")).total

    codes, of_ben = run_with_server(tmp_path, test)
    assert codes == {"nobody": 401, "reader": 403, "ben": 200, "owner": 200}
    assert of_ben == (1 if route == "import" else 0)


@pytest.mark.spec("session-import", "type-import-preview")
def test_what_a_file_would_become(tmp_path: Path) -> None:
    answer = run_with_server(
        tmp_path,
        lambda ask: ask("POST", "/api/sessions/preview-import", files={"file": ("a", DOCUMENT)}),
    )
    result = answer.json()
    document = msgspec.json.decode(DOCUMENT)
    assert result["events"] == len(document["events"])
    assert result["participants"] == document["participants"]
    assert result["warnings"] == []
    assert set(result) == {
        "reader", "title", "events", "turns", "participants", "models", "started_at", "warnings", "loss"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "status", "result"),
    [
        ("open-token", 200, ""),
        ("open_token", 200, ""),
        ("codex", 422, ""),
        ("none such", 422, "claude_code, claude_stream, cline, codex"),
    ],
)
def test_a_reader_that_is_named(tmp_path: Path, reader: str, status: int, result: str) -> None:
    form = {"files": {"file": ("a", DOCUMENT)}, "data": {"reader": reader}}
    answer = run_with_server(
        tmp_path, lambda ask: ask("POST", "/api/sessions/preview-import", **form)
    )
    assert answer.status_code == status, answer.text
    assert result in answer.text
