"""Nobody waits for what is not there any more: a killed server goes on at its next start, a stopped
one ends in the middle of a sentence.

The limits are far above what it takes and below what a wait would be: a lease lasts 30 seconds, an
answer of the demo model here many minutes."""

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from helpers.server.live_server import run_server
from open_token.server.config import ServerConfig
from open_token.server.core import runs
from open_token.server.core.runs import LEASE
from open_token.server.lifecycle import run_services

SLOW = "0.5"
"""Seconds between 2,000 words."""
TIMEOUT = LEASE - 10


class Conversation:
    """A session of a server that is stopped and started again."""

    def __init__(self, result: dict[str, Any]) -> None:
        self._key = result["key"]
        self.client = self.connect(result)
        self.id = self.client.post("/api/sessions", json={"intent": "Test"}).json()["session_id"]

    def connect(self, result: dict[str, Any]) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self._key}"}
        return httpx2.Client(base_url=result["address"], headers=headers, timeout=60)

    def begin_answer(self) -> None:
        """Ask for a long answer, and wait for its first words."""
        url = f"/api/sessions/{self.id}/messages?wait=false"
        assert self.client.post(url, json={"message": "long"}).status_code == 202
        while "word2" not in self.read_text():
            time.sleep(0.05)

    def read_text(self) -> str:
        return str(self.client.get(f"/api/sessions/{self.id}/history").text)

    def read_status(self) -> str:
        return str(self.client.get(f"/api/sessions/{self.id}").json()["status"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_answer_goes_on_at_the_next_start(tmp_path: Path, number: int) -> None:
    with run_server(tmp_path, delay=SLOW) as (process, result):
        conversation = Conversation(result)
        conversation.begin_answer()
        conversation.client.close()
        process.send_signal(number)
        process.wait(TIMEOUT)
    with run_server(tmp_path, delay="0") as (process, result):
        started_at = time.monotonic()
        with conversation.connect(result) as conversation.client:
            while conversation.read_status() != "completed":
                assert time.monotonic() - started_at < TIMEOUT, "the run waits for its lease"
                time.sleep(0.05)
            assert "word2000" in conversation.read_text()


@pytest.mark.parametrize("has_key", [True, False])
def test_packages_of_providers_are_loaded_before_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_key: bool
) -> None:
    loaded = threading.Event()
    monkeypatch.setattr(runs, "import_providers", loaded.set)
    env = {"OPENAI_API_KEY": "sk-test"} if has_key else {}

    async def start() -> bool:
        async with run_services(ServerConfig(data=tmp_path), env):
            return await asyncio.to_thread(loaded.wait, 10 if has_key else 0.1)

    assert asyncio.run(start()) is has_key
