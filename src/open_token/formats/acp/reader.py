"""Read logs of the Agent Client Protocol.

A client starts a session and sends prompts; the agent answers in chunks, reports tool calls, and
asks the client for permissions, files and terminals.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.acp.tool_calls import ToolCalls, parse_block
from open_token.formats.shared.fields import (
    JsonObject,
    drop_nulls,
    get_dict,
    get_dicts,
    get_text,
    pick_fields,
)
from open_token.formats.shared.json_rpc import Message, iter_messages, unwrap_message
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Found, Usage
from open_token.sources.source import Source

_CHUNK_ROLES = {
    "user_message_chunk": "user",
    "agent_message_chunk": "assistant",
    "agent_thought_chunk": "reasoning",
}
_BOOKKEEPING = ("available_commands_update", "config_option_update", "usage_update")
_MAX_TITLE = 80


def read(source: Source, draft: Draft) -> None:
    """Read one session of the log into the draft."""
    draft.conversation["source_runtime"] = "ide"
    draft.without_thoughts = "unknown"
    reader = _SessionReader(draft, source.conversation)
    for message in iter_messages(source):
        if isinstance(message, int):
            draft.note_omission("unknown-record", f"line {message}", "no message of JSON-RPC")
        else:
            reader.read_message(message)
    reader.finish()


def list_conversations(source: Source) -> list[Found]:
    """List the sessions of a log that holds more than one."""
    found: dict[str, Found] = {}
    for message, session_id in _assign_sessions(source):
        if session_id is None:
            continue
        known = found.get(session_id)
        title = known.title if known else None
        if title is None and message.method == "session/prompt":
            texts = [get_text(block, "text") for block in get_dicts(message.params, "prompt")]
            title = " ".join(text for text in texts if text)[:_MAX_TITLE] or None
        started_at = known.started_at if known else message.ts
        found[session_id] = Found(
            session_id, title=title, started_at=started_at, updated_at=message.ts
        )
    return list(found.values()) if len(found) > 1 else []


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the session that a line names; a response may name none."""
    body = unwrap_message(value)
    if body is None:
        return None
    for part in ("params", "result"):
        session_id = get_text(get_dict(body, part), "sessionId")
        if session_id:
            return session_id
    return None


class _Request(NamedTuple):
    """A request whose response is still to come."""

    message: Message
    session_id: str | None


class _Requests:
    """The open requests of both sides, which number theirs independently."""

    def __init__(self) -> None:
        self._open: dict[Any, list[_Request]] = {}

    def add(self, message: Message, session_id: str | None) -> None:
        request_id = message.body.get("id")
        if isinstance(request_id, str | int):
            self._open.setdefault(request_id, []).append(_Request(message, session_id))

    def pop(self, response: Message) -> _Request | None:
        request_id = response.body.get("id")
        candidates = self._open.get(request_id) if isinstance(request_id, str | int) else None
        if not candidates:
            return None
        method = _guess_method(response.result)
        for position, request in enumerate(candidates):
            if request.message.method == method:
                return candidates.pop(position)
        return candidates.pop()


def _guess_method(result: JsonObject) -> str | None:
    """Return the method that only such a result answers."""
    if "stopReason" in result:
        return "session/prompt"
    if "outcome" in result:
        return "session/request_permission"
    if "protocolVersion" in result:
        return "initialize"
    if "terminalId" in result:
        return "terminal/create"
    return "session/new" if "sessionId" in result else None


def _assign_sessions(source: Source) -> Iterator[tuple[Message, str | None]]:
    """Yield every message with its session; a response belongs to that of its request."""
    requests = _Requests()
    for message in iter_messages(source, is_preview=True):
        if isinstance(message, int):
            continue
        session_id = get_text(message.params, "sessionId")
        if message.method:
            requests.add(message, session_id)
        else:
            request = requests.pop(message)
            session_id = get_text(message.result, "sessionId")
            if session_id is None and request:
                session_id = request.session_id
        yield message, session_id


