"""Fold rollouts of Codex: what the model saw (`response_item`), what the person typed, the tokens.

`event_msg` lines repeat most of it for the screen. A fold takes from them who typed a message, what
no item holds, and the token counts.
"""

import json
from pathlib import Path
from typing import Any

from compare_readers.common import MAIN, Fold, describe_call, describe_result, dump, read_json_lines

_INJECTED = ("<", "# AGENTS.md instructions")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_BLOCKS = {"input_text": "text", "output_text": "text", "input_image": "image"}

NOT_FOLDED = {
    "events_only": "a rollout without items: only events say what was said",
    "exec_stream": "the output of `codex exec --json`, which is no rollout",
    "fork": "what was said before the fork is in another rollout",
    "subagent": "the subagent is in another rollout",
    "team": "the subagents are in other rollouts",
}
"""Golden cases that a fold does not cover, each with the reason."""


def is_session(path: Path) -> bool:
    """Return whether a file is a rollout."""
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        return b'"session_meta"' in file.readline()


def fold_session(path: Path) -> Fold:
    """Fold a rollout without subagents; those are in rollouts of their own."""
    records = [_wrap(record) for record in read_json_lines(path) if isinstance(record, dict)]
    fold = Fold()
    typed = _list_typed_texts(records)
    items = [record["payload"] for record in records if record.get("type") == "response_item"]
    called = {item.get("call_id") for item in items}
    called |= {item.get("id") for item in items}
    answered = {item.get("call_id") for item in items if str(item.get("type")).endswith("_output")}
    searched = _list_search_results(records)
    has_usage_records = any(record.get("type") == "token_usage_record" for record in records)
    # Items of the spring of 2026 have no id: the end of such a search is told by what it did.
    unnamed = [
        item.get("action")
        for item in items
        if item.get("type") == "web_search_call" and item.get("id") is None
    ]
    seen_outputs: set[Any] = set()
    total: Any = None
    for record in records:
        payload = record.get("payload")
        if not isinstance(payload, dict):
            continue
        kind = payload.get("type")
        if record.get("type") == "response_item":
            if str(kind).endswith("_output"):
                # A script may send notices for its call; only the first output is its result.
                if payload.get("call_id") in seen_outputs:
                    continue
                seen_outputs.add(payload.get("call_id"))
            _fold_item(fold, payload, typed, answered)
            if kind == "web_search_call":
                _fold_search_result(fold, payload.get("id"), searched)
        elif record.get("type") == "token_usage_record":
            fold.add_tokens(_read_tokens(payload.get("usage") or {}))
        elif has_usage_records and kind == "token_count":
            continue
        elif kind == "web_search_end" and payload.get("call_id") not in called:
            if payload.get("action") in unnamed:
                unnamed.remove(payload["action"])
                continue
            call_id = payload["call_id"]
            fold.add(MAIN, "call", describe_call(call_id, "web_search", payload.get("action")))
            _fold_search_result(fold, call_id, searched)
        elif kind == "mcp_tool_call_end" and payload.get("call_id") not in called:
            _fold_mcp_call(fold, payload)
        elif kind == "item_completed" and _get_item_id(payload) not in called:
            _fold_completed_item(fold, payload["item"])
        elif kind == "token_count" and isinstance(payload.get("info"), dict):
            info = payload["info"]
            # The same totals are written more than once for one request.
            if info.get("total_token_usage") != total:
                total = info.get("total_token_usage")
                fold.add_tokens(_read_tokens(info.get("last_token_usage") or {}))
        elif payload.get("type") == "patch_apply_end" and payload.get("call_id") not in called:
            _fold_patch(fold, payload)
    return fold


