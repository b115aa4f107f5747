"""Actions that append several log entries: send a message, ask, answer, stop.

Each function returns the events to append; nothing is written here.
"""

from typing import Any

import msgspec

from open_token.model.log_events import Json, LogError, NewEvent, QuestionAsked
from open_token.model.session_types import ContentBlock, to_builtins
from open_token.session.document_events import describe_part
from open_token.session.state import SessionState
from open_token.session.turn import Turn

_MAX_DEPTH = 100
_OPEN_STATUSES = ("pending", "awaiting_answer")


def send_user_message(
    turn_id: str, blocks: list[ContentBlock], *, checkpoint_id: str = "", **turn: Any
) -> list[NewEvent]:
    """Add a message of the user: a checkpoint before it, and a turn that ends at once."""
    client_message_id = turn.pop("client_message_id", None)
    opened: Json = {
        "turn": {
            "turn_id": turn_id,
            "role": "user",
            "status": "completed",
            "blocks": to_builtins(blocks),
            **turn,
        }
    }
    if client_message_id:
        opened["client_message_id"] = client_message_id
    events: list[NewEvent] = []
    if checkpoint_id:
        events.append(("checkpoint.made", {"checkpoint_id": checkpoint_id, "turn_id": turn_id}))
    events.append(("turn.opened", opened))
    events.append(("turn.ended", {"turn_id": turn_id}))
    return events


def build_text_blocks(message: str | list[Any]) -> list[ContentBlock]:
    """Return a message as blocks: one for each part, and its content is always text.

    An image or a file is named in the text; the part itself is in the field `parts` of the block.
    """
    if isinstance(message, str):
        return [ContentBlock(type="text", content=message)]
    return [_build_part_block(part) for part in message]


def _build_part_block(part: Any) -> ContentBlock:
    if isinstance(part, dict) and part.get("type") == "text":
        text = part.get("text")
        if isinstance(text, str):
            return ContentBlock(type="text", content=text)
    return ContentBlock(type="text", content=describe_part(part), more={"parts": [part]})


def stop_turn(turn_id: str, status: str, reason: str | None = None) -> list[NewEvent]:
    """End a turn that is not completed: clients get its status as a patch, then the whole turn."""
    data: Json = {"turn_id": turn_id, "status": status}
    if reason:
        data["failure_reason"] = reason
    return [("turn.status", data), ("turn.ended", data)]


def ask_question(
    state: SessionState,
    turn_id: str,
    tool_call_id: str,
    questions: list[Json],
    kind: str = "question",
) -> list[NewEvent]:
    """Ask the user; every call that waits for the asking subagent refers to the question."""
    turn = state.turns.get(turn_id)
    if turn is None:
        raise LogError("turn that asks is not in the log")
    description = questions[0].get("question") if questions else None
    change: Json = {
        "status": "awaiting_answer",
        "pending_question_ref": {
            "child_loop_name": turn.facts.loop_id,
            "child_tool_call_id": tool_call_id,
            "description": description if isinstance(description, str) else None,
        },
    }
    asked: Json = {"turn_id": turn_id, "tool_call_id": tool_call_id, "questions": questions}
    if kind != "question":
        asked["kind"] = kind
    events: list[NewEvent] = [("question.asked", asked)]
    for caller, call_id in _find_waiting_calls(state, turn):
        events.append(_change_status(caller, call_id, change))
    return events


def answer_question(state: SessionState, tool_call_id: str, answer: Json) -> list[NewEvent]:
    """Record the answer of the user; the calls that waited become pending again.

    The caller adds the result of the asking call itself.
    """
    question = _get_question(state, tool_call_id)
    data = {"turn_id": question.turn_id, "tool_call_id": tool_call_id, "answer": answer}
    events: list[NewEvent] = [("question.answered", data)]
    change: Json = {"status": "pending", "pending_question_ref": None}
    for caller, call_id in _find_waiting_calls(state, state.turns[question.turn_id]):
        events.append(_change_status(caller, call_id, change))
    return events


