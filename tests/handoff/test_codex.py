"""Sessions for Codex."""

from pathlib import Path

from helpers.handoff_conversation import SMALL, hand_over, read_records, summarize
from open_token.handoff import build_conversation


def test_all_of_it_arrives_but_for_the_flag_of_failure(tmp_path: Path) -> None:
    conversation = build_conversation(SMALL)
    session, back = hand_over("codex", conversation, tmp_path)
    assert summarize(back)[:-1] == summarize(conversation, failures=False)
    assert [str(path) for path in session.files] == [
        f"/home/sam/.codex/sessions/2026/03/01/rollout-2026-03-01T10-00-01-{session.id}.jsonl"
    ]
    assert session.commands == [["codex", "resume", session.id]]


def test_every_line_has_a_time_and_its_number(tmp_path: Path) -> None:
    lines = read_records(hand_over("codex", build_conversation(SMALL), tmp_path)[0])
    assert [line["ordinal"] for line in lines] == list(range(len(lines)))
    assert all(line["timestamp"] for line in lines)


def test_the_users_own_provider_holds(tmp_path: Path) -> None:
    about = read_records(hand_over("codex", build_conversation(SMALL), tmp_path)[0])[0]["payload"]
    assert {"id", "timestamp", "cwd", "originator", "cli_version", "source"} <= about.keys()
    assert "model_provider" not in about


def test_the_screen_shows_prompts_answers_and_commands(tmp_path: Path) -> None:
    lines = read_records(hand_over("codex", build_conversation(SMALL), tmp_path)[0])
    shown = [
        line["payload"]["item"] for line in lines if line["payload"].get("type") == "item_completed"
    ]
    assert [item["type"] for item in shown] == [
        "UserMessage",
        "AgentMessage",
        "CommandExecution",
        "AgentMessage",
        "UserMessage",
    ]
    assert shown[2]["command"][-1] == "make test"
    assert shown[2]["exit_code"] == 1


def test_session_is_written_where_the_user_keeps_sessions(tmp_path: Path) -> None:
    session, _ = hand_over("codex", build_conversation(SMALL), tmp_path, CODEX_HOME="/data/codex")
    assert str(next(iter(session.files))).startswith("/data/codex/sessions/")
