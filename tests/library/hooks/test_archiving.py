"""Queued hook calls archive the session that they name, once, in one process."""

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.hook_calls import SESSIONS, build_hook_calls, write_sessions
from open_token.context import Context
from open_token.errors import InputError, OutputError
from open_token.integrity.verify import VERIFIED, verify_bytes
from open_token.library.archive import Archive
from open_token.library.discovery import Discovery
from open_token.library.hooks import archiving
from open_token.library.hooks.archiving import (
    ArchivingContext,
    find_called_sessions,
    process_queue,
)
from open_token.library.hooks.payload import HookCall, parse_call
from open_token.library.hooks.queue import CallQueue
from open_token.options import ExportOptions
from open_token.storage.files import try_lock


class Machine:
    """A home with conversations, an archive, and a clock that moves when somebody sleeps."""

    def __init__(self, root: Path) -> None:
        self.home, self.folder = root / "home", root / "archive"
        self.paths = write_sessions(self.home)
        self.waiting = CallQueue(root / "hooks")
        self.now = 0.0
        self.busy = 0.0
        self.at_work = 0.0
        self.while_asleep: Callable[[], None] = lambda: None

    def world(self) -> ArchivingContext:
        return ArchivingContext(
            lambda: Discovery({}, self.home),
            lambda named: Archive(
                Path(named) if named else self.folder, self._context, lambda: 2e9
            ),
            lambda: "2026-01-02T03:04:05Z",
            lambda: self.now,
            self._work,
            self._sleep,
        )

    def _context(self) -> Context:
        return Context(ExportOptions.of({}), now="2026-01-02T03:04:05Z")

    def _work(self) -> float:
        self.busy += self.at_work
        return self.busy

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.while_asleep()

    def keep(self, *waiting: HookCall | None) -> list[tuple[str, str]]:
        """Carry out calls; what the log says of them."""
        for call in waiting:
            assert call is not None
            self.waiting.add(call)
        process_queue(self.waiting, self.world())
        return [(line["runtime"], line["result"]) for line in self.log()]

    def log(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for line in (self.waiting.folder / "log.ndjson").read_text().splitlines()
        ]

    def kept(self) -> list[str]:
        for path in self.folder.glob("*/*"):
            assert verify_bytes(path.read_bytes()).status == VERIFIED
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.glob("*/*"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def said(machine: Machine, name: str) -> list[HookCall]:
    found = [
        parse_call(json.dumps(call).encode(), name)
        for call in build_hook_calls(name, machine.paths[name])
    ]
    return [call for call in found if call]


@pytest.mark.parametrize("name", list(SESSIONS))
def test_a_conversation_is_exported_once_for_any_hook_payload(machine: Machine, name: str) -> None:
    every = said(machine, name)
    assert len(every) >= 3
    assert machine.keep(every[0])[-1] == (name, "new")
    for call in every[1:]:
        assert machine.keep(call)[-1] == (name, "unchanged")
    assert len(machine.kept()) == 1
    assert stat.S_IMODE(machine.folder.stat().st_mode) == 0o700
    assert machine.waiting.list_waiting() == []


@pytest.mark.parametrize("name", list(SESSIONS))
def test_a_pass_over_everything_finds_it_kept(machine: Machine, name: str) -> None:
    machine.keep(said(machine, name)[0])
    kept = machine.kept()
    archive = machine.world().archive("")
    with archive.lock():
        changes = list(archive.run(Discovery({}, machine.home).sessions(thorough=True)))
    assert [change.kind for change in changes] == ["new"] * 5
    assert kept[0] not in [change.entry.file for change in changes]


def test_others_are_not_marked_as_gone(machine: Machine) -> None:
    machine.keep(*(said(machine, name)[0] for name in SESSIONS))
    machine.paths["codex"].unlink()
    machine.keep(said(machine, "cursor")[2])
    states = [
        json.loads(line).get("state")
        for line in (machine.folder / "index.ndjson").read_text().splitlines()[1:]
    ]
    assert states == ["current"] * 6


def test_the_log_has_nothing_of_what_was_said(machine: Machine) -> None:
    machine.keep(said(machine, "codex")[0])
    (line,) = machine.log()
    assert set(line) <= {"at", "runtime", "event", "id", "result", "seconds"}
    assert line["id"] == SESSIONS["codex"].id
    assert stat.S_IMODE((machine.waiting.folder / "log.ndjson").stat().st_mode) == 0o600


def test_a_file_elsewhere_is_kept_only_if_its_runtime_wrote_it(
    machine: Machine, tmp_path: Path
) -> None:
    path = Path(shutil.move(machine.paths["codex"], tmp_path / "moved.jsonl"))
    strange = HookCall(runtime="cursor", path=str(path))
    assert find_called_sessions(strange, Discovery({}, machine.home)) == []
    assert machine.keep(HookCall(runtime="codex", path=str(path))) == [("codex", "new")]


@pytest.mark.parametrize(
    "kind", ["link", "folder", "pipe", "gone", "words", "binary", "empty", "relative", "device"]
)
def test_a_path_that_is_no_log_does_nothing(
    machine: Machine, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "strange.jsonl"
    if kind == "link":
        path.symlink_to(machine.paths["codex"])
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "gone":
        path.write_bytes(
            {"words": b"root:x:0:0\n", "binary": bytes(range(256)) * 64}.get(kind, b"")
        )
    if kind == "relative":
        shutil.copy(machine.paths["codex"], path)
        monkeypatch.chdir(tmp_path)
    named = {"relative": "strange.jsonl", "device": "/dev/zero"}.get(kind, str(path))
    assert machine.keep(HookCall(runtime="codex", path=named)) == [("codex", "not found")]
    assert machine.kept() == []


def test_an_id_means_a_conversation_of_that_runtime_alone(machine: Machine) -> None:
    known = SESSIONS["copilot-cli"].id
    assert (
        find_called_sessions(HookCall(runtime="codex", id=known), Discovery({}, machine.home)) == []
    )
    assert (
        len(
            find_called_sessions(
                HookCall(runtime="copilot-cli", id=known), Discovery({}, machine.home)
            )
        )
        == 1
    )
    assert len(find_called_sessions(HookCall(id=known), Discovery({}, machine.home))) == 1


def test_what_is_written_after_the_end_is_kept_too(machine: Machine) -> None:
    path = machine.paths["claude-code"]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    machine.while_asleep = lambda: path.write_bytes(b"".join(lines)) and None
    assert machine.keep(said(machine, "claude-code")[0]) == [("claude-code", "changed")]
    (file,) = machine.kept()
    assert len(json.loads((machine.folder / file).read_bytes())["events"]) > 2


def test_a_call_that_comes_meanwhile_is_carried_out_by_the_same_process(machine: Machine) -> None:
    late = [said(machine, "cursor")[2]]
    machine.while_asleep = lambda: machine.waiting.add(late.pop()) if late else None
    assert machine.keep(said(machine, "codex")[0]) == [("codex", "new"), ("cursor", "new")]


def test_after_a_turn_it_rests_unless_a_session_ends(machine: Machine) -> None:
    machine.at_work = 1.0
    machine.keep(said(machine, "codex")[2])
    assert machine.now == 20.0
    machine.at_work = 1000.0
    machine.keep(said(machine, "codex")[2])
    assert machine.now == 320.0
    ends = [said(machine, "cursor")[0]]
    machine.while_asleep = lambda: machine.waiting.add(ends.pop()) if ends else None
    assert machine.keep(said(machine, "codex")[2])[-1] == ("cursor", "new")
    assert machine.now < 330.0


def test_archiving_waits_for_another_process(machine: Machine) -> None:
    machine.folder.mkdir()
    with try_lock(machine.folder / ".lock"):
        machine.while_asleep = lambda: None
        assert machine.keep(said(machine, "codex")[2]) == [("codex", "failed")]
    assert machine.now > 600
    assert machine.log()[0]["code"] == "archive.busy"
    assert machine.keep() == [("codex", "failed"), ("codex", "new")]


def test_what_cannot_be_taken_away_does_not_keep_it_busy(machine: Machine) -> None:
    (machine.waiting.folder / "odd.call").mkdir(parents=True)
    process_queue(machine.waiting, machine.world())
    assert len(machine.waiting.list_waiting()) == 1


def test_only_one_process_carries_them_out(machine: Machine) -> None:
    machine.waiting.add(said(machine, "codex")[0])
    with machine.waiting.lock():
        process_queue(machine.waiting, machine.world())
    assert machine.kept() == []
    assert machine.keep() == [("codex", "new")]


@pytest.mark.parametrize(
    "problem", [InputError("no", code="x"), OutputError("full"), RuntimeError("secret words")]
)
def test_what_goes_wrong_is_in_the_log_by_its_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr(archiving, "find_called_sessions", fail)
    assert machine.keep(said(machine, "codex")[0]) == [("codex", "failed")]
    assert "secret" not in json.dumps(machine.log())
    assert len(machine.waiting.list_waiting()) == isinstance(problem, OutputError)