def withdraw_question(state: SessionState, tool_call_id: str) -> list[NewEvent]:
    """Cancel a question, with all calls that wait for it, and end their turns."""
    question = _get_question(state, tool_call_id)
    turn = state.turns[question.turn_id]
    calls = [(turn, tool_call_id), *_find_waiting_calls(state, turn)]
    change: Json = {"status": "cancelled", "pending_question_ref": None}
    events = [_change_status(caller, call_id, change) for caller, call_id in calls]
    for caller, _ in calls:
        if caller.facts.status in ("paused", "streaming"):
            events += stop_turn(caller.facts.turn_id, "interrupted")
    return events


def interrupt_run(
    state: SessionState, *, status: str = "interrupted", reason: str | None = None
) -> list[NewEvent]:
    """Stop the run: cancel open calls, end open turns with what they hold, and end the run."""
    events: list[NewEvent] = []
    for turn in reversed(state.path):
        if turn.facts.status != "streaming":
            continue
        for call_id, buffer in turn.calls.items():
            if buffer.call.status in _OPEN_STATUSES:
                events.append(_change_status(turn, call_id, {"status": "cancelled"}))
        events += stop_turn(turn.facts.turn_id, status, reason)
    if state.run is not None:
        ended: Json = {"run_id": state.run.run_id, "status": status}
        if status == "failed":
            ended["error"] = reason or "the run was interrupted"
        events.append(("run.ended", ended))
    return events


def normalize_answer(question: QuestionAsked, answer: Json) -> Json:
    """Return an answer with its text for each question.

    Clients send `selections` and `custom` texts by question index, or a single `answer`.
    """
    selections = _get_object(answer, "selections")
    custom = _get_object(answer, "custom")
    single = answer.get("answer")
    if isinstance(single, str) and not selections and not custom:
        custom = {"0": single}
    texts = []
    for index, item in enumerate(question.questions):
        key = str(index)
        texts.append(_build_answer_text(item, selections.get(key), custom.get(key)))
    return {
        "tool_call_id": question.tool_call_id,
        "selections": selections,
        "custom": custom,
        "answers": texts,
    }


def _get_object(value: Json, name: str) -> Json:
    item = value.get(name)
    return item if isinstance(item, dict) else {}


def _build_answer_text(question: Json, selection: Any, custom: Any) -> str:
    """Join the labels of the selected options and the custom text."""
    options = question.get("options")
    if not isinstance(options, list):
        options = []
    indexes = selection if isinstance(selection, list) else [selection]
    labels: list[str] = []
    for index in indexes:
        if type(index) is int and 0 <= index < len(options):
            labels.append(_get_option_label(options[index]))
    if isinstance(custom, str) and custom:
        labels.append(custom)
    return ", ".join(labels)


def _get_option_label(option: Any) -> str:
    """Return the text of an option, which a model may have given as any JSON value."""
    label = option["label"] if isinstance(option, dict) else option
    if isinstance(label, str):
        return label
    return msgspec.json.encode(label).decode()


def _get_question(state: SessionState, tool_call_id: str) -> QuestionAsked:
    question = state.questions.get(tool_call_id)
    if question is None:
        raise LogError("question is not open")
    return question


def _find_waiting_calls(state: SessionState, turn: Turn) -> list[tuple[Turn, str]]:
    """Return the calls that wait for the loop of a turn, from the innermost outwards."""
    calls: list[tuple[Turn, str]] = []
    while len(calls) < _MAX_DEPTH:
        call_id = turn.facts.parent_fork_tool_call_id
        if not call_id:
            break
        caller = state.turns.get(state.callers.get(call_id, ""))
        if caller is None:
            break
        calls.append((caller, call_id))
        turn = caller
    return calls


def _change_status(turn: Turn, tool_call_id: str, change: Json) -> NewEvent:
    data = {"turn_id": turn.facts.turn_id, "tool_call_id": tool_call_id, **change}
    return "tool.status", data
