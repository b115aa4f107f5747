"""Conversations handed over from any format to any agent can be read back unchanged."""

from pathlib import Path

import pytest

import open_token
from conftest import ROOT
from helpers.handoff_conversation import hand_over, summarize
from open_token.errors import UsageError
from open_token.handoff import build_conversation, list_target_names, load_handoff_module

EXAMPLES = sorted((ROOT / "examples").glob("*.json*"))
REAL = (
    "claude_code",
    "codex_cli",
    "gemini_cli",
    "pi",
    "copilot_cli",
    "kimi_cli",
    "opencode",
    "openhands",
)
LARGEST = 60_000


def check(source: Path, agent: str, folder: Path) -> None:
    conversation = build_conversation(open_token.export(source, redact="none"), whole=True)
    if not conversation.turns:
        return
    _, back = hand_over(agent, conversation, folder)
    here, there = (
        summarize(conversation, failures=agent != "codex"),
        summarize(back, failures=agent != "codex")[:-1],
    )
    # OpenCode keeps a result with its call, so that of several calls at once each stands beside its
    # own result.
    assert (
        sorted(map(str, there)) == sorted(map(str, here)) if agent == "opencode" else there == here
    )


@pytest.mark.parametrize("agent", list_target_names())
@pytest.mark.parametrize("source", EXAMPLES, ids=lambda path: path.name)
def test_examples_arrive_whole(source: Path, agent: str, tmp_path: Path) -> None:
    check(source, agent, tmp_path)


@pytest.mark.parametrize("agent", list_target_names())
def test_real_conversations_arrive_whole(agent: str, corpus: Path, tmp_path: Path) -> None:
    found = [path for name in REAL for path in sorted((corpus / name).glob("*.json*"))]
    sources = [path for path in found if path.stat().st_size < LARGEST]
    assert sources
    for number, source in enumerate(sources):
        check(source, agent, tmp_path / str(number))


def test_an_unknown_agent_is_reported() -> None:
    with pytest.raises(UsageError, match="cannot hand over to 'cursor'") as caught:
        load_handoff_module("cursor")
    assert "claude-code, codex" in str(caught.value)
