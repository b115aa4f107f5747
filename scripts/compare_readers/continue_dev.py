"""Fold sessions of Continue: messages, reasoning, calls and results.

A result is a message of its own, or stands with the state of its call.
"""

import json
from pathlib import Path
from typing import Any

from compare_readers.common import MAIN, Fold, describe_call, describe_result, dump

_KINDS = {"user": "human", "assistant": "answer", "thinking": "thought", "system": "client"}


def is_session(path: Path) -> bool:
    """Return whether a file is a session and not the list of them."""
    return path.suffix == ".json" and path.name != "sessions.json" and path.stat().st_size > 0


def fold_session(path: Path) -> Fold:
    """Fold one session."""
    items = json.loads(path.read_text(encoding="utf-8"))["history"]
    messages = [item.get("message") or {} for item in items]
    answered = {message.get("toolCallId") for message in messages if message.get("role") == "tool"}
    fold = Fold()
    _fold_tokens(fold, json.loads(path.read_text(encoding="utf-8")).get("usage"), messages)
    results: set[Any] = set(answered)
    for item in items:
        results |= {state.get("toolCallId") for state in _list_states(item) if state.get("output")}
    for item, message in zip(items, messages, strict=True):
        _fold_item(fold, item, message, answered, results)
    return fold


def _list_states(item: dict[str, Any]) -> list[dict[str, Any]]:
    single = item.get("toolCallState")
    return item.get("toolCallStates") or ([single] if single else [])


def _fold_item(
    fold: Fold, item: dict[str, Any], message: dict[str, Any], answered: set[Any], results: set[Any]
) -> None:
    role = message.get("role")
    reasoning = (item.get("reasoning") or {}).get("text")
    if reasoning:
        fold.add(MAIN, "thought", reasoning)
    if role == "tool":
        text = describe_result(message.get("toolCallId"), _read_text(message.get("content")))
        fold.add(MAIN, "result", text)
    elif _read_text(message.get("content")) or not message.get("toolCalls"):
        fold.add(MAIN, _KINDS[str(role)], _read_text(message.get("content")))
    for call in message.get("toolCalls") or ():
        function = call["function"]
        call_id = call.get("id")
        arguments = _parse(function.get("arguments") or "{}")
        fold.add(MAIN, "call", describe_call(call_id, function["name"], arguments))
        if call_id not in results:
            fold.add(MAIN, "missing", str(call_id))
    for state in _list_states(item):
        output = state.get("output")
        if output and state["toolCallId"] not in answered:
            texts = [part["content"] for part in output]
            joined = "\n".join(texts) if len(texts) != 1 else texts[0]
            fold.add(MAIN, "result", describe_result(state["toolCallId"], joined))
    if item.get("conversationSummary"):
        fold.add(MAIN, "client", item["conversationSummary"])


def _read_text(content: Any) -> str:
    """Return a text, the only text of a list, or the list in a form that can be compared."""
    if isinstance(content, str):
        return content
    parts = [_reduce(part) for part in content or () if part.get("text") != ""]
    if len(parts) == 1 and parts[0].get("type") == "text":
        return str(parts[0]["text"])
    return dump(parts) if parts else ""


def _reduce(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image"} if part.get("type") == "imageUrl" else part


def _fold_tokens(fold: Fold, total: Any, messages: list[dict[str, Any]]) -> None:
    """Add the counts of the messages, or those of the session if they are more."""
    counts = [message["usage"] for message in messages if message.get("usage")]
    total = total or {}
    fold.add_tokens(
        {
            ours: max(total.get(whole) or 0, sum(count.get(name) or 0 for count in counts))
            for ours, whole, name in (
                ("input_tokens", "promptTokens", "prompt_tokens"),
                ("output_tokens", "completionTokens", "completion_tokens"),
            )
        }
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
