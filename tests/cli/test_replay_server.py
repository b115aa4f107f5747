"""`open-token replay serve` and `check`: whole runs, with a scripted agent in a process of its
own."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conftest import ROOT
from helpers.replay_clients import over_http, played
from open_token.api import export
from open_token.cli import main

SESSION = ROOT / "examples" / "codex.jsonl"
SECRET = "low-water-" + "4-herons"

AGENT = """
import json, os, sys
sys.path[:0] = [{tests!r}]
from helpers.replay_clients import over_http, played
session = json.loads(open({session!r}).read())
url = os.environ["OPEN_TOKEN_REPLAY_URL"]
assert os.environ["ANTHROPIC_BASE_URL"] == sys.argv[1] == os.environ["OPEN_TOKEN_REPLAY_URL"]
print("the agent speaks")
sys.exit(3 if played(over_http(url), session, {wire!r}, stream=True) else int(sys.argv[2]))
"""


@pytest.fixture
def agent(tmp_path: Path) -> Any:
    """A command that plays a session again, or another one than was recorded."""

    def made(session: Any, wire: str = "anthropic", ends: int = 0) -> list[str]:
        (tmp_path / "session.json").write_text(json.dumps(session))
        words = AGENT.format(
            tests=str(ROOT / "tests"), session=str(tmp_path / "session.json"), wire=wire
        )
        (tmp_path / "agent.py").write_text(words)
        return ["--", sys.executable, str(tmp_path / "agent.py"), "{url}", str(ends)]

    return made


def other(session: Any, old: str, new: str) -> Any:
    text = json.dumps(session)
    assert old in text
    return json.loads(text.replace(old, new))


def test_a_run_that_is_the_same(
    agent: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out.xml"
    words = ["replay", "check", str(SESSION), "--json", "--junit", str(report)]
    assert main([*words, *agent(export(SESSION, redact="none"))]) == 0
    out, err = capfd.readouterr()
    assert "same    every recorded step was requested" in err
    assert "the agent speaks" in err
    assert "step 1/3     matched  anthropic  calls exec_command" in err
    result = json.loads(out)
    assert (result["same"], result["served"], result["steps"], result["command"]) == (True, 3, 3, 0)
    assert ElementTree.fromstring(report.read_bytes()).attrib["failures"] == "0"


def test_a_run_that_parts(agent: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    session = other(export(SESSION, redact="none"), "left - carried", "left - buried")
    report = tmp_path / "out.xml"
    assert main(["replay", "check", str(SESSION), "--junit", str(report), *agent(session)]) == 1
    out, err = capfd.readouterr()
    assert out == "the agent speaks\n"
    assert "diverged at step 2 (event 9): the result of exec_command" in err
    assert "left - buried" in err
    assert f"next    open-token replay view {SESSION} --start 9\n" in err
    assert "--results any" in err
    assert "command exited with 3" in err
    cases = list(ElementTree.fromstring(report.read_bytes()))
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["skipped"]]


def test_the_report_masks_secrets(agent: Any, capfd: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / "claude_code.jsonl"
    session = other(export(path, redact="none"), "DB_USER=tides", "DB_USER=tiles")
    assert main(["replay", "check", str(path), *agent(session)]) == 1
    out, err = capfd.readouterr()
    assert "diverged at step 3" in err
    assert SECRET not in out + err


def test_a_command_that_fails_though_all_was_asked_for(
    agent: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["replay", "check", str(SESSION), *agent(export(SESSION, redact="none"), "gemini", 4)])
        == 1
    )
    assert "command exited with 4" in capfd.readouterr().err


def test_a_redacted_export_matches_the_whole_source(
    agent: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "examples" / "claude_code.jsonl"
    (tmp_path / "shared.json").write_text(json.dumps(export(path)))
    assert (
        main(
            ["replay", "check", str(tmp_path / "shared.json"), *agent(export(path, redact="none"))]
        )
        == 0
    )
    assert "a marker in it matches anything" in capfd.readouterr().err


def test_a_command_that_cannot_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "check", str(SESSION), "--", "no-such-program-anywhere"]) == 2
    assert "cannot run the command: No such file or directory" in capfd.readouterr().err


def test_a_command_that_never_ends(capfd: pytest.CaptureFixture[str]) -> None:
    wait = "import threading; threading.Event().wait()"
    assert (
        main(["replay", "check", str(SESSION), "--within", "0.1", "--", sys.executable, "-c", wait])
        == 1
    )
    assert "exceeded its time limit and was terminated" in capfd.readouterr().err


def test_a_command_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("open_token.cli.replay.server._GRACE_SECONDS", 0.1)
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    assert (
        main(["replay", "check", str(SESSION), "--within", "0.5", "--", "sh", "-c", stubborn]) == 1
    )


def served(*words: str) -> tuple["subprocess.Popen[str]", str]:
    """A server in a process of its own, and its URL."""
    line = [sys.executable, "-m", "open_token", "replay", "serve", str(SESSION), *words]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "",
    }  # buffered, as users have it
    process = subprocess.Popen(
        line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith("listen "):
            return process, said.split()[1]
    raise AssertionError("it never said where it listens")


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What it wrote from then on; by the stream that was read before, whose buffer may hold some of
    it."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        result = process.stdout.read(), process.stderr.read()
    process.wait(120)
    return result


def test_serve_once_ends_by_itself() -> None:
    process, url = served("--once", "--json")
    assert played(over_http(url), export(SESSION, redact="none"), "responses", stream=True) == 0
    out, err = ended(process)
    *lines, last = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == 0
    assert [(line["result"], line["step"]) for line in lines] == [
        ("matched", 1),
        ("matched", 2),
        ("matched", 3),
    ]
    assert last["same"] is True
    assert "export OPENAI_API_KEY=replay" in err
    assert "claude -p" in err
    assert "harvest" not in err


def test_agent_is_answered_though_nobody_reads_along_any_more() -> None:
    process, url = served("--once", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    try:
        assert played(over_http(url), export(SESSION, redact="none"), "responses", stream=True) == 0
        assert "served  3 of 3 steps" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_serve_stops_on_a_signal_and_reports_how_far_it_came() -> None:
    process, url = served("--for", "codex")
    session = other(
        export(SESSION, redact="none"), "Find out why and fix it", "Find out why and mend it"
    )
    assert played(over_http(url), session, "chat", stream=False) == 1
    process.send_signal(signal.SIGINT)
    _, err = ended(process)
    assert process.returncode == 1
    assert "served  0 of 3 steps" in err
    assert "mend it" in err
    assert "ANTHROPIC" not in err


def test_who_stops_serving_before_the_end_parted_from_nothing() -> None:
    process, _ = served("--for", "codex")
    process.send_signal(signal.SIGINT)
    _, err = ended(process)
    assert process.returncode == 0
    assert "left    step 1 (event" in err
    assert "diverged" not in err


def test_a_taken_port(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["replay", "serve", str(SESSION), "--port", str(taken.getsockname()[1])]) == 3
    assert "omit --port to use a free port" in capfd.readouterr().err