def _wrap(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record as newer versions write it: those of 2025 have the items alone."""
    is_item = "role" in record or "call_id" in record or record.get("type") == "reasoning"
    if "payload" in record or not is_item:
        return record
    return {"type": "response_item", "payload": record}


def _list_search_results(records: list[dict[str, Any]]) -> dict[Any, Any]:
    """Return the results of searches by the ids of their calls."""
    payloads = [record.get("payload") for record in records]
    return {
        payload.get("call_id"): payload["results"]
        for payload in payloads
        if isinstance(payload, dict)
        and payload.get("type") == "web_search_end"
        and payload.get("results")
    }


def _fold_search_result(fold: Fold, call_id: Any, searched: dict[Any, Any]) -> None:
    """Fold the results of a search; they are rarely stored, and no item has them."""
    if call_id in searched:
        fold.add(MAIN, "result", describe_result(call_id, searched[call_id]))
    else:
        fold.add(MAIN, "missing", str(call_id))


def _fold_mcp_call(fold: Fold, event: dict[str, Any]) -> None:
    """Fold a call that only an event reports; a text alone is the output itself."""
    invocation = event["invocation"]
    call_id = event["call_id"]
    fold.add(MAIN, "call", describe_call(call_id, invocation["tool"], invocation.get("arguments")))
    result = event.get("result") or {}
    content = result["Ok"].get("content") if "Ok" in result else result.get("Err")
    if isinstance(content, list) and len(content) == 1 and content[0].get("type") == "text":
        content = content[0]["text"]
    fold.add(MAIN, "result", describe_result(call_id, content))


def _get_item_id(event: dict[str, Any]) -> Any:
    item = event.get("item")
    return item.get("id") if isinstance(item, dict) else None


def _fold_completed_item(fold: Fold, item: dict[str, Any]) -> None:
    """Fold a call that a script made: no item of the model holds it."""
    call_id = item.get("id")
    if item.get("type") == "CommandExecution":
        given = {"command": item.get("command"), "cwd": item.get("cwd")}
        fold.add(MAIN, "call", describe_call(call_id, "shell", given))
        fold.add(MAIN, "result", describe_result(call_id, item.get("aggregated_output")))
    elif item.get("type") == "ImageView":
        fold.add(MAIN, "call", describe_call(call_id, "view_image", {"path": item.get("path")}))
        fold.add(MAIN, "result", describe_result(call_id, ""))


def _fold_patch(fold: Fold, event: dict[str, Any]) -> None:
    """Fold a patch that a command applied: no item holds this call."""
    call_id = event["call_id"]
    given = {"changes": event.get("changes")}
    fold.add(MAIN, "call", describe_call(call_id, "apply_patch", given))
    output = "\n".join(text for text in (event.get("stdout"), event.get("stderr")) if text)
    fold.add(MAIN, "result", describe_result(call_id, output))


def _list_typed_texts(records: list[dict[str, Any]]) -> set[str] | None:
    """Return what the person typed; None for versions that do not tell."""
    payloads = [record.get("payload") for record in records if record.get("type") == "event_msg"]
    typed = {
        str(payload.get("message"))
        for payload in payloads
        if isinstance(payload, dict) and payload.get("type") == "user_message"
    }
    return typed or None


def _fold_item(
    fold: Fold, item: dict[str, Any], typed: set[str] | None, answered: set[Any]
) -> None:
    kind = item.get("type")
    if kind == "message":
        _fold_message(fold, item, typed)
    elif kind == "reasoning":
        parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
        texts = [str(part.get("text")) for part in parts]
        if texts or item.get("encrypted_content"):
            fold.add(MAIN, "thought", "\n\n".join(texts))
    elif kind in ("function_call", "custom_tool_call"):
        given = item.get("arguments") if kind == "function_call" else {"input": item.get("input")}
        fold.add(MAIN, "call", describe_call(item["call_id"], item["name"], _parse(given)))
        if item["call_id"] not in answered:
            fold.add(MAIN, "missing", str(item["call_id"]))
    elif kind == "web_search_call":
        fold.add(MAIN, "call", describe_call(item.get("id"), "web_search", item.get("action")))
    elif kind == "local_shell_call":
        fold.add(MAIN, "call", describe_call(item["call_id"], "local_shell", item.get("action")))
        if item["call_id"] not in answered:
            fold.add(MAIN, "missing", str(item["call_id"]))
    elif kind in _OUTPUTS:
        output = _rename_blocks(item.get("output"))
        fold.add(MAIN, "result", describe_result(item["call_id"], output))


def _rename_blocks(content: Any) -> Any:
    """Return content with the names of blocks that an export has."""
    if not isinstance(content, list):
        return content
    return [
        {**block, "type": _BLOCKS.get(block.get("type"), block.get("type"))} for block in content
    ]


def _fold_message(fold: Fold, item: dict[str, Any], typed: set[str] | None) -> None:
    role = item.get("role")
    texts = [str(part.get("text")) for part in item["content"] if "text" in part]
    if len(texts) != len(item["content"]):
        text = dump(_rename_blocks(item["content"]))
    else:
        text = "".join(texts)
    if role == "assistant":
        fold.add(MAIN, "answer", text)
    elif role == "user":
        is_typed = text in typed if typed is not None else not text.startswith(_INJECTED)
        if is_typed or any(part in (typed or ()) for part in texts):
            fold.add(MAIN, "human", text)


def _read_tokens(usage: dict[str, Any]) -> dict[str, int]:
    return {
        "input_tokens": usage.get("input_tokens", 0),
        "output_tokens": usage.get("output_tokens", 0),
        "cache_read_tokens": usage.get("cached_input_tokens", 0),
    }


def _parse(arguments: Any) -> Any:
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
