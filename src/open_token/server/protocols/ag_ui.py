"""AG-UI: the input of a run as a message of a session, and its log as events of AG-UI."""

import hashlib
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from open_token.model.log_events import Json
from open_token.model.session_types import ROOT_LOOP
from open_token.server.errors import bad_request

_encode = msgspec.json.Encoder().encode


class RunInput(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client of AG-UI sends: all messages of the thread, of which the last are new."""

    thread_id: str
    run_id: str
    messages: list[Json] = field(default_factory=list)
    tools: list[Json] | None = None
    context: list[Json] | None = None


def parse_input(body: bytes) -> RunInput:
    """Parse the body of a request."""
    try:
        given = msgspec.json.decode(body, type=RunInput)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as fault:
        _, _, path = str(fault).rpartition(" - at ")
        where = path if path.startswith("`") else "the body"
        raise bad_request(f"not an input of AG-UI: {where} is invalid", "invalid") from None
    if not given.thread_id or len(given.thread_id) > 200:
        raise bad_request("threadId must have 1 to 200 characters", "invalid")
    return given


def derive_session_id(owner: str, thread_id: str) -> str:
    """Return the id of the session for a thread that a client has named."""
    digest = hashlib.sha256(f"{owner}/{thread_id}".encode()).hexdigest()
    return f"sess_agui{digest[:20]}"


def build_message(given: RunInput) -> Json:
    """Return the fields of `chat:send`: the messages after the last one of the assistant."""
    new: list[Json] = []
    for message in given.messages:
        if message.get("role") == "assistant":
            new = []
        else:
            new.append(message)
    results = [
        {"tool_call_id": str(message.get("toolCallId")), "result": message.get("content")}
        for message in new
        if message.get("role") == "tool"
    ]
    users = [message for message in new if message.get("role") == "user"]
    fields: Json = {"headless": not any(_is_ask(tool) for tool in given.tools or ())}
    settings: Json = {}
    instructions = [
        message["content"]
        for message in given.messages
        if message.get("role") in ("system", "developer")
        and isinstance(message.get("content"), str)
        and message["content"]
    ]
    if instructions:
        settings["instructions"] = "\n\n".join(instructions)
    tools = [_convert_tool(tool) for tool in given.tools or () if not _is_ask(tool)]
    if tools:
        settings["client_tools"] = tools
    if settings:
        fields["settings"] = settings
    if results:
        fields["tool_results"] = results
    if users:
        parts = [part for message in users for part in _convert_content(message.get("content"))]
        is_text = len(parts) == 1 and parts[0]["type"] == "text"
        fields["message"] = parts[0]["text"] if is_text else parts
    if not results and not users:
        raise bad_request("messages: there is no new message of the user", "invalid")
    if given.context:
        fields["app_context"] = given.context
    # The run is named by the client, so that a request that is sent again is one run.
    fields["client_message_id"] = f"agui-{given.run_id}"[:200]
    return fields


def _is_ask(tool: Json) -> bool:
    return tool.get("name") == "AskUserQuestion"


def _convert_tool(tool: Json) -> Json:
    return {
        "name": tool.get("name"),
        "description": tool.get("description") or "",
        "parameters": tool.get("parameters") or {"type": "object", "properties": {}},
    }


def _convert_content(content: Any) -> Iterator[Json]:
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            yield {"type": "text", "text": part["text"]}
        elif kind in ("image", "document"):
            yield _convert_file(part)
        else:
            raise bad_request("messages: text, images and documents are accepted", "invalid")


def _convert_file(part: Json) -> Json:
    source = part.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if isinstance(source, dict) and isinstance(source.get("value"), str):
        if kind == "data":
            media_type = str(source.get("mimeType") or "")
            return {"type": "file", "data": source["value"], "media_type": media_type}
        if kind == "url" and part["type"] == "image":
            return {"type": "image_url", "image_url": {"url": source["value"]}}
    raise bad_request("messages: a file must have its data; an image may have a URL", "invalid")


class AgUiStream:
    """Translates the items of `turn:events` of one run into events of AG-UI."""

    def __init__(self, given: RunInput) -> None:
        self._run = {"threadId": given.thread_id, "runId": given.run_id}
        self._main_turns: set[str] = set()
        self._open: tuple[str, str] | None = None
        """The kind and the id of the message that is being streamed."""
        self._open_calls: dict[str, str] = {}
        """Calls whose end was not sent, with the arguments that were."""
        self._failed_attempts: dict[str, int] = {}
        """By turn, how often its model call failed: each attempt has messages of its own."""

    def start(self) -> Iterator[Json]:
        """Yield the first event."""
        yield {"type": "RUN_STARTED", **self._run}

    def fail(self, message: str, code: str) -> Json:
        """Return the event of an error."""
        return {"type": "RUN_ERROR", "message": message, "code": code}

    def take(self, item: Json) -> Iterator[Json]:
        """Yield the events for an item."""
        payload = item["payload"]
        kind = item["type"]
        if kind == "turn:start":
            is_answer = payload.get("role") == "assistant" and payload.get("kind") != "compaction"
            if is_answer and payload["loop_id"] == ROOT_LOOP:
                self._main_turns.add(payload["turn_id"])
        elif kind == "turn:patch" and payload["turn_id"] in self._main_turns:
            yield from self._take_patch(payload["turn_id"], payload)
        elif kind == "turn:end" and payload["turn_id"] in self._main_turns:
            yield from self._close_message()
            for call in payload.get("tool_calls") or ():
                yield from self._close_call(call["id"], call["arguments"])
        elif kind == "chat:end":
            yield from self._end(payload)

    def _end(self, ended: Json) -> Iterator[Json]:
        yield from self._close_message()
        for call_id in tuple(self._open_calls):
            yield from self._close_call(call_id, None)
        if ended["status"] == "completed":
            yield {"type": "RUN_FINISHED", **self._run, "result": ended["result"]}
        else:
            message = ended["result"].get("err_msg") or f"the run was {ended['status']}"
            yield self.fail(str(message), str(ended["finish_reason"]))

    def _take_patch(self, turn_id: str, patch: Json) -> Iterator[Json]:
        data = patch["data"]
        kind = patch["patch_type"]
        if kind == "add_content" and data.get("type") in ("text", "thinking"):
            text = data.get("text_delta")
            if text is None:
                text = data.get("content")
            if isinstance(text, str):
                name = f"{turn_id}_{data.get('block_index') or 0}"
                if turn_id in self._failed_attempts:
                    name += f"_{self._failed_attempts[turn_id]}"
                yield from self._add_text(data["type"], name, text)
        elif kind == "set_status" and "attempts" in data:
            self._failed_attempts[turn_id] = len(data["attempts"])
            yield from self._close_message()
            for call_id in tuple(self._open_calls):
                yield from self._close_call(call_id, None)
        elif kind == "add_tool_call":
            yield from self._close_message()
            yield from self._start_call(turn_id, data)
        elif kind == "set_tool_status":
            delta = data.get("arguments_delta")
            if delta and data["tool_call_id"] in self._open_calls:
                yield from self._add_arguments(data["tool_call_id"], delta)
        elif kind == "tool_result":
            call_id = data["tool_call_id"]
            yield from self._close_call(call_id, None)
            result = data.get("result")
            content = result if isinstance(result, str) else _encode(result).decode()
            yield {
                "type": "TOOL_CALL_RESULT",
                "messageId": f"{call_id}_result",
                "toolCallId": call_id,
                "content": content,
                "role": "tool",
            }

    def _add_text(self, kind: str, name: str, text: str) -> Iterator[Json]:
        if self._open != (kind, name):
            yield from self._close_message()
            self._open = (kind, name)
            if kind == "text":
                yield {"type": "TEXT_MESSAGE_START", "messageId": name, "role": "assistant"}
            else:
                yield {"type": "REASONING_START", "messageId": name}
                yield {"type": "REASONING_MESSAGE_START", "messageId": name, "role": "reasoning"}
        if text:
            prefix = "TEXT" if kind == "text" else "REASONING"
            yield {"type": f"{prefix}_MESSAGE_CONTENT", "messageId": name, "delta": text}

    def _close_message(self) -> Iterator[Json]:
        if self._open is None:
            return
        kind, name = self._open
        self._open = None
        if kind == "text":
            yield {"type": "TEXT_MESSAGE_END", "messageId": name}
        else:
            yield {"type": "REASONING_MESSAGE_END", "messageId": name}
            yield {"type": "REASONING_END", "messageId": name}

    def _start_call(self, turn_id: str, call: Json) -> Iterator[Json]:
        call_id = call["id"]
        if call_id not in self._open_calls:
            self._open_calls[call_id] = ""
            yield {
                "type": "TOOL_CALL_START",
                "toolCallId": call_id,
                "toolCallName": call["tool_name"],
                "parentMessageId": f"{turn_id}_calls",
            }
        yield from self._complete_arguments(call_id, call.get("arguments"))

    def _add_arguments(self, call_id: str, delta: str) -> Iterator[Json]:
        self._open_calls[call_id] += delta
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": delta}

    def _complete_arguments(self, call_id: str, arguments: Any) -> Iterator[Json]:
        """Yield what whole arguments have beyond the deltas that were sent."""
        sent = self._open_calls[call_id]
        if isinstance(arguments, str) and arguments.startswith(sent) and arguments != sent:
            yield from self._add_arguments(call_id, arguments[len(sent) :])

    def _close_call(self, call_id: str, arguments: str | None) -> Iterator[Json]:
        if call_id not in self._open_calls:
            return
        yield from self._complete_arguments(call_id, arguments)
        del self._open_calls[call_id]
        yield {"type": "TOOL_CALL_END", "toolCallId": call_id}
