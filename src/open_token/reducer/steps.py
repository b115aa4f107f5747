"""Steps that take several entries, each of which tells clients one thing: a message, a question, an
answer, a stop."""

from typing import Any

import msgspec

from open_token.entries import Json, LogFault, QuestionAsked, Step
from open_token.reducer._facts import Facts
from open_token.reducer._turn import Turn
from open_token.turns import ContentBlock, plain

_DEEPEST = 100
_OPEN = ("pending", "awaiting_answer")


def user_message(
    turn_id: str, blocks: list[ContentBlock], *, checkpoint_id: str = "", **turn: Any
) -> list[Step]:
    """What the person says: a checkpoint before it, and a turn that is over at once."""
    opened = {"turn_id": turn_id, "role": "user", "status": "completed", "blocks": plain(blocks)}
    sent = turn.pop("client_message_id", None)
    steps: list[Step] = []
    if checkpoint_id:
        steps.append(("checkpoint.made", {"checkpoint_id": checkpoint_id, "turn_id": turn_id}))
    steps.append(
        ("turn.opened", {"turn": opened | turn, **({"client_message_id": sent} if sent else {})})
    )
    return [*steps, ("turn.ended", {"turn_id": turn_id})]


def blocks_of(message: str | list[Any]) -> list[ContentBlock]:
    """A message as blocks: one for each text; pictures and files stay beside their texts, in one
    block."""
    if isinstance(message, str):
        return [ContentBlock(type="text", content=message)]
    texts = [
        part.get("text")
        for part in message
        if isinstance(part, dict) and part.get("type") == "text"
    ]
    if len(texts) == len(message) and all(isinstance(text, str) for text in texts):
        return [ContentBlock(type="text", content=text) for text in texts]
    return [ContentBlock(type="text", content=message)]


def halted(turn_id: str, status: str, reason: str | None = None) -> list[Step]:
    """The end of a turn that is not completed: clients hear of its status by a patch, and then the
    whole turn."""
    over: Json = {
        "turn_id": turn_id,
        "status": status,
        **({"failure_reason": reason} if reason else {}),
    }
    return [("turn.status", over), ("turn.ended", over)]


def ask(state: Facts, turn_id: str, tool_call_id: str, questions: list[Json]) -> list[Step]:
    """Ask the person; every call that waits for the one who asks says so."""
    turn = state.turns.get(turn_id)
    if turn is None:
        raise LogFault("a question of a turn that is not in the log")
    data: Json = {"turn_id": turn_id, "tool_call_id": tool_call_id, "questions": questions}
    first = questions[0].get("question") if questions else None
    ref = {
        "child_loop_name": turn.facts.loop_id,
        "child_tool_call_id": tool_call_id,
        "description": first if isinstance(first, str) else None,
    }
    waiting: Json = {"status": "awaiting_answer", "pending_question_ref": ref}
    return [
        ("question.asked", data),
        *(_status(*place, waiting) for place in _waiting(state, turn)),
    ]


def answer(state: Facts, tool_call_id: str, given: Json) -> list[Step]:
    """Take the person's answer; the calls that waited go on. The result of the asking call is the
    caller's to tell."""
    question = _question(state, tool_call_id)
    data = {"turn_id": question.turn_id, "tool_call_id": tool_call_id, "answer": given}
    going: Json = {"status": "pending", "pending_question_ref": None}
    places = _waiting(state, state.turns[question.turn_id])
    return [("question.answered", data), *(_status(*place, going) for place in places)]


def withdraw(state: Facts, tool_call_id: str) -> list[Step]:
    """Nobody will answer: the call and all that waited for it are cancelled, and their turns are
    over."""
    question = _question(state, tool_call_id)
    turn = state.turns[question.turn_id]
    places = [(turn, tool_call_id), *_waiting(state, turn)]
    over: Json = {"status": "cancelled", "pending_question_ref": None}
    open_turns = [
        waiting.facts for waiting, _ in places if waiting.facts.status in ("paused", "streaming")
    ]
    ends = [step for facts in open_turns for step in halted(facts.turn_id, "interrupted")]
    return [*(_status(*place, over) for place in places), *ends]


def interrupt(
    state: Facts, *, status: str = "interrupted", reason: str | None = None
) -> list[Step]:
    """Stop whatever is under way: open calls are cancelled, open turns end with what was said, and
    so does the run."""
    steps: list[Step] = []
    for turn in reversed(state.path):
        if turn.facts.status == "streaming":
            cancelled: Json = {"status": "cancelled"}
            waits = [name for name, calling in turn.calls.items() if calling.call.status in _OPEN]
            steps += [_status(turn, name, cancelled) for name in waits]
            steps += halted(turn.facts.turn_id, status, reason)
    if state.run is not None:
        failed = {"error": reason or "the run broke off"} if status == "failed" else {}
        steps.append(("run.ended", {"run_id": state.run.run_id, "status": status, **failed}))
    return steps


def answered(question: QuestionAsked, given: Json) -> Json:
    """An answer with its words: it came as `selections` and `custom` by question, or as one
    `answer`."""
    selections, custom = _part(given, "selections"), _part(given, "custom")
    only = given.get("answer")
    if isinstance(only, str) and not selections and not custom:
        custom = {"0": only}
    texts = [
        _words(item, selections.get(str(place)), custom.get(str(place)))
        for place, item in enumerate(question.questions)
    ]
    return {
        "tool_call_id": question.tool_call_id,
        "selections": selections,
        "custom": custom,
        "answers": texts,
    }


def _part(given: Json, name: str) -> Json:
    held = given.get(name)
    return held if isinstance(held, dict) else {}


def _words(question: Json, chosen: Any, custom: Any) -> str:
    """What was chosen of a question's options, and what was written beside them."""
    options = question.get("options")
    offered = options if isinstance(options, list) else []
    places = chosen if isinstance(chosen, list) else [chosen]
    labels = [
        offered[place] for place in places if type(place) is int and 0 <= place < len(offered)
    ]
    told = [label["label"] if isinstance(label, dict) else label for label in labels]
    if isinstance(custom, str) and custom:
        told.append(custom)
    return ", ".join(
        item if isinstance(item, str) else msgspec.json.encode(item).decode() for item in told
    )


def _question(state: Facts, tool_call_id: str) -> QuestionAsked:
    question = state.questions.get(tool_call_id)
    if question is None:
        raise LogFault("a question that is not open")
    return question


def _waiting(state: Facts, turn: Turn) -> list[tuple[Turn, str]]:
    """The calls that wait for the loop of a turn, from the inside out."""
    found: list[tuple[Turn, str]] = []
    while len(found) < _DEEPEST and (call := turn.facts.parent_fork_tool_call_id):
        caller = state.turns.get(state.callers.get(call, ""))
        if caller is None:
            break
        found.append((caller, call))
        turn = caller
    return found


def _status(turn: Turn, tool_call_id: str, change: Json) -> Step:
    return "tool.status", {"turn_id": turn.facts.turn_id, "tool_call_id": tool_call_id, **change}