class _SessionReader:
    """Adds the messages of one session to the draft."""

    def __init__(self, draft: Draft, session_id: str | None) -> None:
        self._draft = draft
        self._session_id = session_id
        self._requests = _Requests()
        self._calls = ToolCalls(draft)
        self._agent = "assistant"
        self._model: str | None = None
        self._role: str | None = None
        """Who is speaking in chunks."""
        self._message_id: str | None = None
        self._blocks: list[Any] = []
        self._chunk_ts: str | None = None
        self._last_prompt: Any = None
        self._last_answer: str | None = None
        """The last event of the model, which gets the token counts of its turn."""
        self._has_request_usage = False
        """Whether the requests of the turn were counted one by one."""
        self._plan: Any = None
        self._was_cancelled = False

    def read_message(self, message: Message) -> None:
        """Read one message, if it belongs to the session or to the whole connection."""
        if message.method is None:
            request = self._requests.pop(message)
            if request is None:
                self._draft.note_omission(
                    "unknown-record", message.position, "response without its request"
                )
            elif self._is_mine(get_text(message.result, "sessionId") or request.session_id):
                self._read_response(request.message, message)
            return
        session_id = get_text(message.params, "sessionId")
        if "id" in message.body:
            self._requests.add(message, session_id)
        if self._is_mine(session_id):
            self._read_call(message)

    def finish(self) -> None:
        """Add what is still unfinished at the end."""
        self._flush()
        self._calls.finish(self._actor)

    def _is_mine(self, session_id: str | None) -> bool:
        if session_id is None:
            return True
        if self._session_id is None:
            self._session_id = session_id
        if session_id == self._session_id:
            self._draft.conversation["id"] = session_id
        return session_id == self._session_id

    @property
    def _actor(self) -> str:
        return self._draft.get_actor("model", self._agent, model=self._model)

    def _annotate(self, kind: str, ts: str | None, **data: Any) -> None:
        known = drop_nulls(data)
        self._draft.add_annotation({"kind": kind, **known}, ts=ts)

    def _read_call(self, message: Message) -> None:
        """Read a request or a notification."""
        method = message.method
        if method == "session/update":
            self._read_update(message, get_dict(message.params, "update"))
            return
        self._flush()
        if method == "session/prompt":
            self._calls.emit_pending(self._actor)
            self._add_prompt(message)
        elif method in ("session/load", "session/resume"):
            self._annotate("context", message.ts, cwd=get_text(message.params, "cwd"))
        elif method == "session/request_permission":
            self._calls.update(get_dict(message.params, "toolCall"), self._actor, message.ts)
            self._calls.emit_pending(self._actor)
        elif method == "session/cancel":
            self._calls.emit_pending(self._actor)
            self._annotate("interrupted", message.ts)
            self._was_cancelled = True
        elif method == "session/set_mode":
            self._annotate("settings", message.ts, mode=get_text(message.params, "modeId"))
        elif method == "session/set_model":
            self._model = get_text(message.params, "modelId") or self._model
        elif "id" not in message.body:
            self._draft.note_omission(
                "unknown-record",
                message.position,
                f"notification {format_kind(str(method).replace('/', '.'))}",
            )

    def _add_prompt(self, message: Message) -> None:
        prompt = [parse_block(block) for block in get_dicts(message.params, "prompt")]
        content = _join_blocks(prompt)
        self._last_prompt = content
        self._was_cancelled = False
        person = self._draft.get_actor("human", "user")
        self._draft.add_message("user", content, person, ts=message.ts)
        self._last_answer = None

    def _read_update(self, message: Message, update: JsonObject) -> None:
        kind = get_text(update, "sessionUpdate")
        role = _CHUNK_ROLES.get(kind or "")
        if role:
            self._add_chunk(role, update, message.ts)
            return
        self._flush()
        if kind in ("tool_call", "tool_call_update"):
            self._calls.update(update, self._actor, message.ts)
            self._last_answer = self._calls.last_event or self._last_answer
        elif kind == "plan":
            # Agents send the whole plan each time, also if nothing in it changed.
            if update.get("entries") != self._plan:
                self._plan = update.get("entries")
                self._annotate("plan", message.ts, entries=self._plan)
        elif kind == "current_mode_update":
            self._annotate("settings", message.ts, mode=get_text(update, "currentModeId"))
        elif kind == "session_info_update":
            title = get_text(update, "title")
            if title:
                self._draft.conversation["title"] = title
        elif kind in _BOOKKEEPING:
            self._draft.note_omission("bookkeeping", message.position, f"update {kind}")
        else:
            self._draft.note_omission(
                "unknown-record", message.position, f"update {format_kind(kind)}"
            )

    def _add_chunk(self, role: str, update: JsonObject, ts: str | None) -> None:
        block = parse_block(update.get("content"))
        if block == {"type": "text", "text": ""}:
            # Nothing is said: Qwen Code sends the token counts of each request like this.
            self._add_request_usage(_parse_usage(get_dict(update, "_meta").get("usage")), ts)
            return
        message_id = get_text(update, "messageId")
        if role != self._role or message_id != self._message_id:
            self._flush()
            # Calls come before what the model says after them.
            self._calls.emit_pending(self._actor)
            self._chunk_ts = ts
        self._role = role
        self._message_id = message_id
        self._blocks.append(block)

    def _add_request_usage(self, usage: Usage | None, ts: str | None) -> None:
        if usage is None:
            return
        self._flush()
        self._has_request_usage = True
        self._draft.add_annotation({"kind": "request_usage"}, ts=ts, usage=usage)

    def _flush(self) -> None:
        """Add the message whose chunks were collected."""
        blocks, role, ts = self._blocks, self._role, self._chunk_ts
        self._blocks = []
        self._role = None
        if not blocks or role is None:
            return
        content = _join_blocks(blocks)
        if role == "user":
            self._add_user_chunks(content, ts)
        elif role == "assistant":
            event = self._draft.add_message("assistant", content, self._actor, ts=ts)
            self._last_answer = event["id"]
        else:
            text = content if isinstance(content, str) else None
            self._draft.add_reasoning(text, self._actor, ts=ts)

    def _add_user_chunks(self, content: Any, ts: str | None) -> None:
        """Add a prompt of a session that is loaded; some agents repeat every prompt like this."""
        if content == self._last_prompt:
            self._draft.note_omission("repeated-message", "update", "the prompt, sent back")
            return
        person = self._draft.get_actor("human", "user")
        self._draft.add_message("user", content, person, ts=ts)

    def _read_response(self, request: Message, response: Message) -> None:
        method = request.method
        self._flush()
        error = response.body.get("error")
        if error is not None:
            facts = pick_fields(error, "code", "message", "data") if isinstance(error, dict) else {}
            self._annotate("error", response.ts, method=method, **facts)
        elif method == "session/prompt":
            self._end_turn(response)
        elif method == "initialize":
            self._read_initialization(response)
        elif method in ("session/new", "session/load", "session/resume"):
            if method == "session/new":
                # Only the response says which session it is.
                self._annotate("context", response.ts, cwd=get_text(request.params, "cwd"))
            models = get_dict(response.result, "models")
            self._model = get_text(models, "currentModelId") or self._model
        elif method == "session/request_permission":
            self._read_permission(request, response)
        elif method and method.startswith(("terminal/", "fs/")):
            self._read_client_action(method, request, response)
        else:
            self._draft.note_omission(
                "bookkeeping",
                response.position,
                f"response to {format_kind(str(method).replace('/', '.'))}",
            )

    def _end_turn(self, response: Message) -> None:
        self._calls.emit_pending(self._actor)
        reason = get_text(response.result, "stopReason")
        if reason == "cancelled":
            if not self._was_cancelled:
                self._annotate("interrupted", response.ts)
        elif reason and reason != "end_turn":
            self._annotate("stop", response.ts, reason=reason)
        usage = _parse_usage(response.result.get("usage"))
        usage = usage or _parse_quota(get_dict(get_dict(response.result, "_meta"), "quota"))
        if self._has_request_usage:
            usage = None
        if usage and self._last_answer:
            self._draft.set_usage(self._last_answer, usage)
        elif usage:
            self._draft.add_annotation({"kind": "usage"}, ts=response.ts, usage=usage)
        self._last_answer = None
        self._has_request_usage = False

    def _read_initialization(self, response: Message) -> None:
        info = get_dict(response.result, "agentInfo")
        self._agent = get_text(info, "name") or self._agent
        facts = {"agent": get_text(info, "name"), "version": get_text(info, "version")}
        self._annotate(
            "context", response.ts, protocol=response.result.get("protocolVersion"), **facts
        )

    def _read_permission(self, request: Message, response: Message) -> None:
        outcome = get_dict(response.result, "outcome")
        chosen = get_text(outcome, "optionId")
        names = {
            get_text(option, "optionId"): get_text(option, "name")
            for option in get_dicts(request.params, "options")
        }
        self._annotate(
            "approval",
            response.ts,
            outcome=get_text(outcome, "outcome"),
            option=names.get(chosen) or chosen,
            call=get_text(get_dict(request.params, "toolCall"), "toolCallId"),
        )

    def _read_client_action(self, method: str, request: Message, response: Message) -> None:
        """Read what the client did for the agent; the output of a terminal belongs to a call."""
        terminal_id = get_text(request.params, "terminalId")
        if method == "terminal/output" and terminal_id:
            self._calls.set_terminal_output(terminal_id, response.result)
            return
        params = {name: item for name, item in request.params.items() if name != "sessionId"}
        result = response.result or None
        self._annotate("client_action", response.ts, method=method, params=params, result=result)


def _parse_quota(quota: JsonObject) -> Usage | None:
    """Return the counts of a turn as Gemini CLI reports them."""
    counts = get_dict(quota, "token_count")
    if not counts:
        return None
    return build_usage(
        input_tokens=counts.get("input_tokens"), output_tokens=counts.get("output_tokens")
    )


def _join_blocks(blocks: list[Any]) -> Any:
    """Return the text of chunks that are all text, else the blocks, with texts joined."""
    joined: list[Any] = []
    for block in blocks:
        if joined and _is_text(block) and _is_text(joined[-1]):
            joined[-1] = {"type": "text", "text": joined[-1]["text"] + block["text"]}
        else:
            joined.append(block)
    if len(joined) == 1 and _is_text(joined[0]):
        return joined[0]["text"]
    return joined


def _is_text(block: Any) -> bool:
    return block.keys() == {"type", "text"} and isinstance(block["text"], str)


def _parse_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    return build_usage(
        input_tokens=usage.get("inputTokens"),
        output_tokens=usage.get("outputTokens"),
        cache_read_tokens=usage.get("cachedReadTokens"),
        cache_write_tokens=usage.get("cachedWriteTokens"),
        reasoning_tokens=usage.get("thoughtTokens"),
    )
