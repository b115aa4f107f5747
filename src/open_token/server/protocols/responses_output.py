"""Runs as responses of the OpenAI Responses API: whole, and as a stream of its events."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from open_token.model.log_events import Json
from open_token.model.session_types import ROOT_LOOP, TurnProjection, from_builtins, to_builtins
from open_token.server.core.messages import MessageRun, add_usage
from open_token.server.protocols.responses_request import ASK_TOOL, ResponseId, ResponseRequest

SERVER_LABEL = "open-token"
"""Calls that the server executes are shown as calls of an MCP server of this name."""
_STATUSES = {"completed": "completed", "failed": "failed", "interrupted": "cancelled"}
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_CALL_STATUSES = {"pending": "in_progress", "done": "completed", "error": "failed"}
_encode = msgspec.json.Encoder().encode


class ResponseBuilder:
    """Builds the response of one message."""

    def __init__(self, response_id: ResponseId, created_at: str, request: ResponseRequest) -> None:
        self.id = response_id.encode()
        self._session_id = response_id.session_id
        self._created_at = int(datetime.fromisoformat(created_at).timestamp())
        self._request = request
        self.client_tools = {ASK_TOOL} | {tool["name"] for tool in request.tools}

    def build(self, status: str = "in_progress", model: str | None = None, **more: Any) -> Json:
        """Return the response object."""
        request = self._request
        return {
            "id": self.id,
            "object": "response",
            "created_at": self._created_at,
            "status": status,
            "background": request.background,
            "completed_at": None,
            "conversation": {"id": self._session_id},
            "error": None,
            "frequency_penalty": 0,
            "incomplete_details": None,
            "instructions": request.instructions,
            "max_output_tokens": request.max_output_tokens,
            "max_tool_calls": None,
            "metadata": request.metadata or {},
            "model": model or request.model or "",
            "output": [],
            "parallel_tool_calls": True,
            "presence_penalty": 0,
            "previous_response_id": request.previous_response_id,
            "prompt_cache_key": None,
            "reasoning": request.reasoning or {"effort": None, "summary": None},
            "safety_identifier": None,
            "service_tier": "default",
            "store": True,
            "temperature": 1.0 if request.temperature is None else request.temperature,
            "text": request.text or {"format": {"type": "text"}},
            "tool_choice": request.tool_choice,
            "tools": [_normalize_tool(tool) for tool in request.tools],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            **more,
        }

    def build_end(self, ended: Json, turns: list[TurnProjection], ended_at: str | None) -> Json:
        """Return the response of a run that has ended; `ended` is the payload of `chat:end`."""
        status = _STATUSES.get(ended["status"], "failed")
        more: Json = {"output": self.list_output(turns), "usage": build_usage(turns)}
        reason = _INCOMPLETE.get(ended["finish_reason"])
        if reason is None and ended["finish_reason"] in ("max_turns", "budget"):
            reason = "max_output_tokens"
        if status == "completed" and reason is not None:
            status = "incomplete"
            more["incomplete_details"] = {"reason": reason}
        if status == "failed":
            message = str(ended["result"].get("err_msg") or "the run failed")
            more["error"] = _build_error(message)
        if ended_at is not None and status == "completed":
            more["completed_at"] = int(datetime.fromisoformat(ended_at).timestamp())
        model = next((turn.model for turn in reversed(turns) if turn.model), None)
        return self.build(status, model, **more)

    def list_output(self, turns: list[TurnProjection]) -> list[Json]:
        """Return the output items of the main agent's turns."""
        output = []
        for turn in turns:
            if turn.role != "assistant" or turn.loop_id != ROOT_LOOP or turn.kind != "message":
                continue
            calls = {call.id: call for call in turn.tool_calls}
            name = _name_attempt(turn.turn_id, turn.attempts)
            for index, block in enumerate(turn.blocks):
                if block.type == "text" and isinstance(block.content, str):
                    output.append(build_text_item(name, index, block.content))
                elif block.type == "thinking" and isinstance(block.content, str):
                    output.append(build_reasoning_item(name, index, block.content))
                elif block.type == "tool_use" and block.tool_call_id in calls:
                    call = to_builtins(calls[block.tool_call_id])
                    output.append(self.build_call_item(call))
        return output

    def build_call_item(self, call: Json) -> Json:
        """Return a call: a function of the client, or a call that the server executes."""
        name = call["tool_name"]
        if name in self.client_tools:
            return {
                "id": f"fc_{call['id']}",
                "type": "function_call",
                "call_id": call["id"],
                "name": name,
                "arguments": call["arguments"],
                "status": "completed",
            }
        status = _CALL_STATUSES.get(call["status"], "incomplete")
        item: Json = {
            "id": f"mcp_{call['id']}",
            "type": "mcp_call",
            "server_label": SERVER_LABEL,
            "name": name,
            "arguments": call["arguments"],
            "status": status,
            "output": None,
            "error": None,
            "approval_request_id": None,
        }
        if status == "completed":
            item["output"] = _to_text(call.get("result"))
        elif status == "failed":
            content = [{"type": "text", "text": _to_text(call.get("result"))}]
            item["error"] = {"type": "mcp_tool_execution_error", "content": content}
        return item


