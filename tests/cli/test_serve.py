"""`open-token serve`: a real process that is started, asked, refused and stopped."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from open_token.cli import main, serve

TIMEOUT = 60


def started(data: Path, *words: str) -> "subprocess.Popen[str]":
    command = [
        sys.executable,
        "-m",
        "open_token",
        "serve",
        "--data",
        str(data),
        "--port",
        "0",
        "--json",
        *words,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


@contextlib.contextmanager
def serving(data: Path, *words: str) -> Iterator[tuple[Any, "subprocess.Popen[str]"]]:
    """A server, and what it printed when it listened."""
    process = started(data, *words)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=TIMEOUT)
        yield json.loads(line), process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


def get(address: str, key: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with urllib.request.urlopen(
        urllib.request.Request(address, headers=headers), timeout=TIMEOUT
    ) as answer:
        return json.load(answer)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.full)]
)
def test_serve_starts_answers_and_stops(tmp_path: Path, number: int) -> None:
    with serving(tmp_path / "data", "--log", "json") as (result, process):
        assert result["address"].startswith("http://127.0.0.1:")
        # Read here: `communicate` loses lines that came together with the first one.
        assert process.stdout is not None
        link = json.loads(process.stdout.readline())["link"]
        assert link.startswith(result["address"] + "/enter?token=")
        assert get(result["address"] + "/api/health")["status"] == "ok"
        assert get(result["address"] + "/api/auth/me", result["key"])["role"] == "owner"
        second = started(tmp_path / "data")
        out, err = second.communicate(timeout=TIMEOUT)
        assert second.returncode == 3
        assert "another server uses this data folder" in out + err
        process.send_signal(number)
        out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (0, "")
    lines = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [(line["route"], line["status"]) for line in lines if line["event"] == "request"] == [
        ("/api/health", 200),
        ("/api/auth/me", 200),
    ]
    assert "Traceback" not in err
    assert result["key"] not in err
    with serving(tmp_path / "data") as (again, process):
        assert again["key"] is None, "the key is shown once"


def test_people_hear_the_address_and_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Listen:
        @staticmethod
        def serve(config: Any, env: Any, result: Any, stopping: Any, *application: Any) -> None:
            assert (config.data, config.port, config.model) == (tmp_path, 7, "demo")
            result("http://here", "the-key")
            application[1]("http://here/enter?token=1")
            logging.getLogger("open_token.server").info("request", extra={"fields": FIELDS})
            stopping()

    monkeypatch.setattr("open_token.server.listener", Listen, raising=False)
    assert main(["serve", "--data", str(tmp_path), "--port", "7", "--model", "demo"]) == 0
    out, err = capsys.readouterr()
    assert out == "address  http://here\nkey      the-key\nbrowser  http://here/enter?token=1\n"
    assert "shown only once" in err
    assert " GET /api/x 200 1.5 ms\n" in err
    assert "\nstopping: " in err
    assert err.endswith("stopped\n")


FIELDS = {"method": "GET", "route": "/api/x", "status": 200, "ms": 1.5, "bytes": 1}


@pytest.mark.parametrize("kind", ["text", "json", "off"])
def test_lines_hold_what_the_server_chose(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with serve.log_to_stderr(kind):
        logging.getLogger("open_token.server").error(
            "a request failed", extra={"fields": {"error": "ValueError"}}
        )
        logging.getLogger("uvicorn.error").warning("somebody's %s", "words")
        logging.getLogger("uvicorn.error").info("not printed")
    err = capsys.readouterr().err
    assert "somebody" not in err
    assert "not printed" not in err
    assert len(err.splitlines()) == (0 if kind == "off" else 2)
    if kind == "json":
        assert json.loads(err.splitlines()[0])["error"] == "ValueError"


@pytest.mark.parametrize("kind", ["text", "json"])
def test_what_the_server_says_is_reported_whole(
    capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    with serve.log_to_stderr(kind):
        logging.getLogger("open_token.server").warning(
            "a run waits for the store: %s", "the disk is full"
        )
    assert "a run waits for the store: the disk is full" in capsys.readouterr().err


def test_check_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "--check", "--port", "0", "--data", str(tmp_path / "data")]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert "ok       packages" in out
    assert err == "ready to start\n"
    (tmp_path / "data").touch()
    assert main([*words, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["ready"] is False
    assert [item["what"] for item in result["findings"] if item["level"] == "missing"] == ["data"]


def test_without_its_packages_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve, "find_missing_packages", lambda: ["fastapi"])
    assert main(["serve", "--data", str(tmp_path)]) == 3
    assert "open-token-cli[server]" in capsys.readouterr().err


def test_wrong_settings_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "many"]) == 2
    assert "--> --port" in capsys.readouterr().err
