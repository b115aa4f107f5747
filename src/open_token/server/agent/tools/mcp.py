"""Tools of MCP servers that the operator configured: started when first needed, one connection for
each user."""

import asyncio
import contextlib
import logging
import os
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from open_token.errors import UsageError
from open_token.server.agent.interface import ToolSpec
from open_token.server.agent.tools._arguments import cut, schema_or_plain
from open_token.server.agent.tools._names import plain_name
from open_token.server.agent.tools.interface import Json, Place, Tool, ToolFault

if TYPE_CHECKING:
    import mcp

_log = logging.getLogger(__name__)
_START_SECONDS = 20.0
_IDLE_SECONDS = 900.0
_SULK_SECONDS = 60.0
"""So long a server that could not be started is not tried again."""
_MOST_CONNECTIONS = 64
_MOST_TOOLS = 200
_MOST_TEXT = 100_000
_MOST_MEDIA = 4 << 20
_GONE = (-32000, -32001)
"""What the package says of a connection that is closed or does not answer."""


class _Gone(Exception):
    """The server cannot be reached, or ended."""


class _Connection:
    """One server for one user, alive in a task of its own, since the package wants to be closed
    where it was opened."""

    def __init__(self, settings: Json) -> None:
        self.tools: list[Any] = []
        self.used = time.monotonic()
        self._settings = settings
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._task = asyncio.create_task(self._live())

    async def client(self) -> "mcp.Client":
        """The client, once it is connected; raises _Gone."""
        self.used = time.monotonic()
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            raise _Gone(f"it did not start within {_START_SECONDS:g} seconds") from None

    @property
    def is_over(self) -> bool:
        """Whether it ended."""
        return self._task.done()

    async def close(self) -> None:
        """End it, and the server with it."""
        self._closing.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=_START_SECONDS)

    async def _live(self) -> None:
        import mcp

        try:
            async with (
                _transport(self._settings) as streams,
                mcp.Client(_Opened(streams)) as client,
            ):
                self.tools = await _listed(client)
                self._ready.set_result(client)
                await self._closing.wait()
        except (Exception, asyncio.CancelledError) as problem:
            if not self._ready.done():
                self._ready.set_exception(_Gone(_reason(problem)))