def _name_attempt(turn_id: str, failed_attempts: Any) -> str:
    """Return the name of the items of a turn: each attempt of its model call has its own."""
    if isinstance(failed_attempts, list) and failed_attempts:
        return f"{turn_id}_{len(failed_attempts)}"
    return turn_id


def build_text_item(turn_id: str, index: int, text: str, status: str = "completed") -> Json:
    """Return a message of the assistant."""
    content = [] if status == "in_progress" else [build_text_part(text)]
    return {
        "id": f"msg_{turn_id}_{index}",
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def build_text_part(text: str) -> Json:
    """Return a part of a message."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def build_reasoning_item(turn_id: str, index: int, text: str, status: str = "completed") -> Json:
    """Return reasoning."""
    summary = [] if status == "in_progress" else [{"type": "summary_text", "text": text}]
    return {
        "id": f"rs_{turn_id}_{index}",
        "type": "reasoning",
        "summary": summary,
        "status": status,
    }


def build_usage(turns: list[TurnProjection]) -> Json:
    """Return the usage of turns."""
    usage = add_usage(turns)
    return {
        "input_tokens": usage["input_tokens"],
        "input_tokens_details": {
            "cached_tokens": usage.get("cache_read_tokens", 0),
            "cache_write_tokens": usage.get("cache_write_tokens", 0),
        },
        "output_tokens": usage["output_tokens"],
        "output_tokens_details": {"reasoning_tokens": usage.get("reasoning_tokens", 0)},
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
    }


def _build_error(message: str) -> Json:
    return {"code": "server_error", "message": message}


def _normalize_tool(tool: Json) -> Json:
    return {"description": None, "parameters": None, "strict": False, **tool}


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


class _OpenItem:
    """An output item that is being streamed."""

    def __init__(self, item: Json, index: int) -> None:
        self.item = item
        self.index = index
        self.text = ""

    @property
    def place(self) -> Json:
        return {"item_id": self.item["id"], "output_index": self.index}


class ResponseStream:
    """Translates the items of `turn:events` of one run into events of a response."""

    def __init__(self, builder: ResponseBuilder) -> None:
        self._builder = builder
        self._sequence = 0
        self._turns: list[TurnProjection] = []
        self._output = 0
        self._loops: dict[str, bool] = {}
        """Whether a turn is one of the main agent."""
        self._open: _OpenItem | None = None
        self._names: dict[str, str] = {}
        """By turn whose model call failed: the name of the items of its next attempt."""
        self._block: tuple[str, int] | None = None
        """The turn and the block that the open item shows."""
        self._calls: dict[str, _OpenItem] = {}
        self._call_fields: dict[str, Json] = {}

    def start(self) -> Iterator[Json]:
        """Yield the first events."""
        yield self._event("response.created", response=self._builder.build())
        yield self._event("response.in_progress", response=self._builder.build())

    def take(self, item: Json) -> Iterator[Json]:
        """Yield the events for an item."""
        payload = item["payload"]
        if item["type"] == "turn:start":
            is_answer = payload.get("role") == "assistant" and payload.get("kind") != "compaction"
            self._loops[payload["turn_id"]] = is_answer and payload["loop_id"] == ROOT_LOOP
        elif item["type"] == "turn:patch" and self._loops.get(payload["turn_id"]):
            yield from self._take_patch(payload)
        elif item["type"] == "turn:end" and self._loops.get(payload["turn_id"]):
            fields = {name: value for name, value in payload.items() if name != "session_id"}
            self._turns.append(from_builtins(fields, TurnProjection))
            yield from self._close_text()
            for call in payload.get("tool_calls") or ():
                self._call_fields[call["id"]] = call
                yield from self._close_call(call["id"])
        elif item["type"] == "chat:end":
            yield from self._end(payload)

    def fail(self, message: str) -> Json:
        """Return the event of an error of the stream."""
        return self._event("error", **_build_error(message), param=None)

    def _end(self, ended: Json) -> Iterator[Json]:
        yield from self._close_text()
        for call_id in tuple(self._calls):
            yield from self._close_call(call_id)
        response = self._builder.build_end(ended, self._turns, None)
        status = response["status"]
        kind = status if status in ("completed", "incomplete") else "failed"
        yield self._event(f"response.{kind}", response=response)

    def _event(self, kind: str, **fields: Any) -> Json:
        event = {"type": kind, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event

    def _take_patch(self, patch: Json) -> Iterator[Json]:
        kind = patch["patch_type"]
        data = patch["data"]
        turn_id: str = patch["turn_id"]
        if kind == "add_content" and data.get("type") in ("text", "thinking"):
            text = data.get("text_delta")
            if text is None:
                text = data.get("content")
            if isinstance(text, str):
                name = self._names.get(turn_id, turn_id)
                block = (name, data.get("block_index") or 0)
                yield from self._add_text(block, data["type"], text)
        elif kind == "set_status" and "attempts" in data:
            yield from self._close_text("incomplete")
            for call_id in tuple(self._calls):
                yield from self._close_call(call_id)
            self._names[turn_id] = _name_attempt(turn_id, data["attempts"])
        elif kind == "add_tool_call":
            yield from self._close_text()
            yield from self._add_call(data)
        elif kind in ("set_tool_status", "tool_result"):
            yield from self._change_call(data)

    def _add_text(self, block: tuple[str, int], kind: str, text: str) -> Iterator[Json]:
        if self._block != block:
            yield from self._close_text()
            build = build_text_item if kind == "text" else build_reasoning_item
            self._open = self._open_item(build(*block, "", "in_progress"))
            self._block = block
            yield self._event(
                "response.output_item.added", output_index=self._open.index, item=self._open.item
            )
            if kind == "text":
                yield self._event(
                    "response.content_part.added",
                    **self._open.place,
                    content_index=0,
                    part=build_text_part(""),
                )
            else:
                yield self._event(
                    "response.reasoning_summary_part.added",
                    **self._open.place,
                    summary_index=0,
                    part={"type": "summary_text", "text": ""},
                )
        item = self._open
        if item is None or not text:
            return
        item.text += text
        if kind == "text":
            yield self._event(
                "response.output_text.delta",
                **item.place,
                content_index=0,
                delta=text,
                logprobs=[],
            )
        else:
            yield self._event(
                "response.reasoning_summary_text.delta",
                **item.place,
                summary_index=0,
                delta=text,
            )

    def _close_text(self, status: str = "completed") -> Iterator[Json]:
        item = self._open
        if item is None or self._block is None:
            return
        if item.item["type"] == "message":
            place = {**item.place, "content_index": 0}
            yield self._event("response.output_text.done", **place, text=item.text, logprobs=[])
            part = build_text_part(item.text)
            yield self._event("response.content_part.done", **place, part=part)
            done = build_text_item(*self._block, item.text, status)
        else:
            place = {**item.place, "summary_index": 0}
            yield self._event("response.reasoning_summary_text.done", **place, text=item.text)
            part = {"type": "summary_text", "text": item.text}
            yield self._event("response.reasoning_summary_part.done", **place, part=part)
            done = build_reasoning_item(*self._block, item.text, status)
        yield self._event("response.output_item.done", output_index=item.index, item=done)
        self._open = None
        self._block = None

    def _open_item(self, item: Json) -> _OpenItem:
        opened = _OpenItem(item, self._output)
        self._output += 1
        return opened

    def _add_call(self, call: Json) -> Iterator[Json]:
        call_id = call["id"]
        if call_id in self._call_fields:
            self._call_fields[call_id].update(call)
            return
        self._call_fields[call_id] = {"arguments": "", "status": "pending", **call}
        item = self._builder.build_call_item({**self._call_fields[call_id], "arguments": ""})
        item["status"] = "in_progress"
        opened = self._open_item(item)
        self._calls[call_id] = opened
        yield self._event("response.output_item.added", output_index=opened.index, item=item)
        if item["type"] == "mcp_call":
            yield self._event("response.mcp_call.in_progress", **opened.place)

    def _change_call(self, data: Json) -> Iterator[Json]:
        call = self._call_fields.get(data["tool_call_id"])
        if call is None:
            return
        delta = data.get("arguments_delta")
        if delta is not None:
            call["arguments"] += delta
        for name in ("status", "result"):
            if name in data:
                call[name] = data[name]
        if call["status"] in ("done", "error", "cancelled"):
            yield from self._close_call(call["id"])

    def _close_call(self, call_id: str) -> Iterator[Json]:
        opened = self._calls.pop(call_id, None)
        if opened is None:
            return
        call = self._call_fields[call_id]
        item = self._builder.build_call_item(call)
        kind = "function_call" if item["type"] == "function_call" else "mcp_call"
        arguments = call["arguments"]
        if arguments:
            yield self._event(f"response.{kind}_arguments.delta", **opened.place, delta=arguments)
        done: Json = {"arguments": arguments}
        if kind == "function_call":
            done["name"] = item["name"]
        yield self._event(f"response.{kind}_arguments.done", **opened.place, **done)
        if kind == "mcp_call":
            outcome = "completed" if item["status"] == "completed" else "failed"
            yield self._event(f"response.mcp_call.{outcome}", **opened.place)
        yield self._event("response.output_item.done", output_index=opened.index, item=item)


def restore_request(run: MessageRun) -> ResponseRequest:
    """Return what the log has of the request of a run."""
    settings = run.info.get("settings") or {}
    tools = [{"type": "function", **tool} for tool in settings.get("client_tools") or ()]
    effort = settings.get("effort")
    return ResponseRequest(
        model=run.info.get("model"),
        instructions=settings.get("instructions"),
        temperature=settings.get("temperature"),
        max_output_tokens=settings.get("max_output_tokens"),
        tools=tools,
        reasoning={"effort": effort, "summary": None} if effort else None,
    )
