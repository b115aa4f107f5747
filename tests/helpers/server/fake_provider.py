"""A provider of our own on the loopback: it answers with the streams of a test and keeps what it
was asked."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any


class Provider:
    """Answers each request with the next of its answers."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.pages: dict[str, Any] = {}
        """What a GET is answered with, by path; each other path is not found."""
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")
            headers = {
                name.lower(): value
                for name, _, value in (line.partition(": ") for line in lines if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = first.split()
            if method == "GET":
                page = self.pages.get(path)
                answer: Any = (200 if path in self.pages else 404, json.dumps(page))
            else:
                self.asked.append((path, headers, json.loads(body or b"{}")))
                answer = self.answers.pop(0) if self.answers else (500, "{}")
            status, kind, text = _whole(answer)
            data = text.encode()
            lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", "connection: close", "", ""]
            writer.write("\r\n".join(lines).encode() + data)
            await writer.drain()
        writer.close()


def _whole(answer: Any) -> tuple[int, str, str]:
    if isinstance(answer, tuple):
        return answer[0], "application/json", answer[1]
    return 200, "text/event-stream", answer


@contextlib.asynccontextmanager
async def provider(*answers: Any) -> AsyncIterator[Provider]:
    """A provider while it is needed."""
    made = Provider(*answers)
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        await server.wait_closed()


def events(*items: Any) -> str:
    """Server-sent events: each is its JSON, named by its type where it has one."""
    named = (
        (f"event: {item['type']}\n" if "type" in item else "", json.dumps(item)) for item in items
    )
    return "".join(f"{name}data: {data}\n\n" for name, data in named)


def anthropic_answer(text: str) -> str:
    """A text, as Anthropic streams it."""
    usage = {"input_tokens": 20, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "model": "c"}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    return events(
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    )


def response_answer() -> str:
    """An empty answer, as OpenAI's Responses API streams it."""
    facts = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5", "output": []}
    tools = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    response = {**facts, **tools, "status": "completed"}
    return events({"type": "response.completed", "sequence_number": 1, "response": response})


def _chunk(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "c", "object": "chat.completion.chunk", "model": "m", "created": 0}
    return {**head, "choices": [choice]}


def chat_call(name: str, arguments: dict[str, Any], call_id: str) -> str:
    """A tool call, as a Chat Completions service streams it."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    calls = [{"index": 0, "id": call_id, "type": "function", "function": function}]
    return events(_chunk(role="assistant", tool_calls=calls), _chunk("tool_calls"))


def chat_answer(text: str) -> str:
    """A text, as a Chat Completions service streams it."""
    return events(_chunk(role="assistant", content=text), _chunk("stop"))
