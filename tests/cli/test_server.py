"""`open-token server`: people, keys, backups."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main
from open_token.server.config import ServerConfig
from open_token.server.lifecycle import create_first_key, run_services
from open_token.server.store.sqlite.store import open_sqlite

NOW = "2026-01-31T08:00:00.000Z"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The folder of a server that was started once and has a session with a file."""

    async def made() -> None:
        async with run_services(ServerConfig(data=tmp_path / "data"), {}) as services:
            await create_first_key(services)
            owner = (await services.store.users())[0].id
            await services.journal.create(owner, {"id": "sess_1", "intent": "Mend the build"})

    asyncio.run(made())
    files = tmp_path / "data" / "workspaces" / "sess_1"
    files.mkdir(parents=True)
    (files / "note.txt").write_text("kept")
    return tmp_path / "data"


@pytest.fixture
def run_server(data: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(["server", *words, *([] if "--data" in words else ["--data", str(data)])])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def whose(data: Path, key: str) -> str | None:
    async def asked() -> str | None:
        store = open_sqlite(data)
        caller = await store.check_key(key, NOW)
        await store.close()
        return caller and f"{caller.user.name} {caller.key.scope}"

    return asyncio.run(asked())


def test_a_person_comes_and_goes(data: Path, run_server: Any) -> None:
    code, out, err = run_server("user", "add", "ben")
    key = out.strip()
    assert (code, whose(data, key)) == (0, "ben full")
    assert "shown only once" in err
    assert [line.split("\t")[1] for line in run_server("user", "list")[1].splitlines()] == [
        "owner",
        "ben",
    ]
    assert run_server("user", "disable", "ben")[0] == 0
    assert whose(data, key) is None
    users = json.loads(run_server("user", "list", "--json")[1])["users"]
    assert users[1]["disabled_at"]
    assert run_server("user", "enable", "ben")[0] == 0
    assert whose(data, key) == "ben full"


def test_keys_are_made_and_revoked(data: Path, run_server: Any) -> None:
    made = json.loads(run_server("key", "add", "--name", "viewer", "--read", "--json")[1])
    assert whose(data, made["plaintext"]) == "owner read"
    listed = run_server("key", "list")[1]
    assert made["id"] in listed
    assert made["plaintext"] not in listed
    assert run_server("key", "revoke", made["id"])[0] == 0
    assert whose(data, made["plaintext"]) is None
    assert [key["name"] for key in json.loads(run_server("key", "list", "--json")[1])["keys"]] == [
        "first key"
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["dance"],
        ["user"],
        ["user", "add"],
        ["user", "add", " "],
        ["user", "add", "a", "b"],
        ["user", "disable", "nobody"],
        ["user", "disable", "owner"],
        ["key"],
        ["key", "add", "nobody"],
        ["key", "list", "a", "b"],
        ["key", "revoke", "key_none"],
        ["backup"],
        ["restore", "x"],
        ["check", "x"],
    ],
)
def test_wrong_words(run_server: Any, words: list[str]) -> None:
    if words == ["restore", "x"]:
        assert main(["server", *words]) == 2
        return
    code, out, err = run_server(*words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


def test_a_name_is_taken_once(run_server: Any) -> None:
    assert run_server("user", "add", "ben")[0] == 0
    code, _, err = run_server("user", "add", "ben")
    assert code == 3
    assert "user list" in err


def test_a_backup_is_made_while_the_server_runs_and_put_back(
    data: Path, run_server: Any, tmp_path: Path
) -> None:
    async def copied() -> None:
        async with run_services(ServerConfig(data=data), {}) as services:
            assert await asyncio.to_thread(run_server, "backup", str(tmp_path / "copy")) == (
                0,
                "",
                f"copied to {tmp_path / 'copy'}\n",
            )
            owner = (await services.store.users())[0].id
            await services.journal.create(owner, {"id": "sess_2"})

    for kept in ("tasks/sess_1/task_1.json", "recordings/session.json"):
        (data / kept).parent.mkdir(parents=True)
        (data / kept).write_text("kept")
    asyncio.run(copied())
    assert run_server("backup", str(tmp_path / "copy"))[0] == 3
    assert run_server("restore", str(tmp_path / "copy"), "--data", str(tmp_path / "again"))[0] == 0

    async def held() -> list[str]:
        async with run_services(ServerConfig(data=tmp_path / "again"), {}) as services:
            owner = (await services.store.users())[0].id
            return [row.id for row in (await services.store.sessions(owner)).items]

    assert asyncio.run(held()) == ["sess_1"]
    for kept in (
        "workspaces/sess_1/note.txt",
        "tasks/sess_1/task_1.json",
        "recordings/session.json",
    ):
        assert (tmp_path / "again" / kept).read_text() == "kept"


def test_check_looks_for_damage(data: Path, run_server: Any) -> None:
    assert run_server("check", "--deep") == (0, "", "no damage found\n")
    (data / "server.db").write_bytes(b"no database" * 1000)
    code, out, _ = run_server("check", "--json")
    assert code == 1
    assert json.loads(out)["sound"] is False


def test_without_data_there_is_nothing_to_manage(run_server: Any, tmp_path: Path) -> None:
    for words in (["user", "list"], ["check"], ["backup", str(tmp_path / "x")]):
        code, out, err = run_server(*words, "--data", str(tmp_path / "none"))
        assert (code, out) == (3, "")
        assert "no server data found" in err


def test_postgres_has_tools_of_its_own(run_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_TOKEN_SERVER_DATABASE", "postgresql://db")
    for words in (["check"], ["backup", "x"]):
        code, _, err = run_server(*words)
        assert code == 2
        assert "pg_dump" in err


def test_where_to_migrate_must_be_said(run_server: Any) -> None:
    code, _, err = run_server("migrate", "sideways")
    assert code == 2
    assert "migrate to URL" in err
