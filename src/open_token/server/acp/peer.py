"""JSON-RPC in both directions over lines: requests of the editor, and requests to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from open_token.errors import OpenTokenError, StoreError
from open_token.model.log_events import Json
from open_token.server.errors import ApiError, log_exception, to_api_error

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002
MAX_LINE_BYTES = 64 << 20
"""A prompt may hold files and images inline."""
_MAX_OPEN_REQUESTS = 100
_log = logging.getLogger("open_token.server")
_encode = msgspec.json.Encoder().encode

RequestHandler = Callable[[str, Json], Awaitable[Any]]


class RpcError(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Peer:
    """The other side of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: RequestHandler
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handle = handle
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0

    async def run(self) -> None:
        """Handle what the other side sends until it closes the connection."""
        try:
            while True:
                line = await self._read_line()
                if line is None:
                    return
                if line.strip():
                    await self._take(line)
        except (ConnectionError, OSError):
            return
        finally:
            await self._stop()

    async def request(self, method: str, params: Json) -> Any:
        """Send a request and return its result; raise RpcError if it was refused."""
        self._count += 1
        number = self._count
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            await self._send({"id": number, "method": method, "params": params})
            return await future
        finally:
            del self._waiting[number]

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification; waits while the other side does not read."""
        await self._send({"method": method, "params": params})

    async def _read_line(self) -> bytes | None:
        """Return the next line; None at the end. One that is too long is skipped and refused."""
        is_too_long = False
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as rest:
                return rest.partial or None
            except asyncio.LimitOverrunError as overrun:
                await self._reader.readexactly(overrun.consumed)
                is_too_long = True
                continue
            if not is_too_long:
                return line
            is_too_long = False
            await self._refuse(None, INVALID_REQUEST, f"a line exceeds {MAX_LINE_BYTES} bytes")

    async def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            await self._refuse(None, PARSE_ERROR, "not valid JSON")
            return
        if not isinstance(message, dict):
            await self._refuse(None, INVALID_REQUEST, "not a request")
            return
        method = message.get("method")
        request_id = message.get("id")
        if method is None and "id" in message:
            self._take_response(request_id, message)
        elif not isinstance(method, str) or not isinstance(request_id, str | int | None):
            await self._refuse(None, INVALID_REQUEST, "not a request")
        elif len(self._tasks) >= _MAX_OPEN_REQUESTS:
            await self._refuse(request_id, INTERNAL_ERROR, "too many requests at once")
        else:
            params = message.get("params")
            has_answer = "id" in message
            self._start(self._answer(method, params, request_id, has_answer))

    def _take_response(self, number: Any, message: Json) -> None:
        future = self._waiting.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
            return
        code = error.get("code") if isinstance(error, dict) else None
        code = code if isinstance(code, int) else INTERNAL_ERROR
        future.set_exception(RpcError(code, "the editor refused a request"))

    async def _answer(self, method: str, params: Any, request_id: Any, has_answer: bool) -> None:
        try:
            if not isinstance(params, dict | None):
                raise RpcError(INVALID_PARAMS, "params must be an object")
            result = await self._handle(method, params or {})
        except RpcError as problem:
            error = problem
        except ApiError as problem:
            error = _to_rpc_error(problem)
        except StoreError as problem:
            error = _to_rpc_error(to_api_error(problem))
        except OpenTokenError as problem:
            error = RpcError(INVALID_PARAMS, problem.what)
        except ConnectionError:
            return
        except Exception as problem:
            log_exception(_log, "a request of an editor failed", problem)
            error = RpcError(INTERNAL_ERROR, "internal error")
        else:
            if has_answer:
                await self._send({"id": request_id, "result": result})
            return
        if has_answer:
            await self._refuse(request_id, error.code, error.message)

    async def _refuse(self, request_id: Any, code: int, message: str) -> None:
        await self._send({"id": request_id, "error": {"code": code, "message": message}})

    async def _send(self, message: Json) -> None:
        # Each line is written whole; only the wait for room is shared by all writers.
        self._writer.write(_encode({"jsonrpc": "2.0", **message}) + b"\n")
        await self._writer.drain()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a connection that has ended

    async def _stop(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the editor has disconnected"))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._writer.close()


def _to_rpc_error(problem: ApiError) -> RpcError:
    if problem.status == 404:
        return RpcError(NOT_FOUND, problem.detail)
    return RpcError(INTERNAL_ERROR if problem.status >= 500 else INVALID_PARAMS, problem.detail)
