"""Tools of configured MCP servers: started on first use, one connection for each user."""

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from open_token.errors import UsageError
from open_token.server.agent.model_interface import ToolSpec
from open_token.server.agent.tools.arguments import to_parameters_schema, truncate_middle
from open_token.server.agent.tools.interface import (
    Json,
    Tool,
    ToolContext,
    ToolError,
    build_tool_name,
)

if TYPE_CHECKING:
    import mcp

_log = logging.getLogger(__name__)
_START_SECONDS = 20.0
_IDLE_SECONDS = 900.0
_RETRY_SECONDS = 60.0
"""Seconds before a server that could not be started is tried again."""
_MAX_CONNECTIONS = 64
_MAX_TOOLS = 200
_MAX_TEXT = 100_000
_MAX_MEDIA = 4 << 20
_GONE_CODES = (-32000, -32001)
"""Error codes of the package for a closed connection and for a timeout."""


class _ServerGone(Exception):
    """The server cannot be reached, or has stopped."""


class _Connection:
    """One server for one user.

    It runs in its own task, because the package must be closed in the task that opened it.
    """

    def __init__(self, settings: Json) -> None:
        self.tools: list[Any] = []
        self.used = time.monotonic()
        self._settings = settings
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._task = asyncio.create_task(self._run())

    async def client(self) -> "mcp.Client":
        """Return the client when it is connected; raise _ServerGone."""
        self.used = time.monotonic()
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            raise _ServerGone(f"it did not start within {_START_SECONDS:g} seconds") from None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    async def close(self) -> None:
        """Stop the connection and the server."""
        self._closing.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=_START_SECONDS)

    async def _run(self) -> None:
        import mcp

        try:
            async with (
                _transport(self._settings) as streams,
                mcp.Client(_OpenTransport(streams)) as client,
            ):
                self.tools = await _list_tools(client)
                self._ready.set_result(client)
                await self._closing.wait()
        except (Exception, asyncio.CancelledError) as problem:
            if not self._ready.done():
                self._ready.set_exception(_ServerGone(_reason(problem)))


