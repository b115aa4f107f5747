"""The Agent Client Protocol: prompts as messages of a session, and its log as session updates."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from open_token.agents import tools
from open_token.model.log_events import Json
from open_token.model.session_types import ROOT_LOOP, to_builtins
from open_token.server.errors import ApiError, bad_request
from open_token.session import SessionState

_KINDS = {
    "read": "read", "read_many": "read", "read_notebook": "read", "view_image": "read", "list": "read",
    "edit": "edit", "multi_edit": "edit", "patch": "edit", "insert": "edit", "edit_notebook": "edit", "write": "edit",
    "search": "search", "find": "search", "semantic_search": "search", "web_search": "search",
    "run": "execute", "run_code": "execute", "shell_input": "execute", "shell_output": "execute",
    "fetch": "fetch", "plan": "think", "read_plan": "think",
}  # fmt: skip
_STATUSES = {
    "pending": "in_progress",
    "awaiting_answer": "pending",
    "done": "completed",
    "error": "failed",
    "cancelled": "failed",
}
_STOP_REASONS = {
    "length": "max_tokens",
    "budget": "max_tokens",
    "max_turns": "max_turn_requests",
    "content_filter": "refusal",
    "interrupted": "cancelled",
}
_PLAN_LINE = re.compile(r"[ \t]*(?:[-*+]|\d{1,4}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?(\S[^\n]*)")
_MAX_TITLE = 200
_MAX_PLAN_ENTRIES = 100
_SHOWN_ACTIONS = ("read", "edit", "write", "run", "search", "find", "fetch", "list", "delegate")


def build_message(blocks: list[Json]) -> str | list[Json]:
    """Return the content of a prompt as a message of `chat:send`."""
    parts = [_convert_block(block) for block in blocks]
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


def _convert_block(block: Json) -> Json:
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image" and isinstance(block.get("data"), str):
        name = _name_file(block.get("uri"))
        return {"type": "file", "name": name, "data": block["data"]}
    if kind == "resource_link" and isinstance(block.get("uri"), str):
        return {"type": "text", "text": f"[{_name_resource(block['uri'])}]"}
    if kind == "resource" and isinstance(block.get("resource"), dict):
        return _convert_resource(block["resource"])
    raise bad_request("prompt: text, images, links and resources are accepted", "invalid")


def _convert_resource(resource: Json) -> Json:
    name = _name_resource(str(resource.get("uri") or ""))
    if isinstance(resource.get("text"), str):
        return {"type": "text", "text": f"[{name}]\n{resource['text']}"}
    if isinstance(resource.get("blob"), str):
        return {
            "type": "file",
            "name": _name_file(resource.get("uri")),
            "data": resource["blob"],
            "media_type": resource.get("mimeType") or "",
        }
    raise bad_request("prompt: a resource must have a text or a blob", "invalid")


def _name_file(uri: Any) -> str:
    """Return the file name in an address; empty without one."""
    return _name_resource(uri).rpartition("/")[2] if isinstance(uri, str) else ""


def _name_resource(uri: str) -> str:
    """Return the path of a file, or the address of anything else."""
    try:
        address = urlsplit(uri)
    except ValueError:
        return uri
    return unquote(address.path) if address.scheme == "file" else uri


def get_stop_reason(ended: Json) -> str:
    """Return why a prompt ended, from the payload of `chat:end`."""
    return _STOP_REASONS.get(str(ended["finish_reason"]), "end_turn")


class UpdateStream:
    """Translates the items of `turn:events` into session updates."""

    def __init__(self, folder: Path, title: str) -> None:
        self._folder = folder
        self._title = title
        self._main_turns: set[str] = set()
        self._calls: dict[str, Json] = {}

    def take(self, item: Json) -> Iterator[Json]:
        """Yield the updates for an item."""
        payload = item["payload"]
        kind = item["type"]
        if kind == "turn:start":
            is_answer = payload["role"] == "assistant" and payload["kind"] != "compaction"
            if is_answer and payload["loop_id"] == ROOT_LOOP:
                self._main_turns.add(payload["turn_id"])
        elif kind == "turn:patch":
            yield from self._take_patch(payload)
        elif kind == "turn:end" and payload["turn_id"] in self._main_turns:
            yield from _build_usage(payload)
        elif kind == "session:updated":
            yield from self._take_session(payload)

    def replay(self, state: SessionState) -> Iterator[Json]:
        """Yield the updates that show the current branch of a session."""
        for turn in state.path:
            snapshot: Json = to_builtins(turn.snapshot())
            calls = {call["id"]: call for call in snapshot["tool_calls"]}
            is_main = snapshot["loop_id"] == ROOT_LOOP
            for block in snapshot["blocks"]:
                if block["type"] == "tool_use":
                    call = calls.get(block["tool_call_id"])
                    if call is not None:
                        yield from self._show_call(call)
                elif is_main:
                    yield from self._show_block(block, snapshot["role"])

    def describe_call(self, call_id: str, title: str | None = None) -> Json:
        """Return a call that was shown, as a request for permission names it."""
        call = {"toolCallId": call_id, **self._calls.get(call_id, {})}
        call.pop("sessionUpdate", None)
        return call if title is None else {**call, "title": title}

    def _take_session(self, session: Json) -> Iterator[Json]:
        title = session.get("intent")
        if title and title != self._title:
            self._title = title
            yield {"sessionUpdate": "session_info_update", "title": title}

    def _take_patch(self, patch: Json) -> Iterator[Json]:
        data = patch["data"]
        kind = patch["patch_type"]
        if kind == "add_content" and patch["turn_id"] in self._main_turns:
            yield from self._show_block(data, "assistant")
        elif kind == "add_tool_call":
            yield self._start_call(data)
        elif kind == "set_tool_status" and data["tool_call_id"] in self._calls:
            yield self._change_call(data["tool_call_id"], data["status"])
        elif kind == "tool_result":
            yield self._end_call(data)

    def _show_call(self, call: Json) -> Iterator[Json]:
        yield self._start_call(call)
        if call["status"] not in ("pending", "awaiting_answer"):
            yield self._end_call({**call, "tool_call_id": call["id"]})

    def _show_block(self, block: Json, role: str) -> Iterator[Json]:
        kind = block["type"]
        text = block.get("text_delta")
        if text is None:
            text = block.get("content")
        if kind == "plan_status":
            yield from _build_plan(text)
        elif not isinstance(text, str) or not text:
            return
        elif kind == "thinking":
            yield _build_chunk("agent_thought_chunk", text)
        elif kind == "text" and role == "user":
            yield _build_chunk("user_message_chunk", text)
        elif kind in ("text", "system_notification"):
            yield _build_chunk("agent_message_chunk", text)

    def _start_call(self, call: Json) -> Json:
        arguments = _parse_arguments(call["arguments"])
        action = tools.guess_action(call["tool_name"], arguments)
        update: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": call["id"],
            "title": _build_title(call, action, arguments),
            "kind": _KINDS.get(action or "", "other"),
            "status": _STATUSES[call["status"]],
            "rawInput": arguments,
        }
        path = tools.find_text(arguments, tools.PATH) if _KINDS.get(action or "") else ""
        if path:
            update["locations"] = [{"path": str(self._folder / path)}]
        content = self._build_diff(action, path, arguments)
        if content is not None:
            update["content"] = [content]
        is_known = call["id"] in self._calls
        self._calls[call["id"]] = update
        if is_known:
            return {**update, "sessionUpdate": "tool_call_update"}
        return update

    def _build_diff(self, action: str | None, path: str, arguments: Any) -> Json | None:
        """Return what a call writes, for editors that show changes."""
        if action not in ("edit", "write") or not path:
            return None
        new = tools.find_text(arguments, tools.NEW_TEXT if action == "edit" else tools.CONTENT)
        old = tools.find_text(arguments, tools.OLD_TEXT) if action == "edit" else None
        diff: Json = {"type": "diff", "path": str(self._folder / path), "newText": new}
        if old is not None:
            diff["oldText"] = old
        return diff

    def _change_call(self, call_id: str, status: str) -> Json:
        return {
            "sessionUpdate": "tool_call_update",
            "toolCallId": call_id,
            "status": _STATUSES[status],
        }

    def _end_call(self, data: Json) -> Json:
        update = self._change_call(data["tool_call_id"], data["status"])
        result = data.get("result")
        if result is None:
            return update
        update["rawOutput"] = result
        shown = self._calls.get(data["tool_call_id"], {})
        has_diff = bool(shown.get("content")) and data["status"] == "done"
        if not has_diff:
            update["content"] = [_build_text_content(_describe_result(result))]
        return update


def _build_chunk(kind: str, text: str) -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def build_text(text: str) -> Json:
    """Return a text of the agent as a paragraph of its own."""
    return _build_chunk("agent_message_chunk", f"\n\n{text.strip()}\n\n")


def _build_text_content(text: str) -> Json:
    return {"type": "content", "content": {"type": "text", "text": text}}


def _build_plan(plan: Any) -> Iterator[Json]:
    """Yield a plan that is ready as text, and its steps."""
    text = plan.get("plan") if isinstance(plan, dict) else None
    if not isinstance(text, str) or not text.strip() or plan.get("status") != "ready":
        return
    yield build_text(text)
    lines = (_PLAN_LINE.fullmatch(line) for line in text.splitlines())
    steps = [match[1] for match in lines if match]
    entries = [
        {"content": step, "priority": "medium", "status": "pending"}
        for step in steps[:_MAX_PLAN_ENTRIES]
    ]
    yield {"sessionUpdate": "plan", "entries": entries}


def _build_usage(turn: Json) -> Iterator[Json]:
    usage = turn.get("usage") or {}
    used = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    if used and turn["context_window"]:
        yield {"sessionUpdate": "usage_update", "used": used, "size": turn["context_window"]}


def _parse_arguments(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {"raw": arguments}


def _build_title(call: Json, action: str | None, arguments: Any) -> str:
    name = call.get("display_name") or call["tool_name"]
    target = ""
    if action in _SHOWN_ACTIONS:
        groups = tools.ARGUMENTS.get(action, ())
        target = tools.find_text(arguments, groups[0]) if groups else ""
    title = " ".join(f"{name} {target}".split())
    if len(title) > _MAX_TITLE:
        return title[: _MAX_TITLE - 3] + "..."
    return title


def _describe_result(result: Any) -> str:
    """Return the text of a result; an object with one text is that text."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        for name in ("output", "content", "error"):
            if isinstance(result.get(name), str):
                text: str = result[name]
                return text
    return msgspec.json.encode(result).decode()


def build_approval_options(labels: Iterable[str]) -> list[Json]:
    """Return the options of an approval: once, always, no."""
    kinds = ("allow_once", "allow_always", "reject_once")
    return [
        {"optionId": str(index), "name": label, "kind": kind}
        for index, (label, kind) in enumerate(zip(labels, kinds, strict=True))
    ]


def build_question_options(question: Json) -> list[Json]:
    """Return the options of a question of the agent."""
    return [
        {"optionId": str(index), "name": _describe_option(option), "kind": "allow_once"}
        for index, option in enumerate(question.get("options") or ())
    ]


def _describe_option(option: Json) -> str:
    description = option.get("description")
    return f"{option['label']} ({description})" if description else str(option["label"])


def read_choice(answer: Any, count: int) -> int | None:
    """Return the index of the option that the user chose; None if the request was cancelled."""
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return None
    chosen = outcome.get("optionId")
    indexes = {str(index): index for index in range(count)}
    if not isinstance(chosen, str) or chosen not in indexes:
        raise ApiError(422, "the editor chose an option that was not offered", "invalid")
    return indexes[chosen]
