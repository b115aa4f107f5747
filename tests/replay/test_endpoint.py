"""The provider on loopback: every wire, streamed and not; where a run parts; rude clients."""

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from open_token.library import export
from open_token.replay import endpoint as module
from open_token.replay.endpoint import Endpoint
from open_token.replay.playing import Rules, Run, Verdict
from open_token.replay.recording import recording_of
from open_token.replay.report import as_junit, as_object, report_of
from open_token.replay.sameness import Sameness
from replay_clients import WIRES, Client, Turn, post, turns_of

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.json*"))
TALK = ROOT / "examples" / "openai_chat.json"
FAILED = {"anthropic": "error", "responses": "error", "chat": "error", "gemini": "error"}


def document(path: Path) -> Any:
    return export(path, redact="none")


@contextlib.contextmanager
def listening(talk: Any, rules: Rules | None = None) -> Iterator[Endpoint]:
    verdicts: list[Verdict] = []
    endpoint = Endpoint(Run(recording_of(talk), rules or Rules()), 0, verdicts.append)
    thread = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.shutdown()
        endpoint.server_close()
        thread.join()


def played(endpoint: Endpoint, talk: Any, wire: str, *, stream: bool, changed: dict[int, Turn] | None = None) -> int:
    """Play the recorded agent; gives the number of the first turn that was refused, 0 if none was."""
    turns = turns_of(talk)
    client = Client(endpoint.server_address[1], wire, stream=stream, tools=sorted({c[0] for t in turns for c in t.called}))
    for number, turn in enumerate(turns, 1):
        spoken = client.ask((changed or {}).get(number, turn))
        if client.status != 200:
            return number
        assert spoken.text == turn.said
        assert [(call.name, call.arguments) for call in spoken.calls] == turn.called
    return 0


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_recorded_agent_gets_every_answer_in_turn(path: Path, wire: str, stream: bool) -> None:
    talk = document(path)
    with listening(talk) as endpoint:
        assert played(endpoint, talk, wire, stream=stream) == 0
        report = report_of(endpoint.run, str)
    subagents = {"open_token": 2}.get(path.stem, 0)
    assert (report.missed, report.repeated, report.aside) == (0, 0, 0)
    assert report.served == report.steps - subagents
    assert endpoint.finished.is_set() == report.is_same == (not subagents)