class _Opened:
    """Streams that are open already, in the form in which the client takes a way to open them."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        """They are closed by whoever opened them."""


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
    with open(os.devnull, "w") as silence:  # its remarks are not ours to print
        async with stdio_client(given, errlog=silence) as streams:
            yield streams


async def _listed(client: "mcp.Client") -> list[Any]:
    found: list[Any] = []
    page = await client.list_tools()
    found += page.tools
    while page.next_cursor and len(found) < _MOST_TOOLS:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found[:_MOST_TOOLS]


class McpTool:
    """A tool of an MCP server, under the name mcp__<server>__<tool>."""

    is_idempotent = False

    def __init__(self, servers: "McpServers", server: str, tool: Any) -> None:
        self._servers = servers
        self._server = server
        self._name = tool.name
        self.spec = ToolSpec(
            name=plain_name("mcp", server, tool.name),
            description=cut(tool.description or tool.name, 4000),
            parameters=schema_or_plain(tool.input_schema),
            display_name=str(tool.title or tool.name)[:100],
        )

    async def run(self, arguments: Json, place: Place) -> Any:
        """What the server answers; `_meta` stays as it is."""
        return await self._servers.call(place.owner, self._server, self._name, arguments)


class McpServers:
    """The servers of the configuration, and the connections to them."""

    def __init__(
        self, configured: Mapping[str, Any], env: Mapping[str, str], seconds: float
    ) -> None:
        self._settings = {
            name: _checked(name, settings, env) for name, settings in configured.items()
        }
        self._seconds = seconds
        self._open: dict[tuple[str, str], _Connection] = {}
        self._failed: dict[tuple[str, str], float] = {}

    async def tools(self, owner: str, *, starts: bool = True) -> dict[str, Tool]:
        """The tools of all servers that can be reached; the others are left out for a while."""
        if starts:
            found = await asyncio.gather(*(self._tools(owner, server) for server in self._settings))
        else:
            known = [(server, self._open.get((owner, server))) for server in self._settings]
            found = [
                self._offered(server, connection) for server, connection in known if connection
            ]
        return {tool.spec.name: tool for tools in found for tool in tools}

    async def call(self, owner: str, server: str, tool: str, arguments: Json) -> Any:
        """Call a tool; whatever is wrong with the server is a fault of this call, and the next one
        starts it anew."""
        import mcp

        try:
            connection = await self._connected(owner, server)
            client = await connection.client()
            async with asyncio.timeout(self._seconds):
                result = await client.call_tool(tool, arguments)
        except mcp.MCPError as problem:
            if problem.code not in _GONE:
                raise ToolFault(
                    f"the MCP server {server} refused: {cut(str(problem), 1000)}"
                ) from None
            await self._drop(owner, server)
            raise ToolFault(
                f"the MCP server {server} ended; the next call starts it again"
            ) from None
        except TimeoutError:
            await self._drop(owner, server)
            raise ToolFault(
                f"the MCP server {server} did not answer within {self._seconds:g} seconds"
            ) from None
        except _Gone as problem:
            await self._drop(owner, server)
            raise ToolFault(f"the MCP server {server} cannot be reached: {problem}") from None
        except Exception as problem:
            await self._drop(owner, server)
            raise ToolFault(f"the MCP server {server} failed: {_reason(problem)}") from None
        return _plain(result)

    async def close(self) -> None:
        """End all servers."""
        still, self._open = list(self._open.values()), {}
        await asyncio.gather(*(connection.close() for connection in still))

    async def _tools(self, owner: str, server: str) -> list[Tool]:
        if time.monotonic() - self._failed.get((owner, server), -_SULK_SECONDS) < _SULK_SECONDS:
            return []
        try:
            connection = await self._connected(owner, server)
            await connection.client()
        except _Gone as problem:
            _log.warning("the MCP server %s is left out: %s", server, problem)
            self._failed[owner, server] = time.monotonic()
            await self._drop(owner, server)
            return []
        return self._offered(server, connection)

    def _offered(self, server: str, connection: _Connection) -> list[Tool]:
        return [McpTool(self, server, tool) for tool in connection.tools]

    async def _connected(self, owner: str, server: str) -> _Connection:
        await self._tidy()
        connection = self._open.get((owner, server))
        if connection is None or connection.is_over:
            connection = self._open[owner, server] = _Connection(self._settings[server])
        return connection

    async def _tidy(self) -> None:
        """Close what nobody used for long, and the longest unused when there are too many."""
        now = time.monotonic()
        by_use = sorted(self._open, key=lambda key: self._open[key].used)
        idle = [key for key in by_use if now - self._open[key].used > _IDLE_SECONDS]
        for owner, server in idle or by_use[: max(0, len(by_use) - _MOST_CONNECTIONS)]:
            await self._drop(owner, server)

    async def _drop(self, owner: str, server: str) -> None:
        if connection := self._open.pop((owner, server), None):
            await connection.close()


def _checked(name: str, settings: Any, env: Mapping[str, str]) -> Json:
    """The settings of a server as clients write them; `${NAME}` is a variable of the server's
    environment."""
    wrong = UsageError(
        f"the MCP server {name[:64]!r} is not configured as one",
        help="write it as {command, args, env} or {url, headers}",
        code="server.mcp",
    )
    if not isinstance(settings, dict):
        raise wrong
    given = _filled(settings, env)
    url, command, args = given.get("url"), given.get("command"), given.get("args", [])
    words = given.get("headers" if url else "env", {})
    if not isinstance(words, dict) or not all(isinstance(value, str) for value in words.values()):
        raise wrong
    if isinstance(url, str) and url.startswith(("http://", "https://")) and command is None:
        return {"url": url, "headers": words}
    if not isinstance(command, str) or not command or not isinstance(args, list) or url is not None:
        raise wrong
    if not all(isinstance(word, str) for word in args):
        raise wrong
    return {"command": command, "args": args, "env": words}


def _filled(value: Any, env: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda found: env.get(found[1], ""), value)
    if isinstance(value, dict):
        return {key: _filled(item, env) for key, item in value.items()}
    return [_filled(item, env) for item in value] if isinstance(value, list | tuple) else value


def _reason(problem: BaseException) -> str:
    """What went wrong in a word; the messages of others may hold anything."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if isinstance(problem, FileNotFoundError):
        return "there is no such command"
    return type(problem).__name__


def _plain(result: Any) -> Json:
    """A result of the package's as plain JSON of bounded size."""
    given = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    blocks = [_block(block) for block in given.get("content", [])]
    texts = [block["text"] for block in blocks if block.get("type") == "text"]
    if given.get("isError"):
        raise ToolFault(cut("\n".join(texts) or "the tool failed and did not say why", _MOST_TEXT))
    answer: Json = {"content": texts[0] if len(blocks) == len(texts) == 1 else blocks}
    if "structuredContent" in given:
        answer["structured"] = given["structuredContent"]
    if isinstance(given.get("_meta"), dict):
        answer["_meta"] = given["_meta"]
    return answer


def _block(block: Json) -> Json:
    if isinstance(text := block.get("text"), str):
        return {**block, "text": cut(text, _MOST_TEXT)}
    data = block.get("data")
    if isinstance(data, str) and len(data) > _MOST_MEDIA:
        return {
            "type": "text",
            "text": f"[{block.get('type')} of {len(data)} characters is left out: too big]",
        }
    if isinstance(data, str):
        kind = block.get("mimeType", "application/octet-stream")
        return {"type": block.get("type"), "media_type": kind, "encoding": "base64", "base64": data}
    return block