class _OpenTransport:
    """Streams that are open already, as the transport that the client expects."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        """Nothing to do: the streams are closed by their owner."""


@contextlib.asynccontextmanager
async def _transport(settings: Json) -> AsyncIterator[Any]:
    import mcp
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    if "url" in settings:
        async with (
            create_mcp_http_client(headers=settings["headers"]) as http,
            streamable_http_client(settings["url"], http_client=http) as streams,
        ):
            yield streams
        return
    given = mcp.StdioServerParameters(**settings)
    with open(os.devnull, "w") as silence:  # the standard error of the server is dropped
        async with stdio_client(given, errlog=silence) as streams:
            yield streams


async def _list_tools(client: "mcp.Client") -> list[Any]:
    page = await client.list_tools()
    tools: list[Any] = list(page.tools)
    while page.next_cursor and len(tools) < _MAX_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools[:_MAX_TOOLS]


class McpTool:
    """A tool of an MCP server, named mcp__<server>__<tool>."""

    is_idempotent = False

    def __init__(self, servers: "McpServers", server: str, tool: Any) -> None:
        self._servers = servers
        self._server = server
        self._name = tool.name
        annotations = getattr(tool, "annotations", None)
        self.is_read_only = bool(getattr(annotations, "read_only_hint", False))
        self.spec = ToolSpec(
            name=build_tool_name("mcp", server, tool.name),
            description=truncate_middle(tool.description or tool.name, 4000),
            parameters=to_parameters_schema(tool.input_schema),
            display_name=str(tool.title or tool.name)[:100],
        )

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        """Return the answer of the server; `_meta` is preserved."""
        return await self._servers.call(context.owner, self._server, self._name, arguments)


class McpServers:
    """The configured servers, and the connections to them."""

    def __init__(
        self, configured: Mapping[str, Any], env: Mapping[str, str], seconds: float
    ) -> None:
        self._settings = {
            name: _parse_settings(name, settings, env) for name, settings in configured.items()
        }
        self._seconds = seconds
        self._open: dict[tuple[str, str], _Connection] = {}
        self._failed: dict[tuple[str, str], float] = {}

    async def tools(self, owner: str, *, starts: bool = True) -> dict[str, Tool]:
        """Return the tools of all reachable servers; the others are left out for a while."""
        if starts:
            found = await asyncio.gather(
                *(self._list_server_tools(owner, server) for server in self._settings)
            )
        else:
            known = [(server, self._open.get((owner, server))) for server in self._settings]
            found = [
                self._build_tools(server, connection) for server, connection in known if connection
            ]
        return {tool.spec.name: tool for tools in found for tool in tools}

    async def call(self, owner: str, server: str, tool: str, arguments: Json) -> Any:
        """Call a tool; errors of the server fail this call, and the next one restarts it."""
        import mcp

        try:
            connection = await self._connect(owner, server)
            client = await connection.client()
            async with asyncio.timeout(self._seconds):
                result = await client.call_tool(tool, arguments)
        except mcp.MCPError as problem:
            # A server that answers with an error works; only a lost connection is dropped.
            if problem.code not in _GONE_CODES:
                raise ToolError(
                    f"the MCP server {server} refused: {truncate_middle(str(problem), 1000)}"
                ) from None
            await self._drop(owner, server)
            raise ToolError(f"the MCP server {server} stopped; the next call restarts it") from None
        except TimeoutError:
            await self._drop(owner, server)
            raise ToolError(
                f"the MCP server {server} did not answer within {self._seconds:g} seconds"
            ) from None
        except _ServerGone as problem:
            await self._drop(owner, server)
            raise ToolError(f"the MCP server {server} cannot be reached: {problem}") from None
        except Exception as problem:
            await self._drop(owner, server)
            raise ToolError(f"the MCP server {server} failed: {_reason(problem)}") from None
        return _to_json(result)

    async def close(self) -> None:
        """Stop all servers."""
        connections = list(self._open.values())
        self._open = {}
        await asyncio.gather(*(connection.close() for connection in connections))

    async def _list_server_tools(self, owner: str, server: str) -> list[Tool]:
        # A server that cannot be started must not delay every run by its timeout.
        failed_at = self._failed.get((owner, server), -_RETRY_SECONDS)
        if time.monotonic() - failed_at < _RETRY_SECONDS:
            return []
        try:
            connection = await self._connect(owner, server)
            await connection.client()
        except _ServerGone as problem:
            _log.warning("skipping MCP server %s: %s", server, problem)
            self._failed[owner, server] = time.monotonic()
            await self._drop(owner, server)
            return []
        return self._build_tools(server, connection)

    def _build_tools(self, server: str, connection: _Connection) -> list[Tool]:
        return [McpTool(self, server, tool) for tool in connection.tools]

    async def _connect(self, owner: str, server: str) -> _Connection:
        await self._close_idle()
        connection = self._open.get((owner, server))
        if connection is None or connection.is_over:
            connection = _Connection(self._settings[server])
            self._open[owner, server] = connection
        return connection

    async def _close_idle(self) -> None:
        """Close idle connections, and the least recently used ones when there are too many."""
        now = time.monotonic()
        by_use = sorted(self._open, key=lambda key: self._open[key].used)
        closing = [key for key in by_use if now - self._open[key].used > _IDLE_SECONDS]
        if not closing:
            excess = max(0, len(by_use) - _MAX_CONNECTIONS)
            closing = by_use[:excess]
        for owner, server in closing:
            await self._drop(owner, server)

    async def _drop(self, owner: str, server: str) -> None:
        connection = self._open.pop((owner, server), None)
        if connection is not None:
            await connection.close()


def _parse_settings(name: str, settings: Any, env: Mapping[str, str]) -> Json:
    """Parse the settings of a server; `${NAME}` is a variable of the environment."""
    error = UsageError(
        f"invalid configuration of the MCP server {name[:64]!r}",
        help="write it as {command, args, env} or {url, headers}",
        code="server.mcp",
    )
    if not isinstance(settings, dict):
        raise error
    values = _fill_variables(settings, env)
    url = values.get("url")
    command = values.get("command")
    args = values.get("args", [])
    variables = values.get("headers" if url else "env", {})
    if not isinstance(variables, dict):
        raise error
    if not all(isinstance(value, str) for value in variables.values()):
        raise error
    if isinstance(url, str) and url.startswith(("http://", "https://")) and command is None:
        return {"url": url, "headers": variables}
    if url is not None or not isinstance(command, str) or not command:
        raise error
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        raise error
    return {"command": command, "args": args, "env": variables}


def _fill_variables(value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda match: env.get(match[1], ""), value)
    if isinstance(value, dict):
        return {key: _fill_variables(item, env) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_variables(item, env) for item in value]
    return value


def _reason(problem: BaseException) -> str:
    """Return the kind of an error; messages of other programs may contain anything."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if isinstance(problem, FileNotFoundError):
        return "there is no such command"
    return type(problem).__name__


def _to_json(result: Any) -> Json:
    """Return a result of the package as JSON of limited size."""
    values = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    blocks = [_to_block(block) for block in values.get("content", [])]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    if values.get("isError"):
        message = "\n".join(texts) or "the tool failed without a message"
        raise ToolError(truncate_middle(message, _MAX_TEXT))
    is_text = len(blocks) == len(texts) == 1
    answer: Json = {"content": texts[0] if is_text else blocks}
    if "structuredContent" in values:
        answer["structured"] = values["structuredContent"]
    if isinstance(values.get("_meta"), dict):
        answer["_meta"] = values["_meta"]
    return answer


def _to_block(block: Json) -> Json:
    text = block.get("text")
    if isinstance(text, str):
        return {**block, "text": truncate_middle(text, _MAX_TEXT)}
    data = block.get("data")
    if isinstance(data, str) and len(data) > _MAX_MEDIA:
        return {
            "type": "text",
            "text": f"[{block.get('type')} of {len(data)} characters omitted: too large]",
        }
    if isinstance(data, str):
        kind = block.get("mimeType", "application/octet-stream")
        return {"type": block.get("type"), "media_type": kind, "encoding": "base64", "base64": data}
    return block
