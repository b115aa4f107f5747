"""The methods of the Agent Client Protocol over the services of a node."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from open_token import __version__
from open_token.errors import OpenTokenError, UsageError
from open_token.model.log_events import Json
from open_token.server.acp.machine_sessions import ID_PREFIX, MachineSessions, build_id
from open_token.server.acp.peer import INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND, Peer, RpcError
from open_token.server.agent import approvals
from open_token.server.agent.models import build_registry
from open_token.server.core import messages, sessions
from open_token.server.core.exchanges import find_open_questions
from open_token.server.core.services import Services
from open_token.server.core.sessions import NewSession
from open_token.server.errors import ApiError
from open_token.server.protocols.acp import (
    UpdateStream,
    build_approval_options,
    build_message,
    build_question_options,
    build_text,
    get_stop_reason,
    read_choice,
)
from open_token.server.store.rows import Caller, StoredSession
from open_token.server.transfers.transfer import Upload, import_session
from open_token.server.ws.frames import Frame
from open_token.session import SessionState

PROTOCOL_VERSION = 1
_PAGE_SIZE = 50
_MAX_STORED = 1000
"""Sessions of the server that are listed."""
_MAX_PENDING = 2000
"""Items that wait for an editor that does not read; beyond that they are read from the log."""
_UPDATES_IN_A_STEP = 200
_MODES = (
    ("ask", "Ask", "Ask before files are changed and commands are run"),
    ("auto", "Auto", "Run all tools without asking"),
    ("plan", "Plan", "Make a plan; no tool runs"),
)
_UNASKED_TOOLS = (
    "Read",
    "Glob",
    "Grep",
    "Skill",
    "Remember",
    "Agent",
    "ShowCard",
    "HostAction",
    "Plan",
)
"""Tools that change no file and run nothing: they need no permission in the mode `ask`."""
T = TypeVar("T", bound=Struct)


class _Initialize(Struct, rename="camel"):
    protocol_version: int


class _NewSession(Struct, rename="camel"):
    cwd: str
    mcp_servers: list[Json] = []


class _LoadSession(Struct, rename="camel"):
    session_id: str
    cwd: str
    mcp_servers: list[Json] = []


class _ListSessions(Struct, rename="camel"):
    cwd: str | None = None
    cursor: str | None = None


class _SessionRef(Struct, rename="camel"):
    session_id: str


class _Prompt(Struct, rename="camel"):
    session_id: str
    prompt: list[Json]


class _SetMode(Struct, rename="camel"):
    session_id: str
    mode_id: str


class _SetOption(Struct, rename="camel"):
    session_id: str
    config_id: str
    value: Any


@dataclass
class _OpenSession:
    """A session that the editor has created or loaded."""

    id: str
    folder: Path
    stream: UpdateStream
    mode: str = "ask"
    is_prompting: bool = False
    is_cancelled: bool = False
    asking: asyncio.Task[Any] | None = None
    """The request to the editor that the prompt waits for."""


@dataclass
class _ItemSink:
    """Collects the items of a session until the editor can take them."""

    items: asyncio.Queue[Json | None] = field(default_factory=asyncio.Queue)
    problem: ApiError | None = None
    is_over: bool = False
    room: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, frame: Frame) -> None:
        if self.is_over:
            return
        for item in frame.items:
            self.items.put_nowait(item)
        if self.items.qsize() > _MAX_PENDING:
            self._end()

    async def wait_for_capacity(self) -> None:
        while self.items.qsize() > _MAX_PENDING // 4 and not self.is_over:
            self.room.clear()
            await self.room.wait()

    def on_end(self, problem: ApiError) -> None:
        self.problem = problem
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self.room.set()
        self.items.put_nowait(None)


class AcpAgent:
    """Answers the requests of one editor."""

    def __init__(self, services: Services, caller: Caller, machine: MachineSessions) -> None:
        self._services = services
        self._caller = caller
        self._machine = machine
        self._open: dict[str, _OpenSession] = {}
        self._listed: list[Json] = []
        """What the pages of the last list are cut from."""
        self.peer: Peer
        """The editor; set before it sends its first request."""

    async def handle(self, method: str, params: Json) -> Any:
        """Answer a request or a notification."""
        if method == "initialize":
            return self._initialize(_parse(params, _Initialize))
        if method == "session/new":
            return await self._create_session(_parse(params, _NewSession))
        if method == "session/load":
            return await self._load_session(_parse(params, _LoadSession), shows=True)
        if method == "session/resume":
            return await self._load_session(_parse(params, _LoadSession), shows=False)
        if method == "session/list":
            return await self._list_sessions(_parse(params, _ListSessions))
        if method == "session/prompt":
            return await self._prompt(_parse(params, _Prompt))
        if method == "session/cancel":
            return await self._cancel(_parse(params, _SessionRef))
        if method == "session/close":
            return await self._close_session(_parse(params, _SessionRef))
        if method == "session/set_mode":
            return await self._set_mode(_parse(params, _SetMode))
        if method == "session/set_config_option":
            return await self._set_option(_parse(params, _SetOption))
        raise RpcError(METHOD_NOT_FOUND, "no such method")

    def _initialize(self, params: _Initialize) -> Json:
        # Version 1 is the only one; an editor that speaks another decides what to do.
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "agentInfo": {"name": "open-token", "title": "Open-Token", "version": __version__},
            "authMethods": [],
        }

    async def _create_session(self, params: _NewSession) -> Json:
        folder = _check_folder(params.cwd)
        servers = _convert_servers(params.mcp_servers)
        session_id = await sessions.create_session(self._services, self._caller, NewSession())
        self._services.workspaces.bind(session_id, folder)
        opened = await self._open_session(session_id, servers)
        return {"sessionId": session_id, **await self._describe_settings(opened)}

    async def _load_session(self, params: _LoadSession, *, shows: bool) -> Json:
        folder = _check_folder(params.cwd)
        servers = _convert_servers(params.mcp_servers)
        session_id = params.session_id
        if session_id.startswith(ID_PREFIX):
            await self._import_session(session_id, folder)
        if await self._services.store.session(self._owner, session_id) is None:
            raise RpcError(NOT_FOUND, "no such session")
        workspace = self._services.workspaces.get(session_id)
        # A session with files of its own keeps working on them.
        if not workspace.is_own or not await asyncio.to_thread(workspace.list):
            self._services.workspaces.bind(session_id, folder)
        opened = await self._open_session(session_id, servers)
        if shows:
            state = await self._state(session_id)
            await self._send_updates(opened, list(opened.stream.replay(state)))
        return await self._describe_settings(opened)

    async def _import_session(self, session_id: str, folder: Path) -> None:
        """Import a session of this machine; again if its file has grown and nobody continued it."""
        stored = await self._services.store.session(self._owner, session_id)
        session = await asyncio.to_thread(self._machine.find, session_id, folder)
        if session is None:
            return
        if stored is not None:
            state = await self._state(session_id)
            is_current = session.modified <= _get_time(stored)
            if is_current or state.run is not None or not all(turn.imported for turn in state.path):
                return
            await sessions.delete_session(self._services, self._caller, session_id, False)
        document = await asyncio.to_thread(self._machine.open_document, session)
        with document:
            upload = Upload(document, "session.ndjson", reader="open_token")
            await import_session(self._services, self._owner, upload, session_id)

    async def _open_session(self, session_id: str, servers: Json) -> _OpenSession:
        try:
            await self._services.toolbox.set_session_servers(session_id, servers)
        except UsageError as problem:
            raise RpcError(INVALID_PARAMS, problem.what) from None
        state = await self._state(session_id)
        folder = self._services.workspaces.get(session_id).folder
        opened = _OpenSession(session_id, folder, UpdateStream(folder, state.session.intent))
        known = self._open.get(session_id)
        if known is not None:
            opened.mode = known.mode
        elif state.mode == "planning":
            opened.mode = "plan"
        self._open[session_id] = opened
        return opened

    async def _close_session(self, params: _SessionRef) -> Json:
        await self._cancel(params)
        self._open.pop(params.session_id, None)
        await self._services.toolbox.set_session_servers(params.session_id, {})
        return {}

    async def _list_sessions(self, params: _ListSessions) -> Json:
        if params.cursor is None:
            self._listed = await self._collect_sessions(params.cwd)
        elif not (params.cursor.isascii() and params.cursor.isdigit() and len(params.cursor) < 9):
            raise RpcError(INVALID_PARAMS, "cursor: unknown value")
        start = int(params.cursor or 0)
        page = self._listed[start : start + _PAGE_SIZE]
        unknown = [item["session"] for item in page if "session" in item]
        described = iter(await asyncio.to_thread(self._machine.describe, unknown))
        rows = []
        for item in page:
            if "session" in item:
                found = next(described)
                item = {"sessionId": found.id, "cwd": found.cwd, "updatedAt": found.updated_at}
                item |= {"title": found.title} if found.title else {}
            rows.append(item)
        answer: Json = {"sessions": rows}
        if start + _PAGE_SIZE < len(self._listed):
            answer["nextCursor"] = str(start + _PAGE_SIZE)
        return answer

    async def _collect_sessions(self, cwd: str | None) -> list[Json]:
        """Return the sessions of the server and of this machine, newest first."""
        folder = _check_folder(cwd) if cwd is not None else None
        found: list[tuple[float, Json]] = []
        known: set[str] = set()
        page = await self._services.store.sessions(self._owner, limit=_MAX_STORED)
        for row in page.items:
            known.add(row.id)
            workspace = self._services.workspaces.get(row.id).folder
            if folder is None or workspace == folder:
                found.append((_get_time(row), _describe_stored(row, workspace)))
        for session in await asyncio.to_thread(self._machine.find_all, folder):
            if build_id(session) not in known:
                found.append((session.modified, {"session": session}))
        found.sort(key=lambda item: -item[0])
        return [item for _, item in found]

    async def _prompt(self, params: _Prompt) -> Json:
        opened = await self._require(params.session_id)
        if opened.is_prompting:
            raise RpcError(INVALID_PARAMS, "a prompt is in progress; cancel it or wait")
        message = build_message(params.prompt)
        state = await self._state(opened.id)
        asked = [state.questions[call_id] for call_id in find_open_questions(state)]
        if isinstance(message, str) and any(question.kind == "approval" for question in asked):
            # As parts, it withdraws an approval that was cancelled instead of answering it.
            message = [{"type": "text", "text": message}]
        payload: Json = {"message": message}
        opened.is_prompting = True
        opened.is_cancelled = False
        try:
            while True:
                outcome = await self._run(opened, payload)
                answer = await self._ask(opened, outcome.questions)
                if answer is None:
                    return self._end_prompt(opened, outcome.ended)
                payload = {"askuser_answer": answer}
        finally:
            opened.is_prompting = False

    def _end_prompt(self, opened: _OpenSession, ended: Json) -> Json:
        if opened.is_cancelled:
            return {"stopReason": "cancelled"}
        if ended["status"] == "failed":
            raise ApiError(502, str(ended["result"].get("err_msg") or "the agent failed"), "failed")
        return {"stopReason": get_stop_reason(ended)}

    async def _run(self, opened: _OpenSession, payload: Json) -> messages.RunOutcome:
        """Send a message, show its run, and return the outcome."""
        message = {**payload, **_build_settings(opened, await self._state(opened.id))}
        message["session_id"] = opened.id
        sent = await messages.send_message(self._services, self._caller, message)
        if opened.is_cancelled:
            await self._services.chat.stop(self._caller, opened.id)
        run = await messages.find_run(self._services, sent)
        if run is None:
            raise ApiError(409, "a session that replays another takes no prompts", "replay")
        async with contextlib.aclosing(self._follow(opened.id, run.position)) as items:
            async for item in items:
                if item["type"] == "chat:end":
                    if item["payload"]["chat_run_id"] == run.run_id:
                        break
                else:
                    await self._send_updates(opened, list(opened.stream.take(item)))
        return await messages.wait_for_outcome(self._services, sent, run)

    async def _follow(self, session_id: str, position: int) -> AsyncGenerator[Json]:
        """Yield the items of a session after a position of its log."""
        while True:
            sink = _ItemSink()
            subscription = await self._services.feed.subscribe(
                self._owner, session_id, "raw", position, sink
            )
            try:
                while (item := await sink.items.get()) is not None:
                    sink.room.set()
                    position = item["stream_sequence"]
                    yield item
            finally:
                subscription.close()
            if sink.problem is not None:
                raise sink.problem

    async def _ask(self, opened: _OpenSession, questions: list[Json]) -> Json | None:
        """Let the user answer the first question; None if it cannot be answered by a choice.

        It stays open then, and the next prompt may answer it."""
        if not questions or opened.is_cancelled:
            return None
        call_id = questions[0]["tool_call_id"]
        state = await self._state(opened.id)
        asked = state.questions[call_id]
        if asked.kind == "client_tool":
            return None
        selections: dict[str, list[int]] = {}
        for number, question in enumerate(asked.questions):
            title = None
            options = build_approval_options(approvals.OPTIONS)
            if asked.kind == "question":
                title = question["question"]
                options = build_question_options(question)
                await self._send_updates(opened, [build_text(title)])
            if not options:
                return None
            call = opened.stream.describe_call(call_id, title)
            chosen = await self._request_choice(opened, call, options)
            if chosen is None:
                opened.is_cancelled = True
                return None
            selections[str(number)] = [chosen]
        return {"tool_call_id": call_id, "selections": selections}

    async def _request_choice(
        self, opened: _OpenSession, call: Json, options: list[Json]
    ) -> int | None:
        params = {"sessionId": opened.id, "toolCall": call, "options": options}
        request = self.peer.request("session/request_permission", params)
        opened.asking = asyncio.ensure_future(request)
        try:
            await asyncio.wait([opened.asking])
            if opened.is_cancelled:
                return None
            return read_choice(opened.asking.result(), len(options))
        finally:
            opened.asking.cancel()
            opened.asking = None

    async def _cancel(self, params: _SessionRef) -> None:
        await self._stop(await self._require(params.session_id))

    async def _stop(self, opened: _OpenSession) -> None:
        if not opened.is_prompting:
            return
        opened.is_cancelled = True
        if opened.asking is not None:
            opened.asking.cancel()
        await self._services.chat.stop(self._caller, opened.id)

    async def close(self) -> None:
        """Stop what the editor has started: nobody waits for it any more."""
        for opened in self._open.values():
            with contextlib.suppress(ApiError, OpenTokenError):
                await self._stop(opened)

    async def _set_mode(self, params: _SetMode) -> Json:
        opened = await self._require(params.session_id)
        if params.mode_id not in {mode for mode, _, _ in _MODES}:
            raise RpcError(INVALID_PARAMS, "no such mode")
        opened.mode = params.mode_id
        return {}

    async def _set_option(self, params: _SetOption) -> Json:
        opened = await self._require(params.session_id)
        if params.config_id != "model" or not isinstance(params.value, str):
            raise RpcError(INVALID_PARAMS, "no such option")
        build_registry(self._services.config, self._services.env).check(params.value)
        await sessions.update_session(self._services, self._owner, opened.id, model=params.value)
        return {"configOptions": [await self._describe_models(opened)]}

    async def _describe_settings(self, opened: _OpenSession) -> Json:
        modes = [{"id": mode, "name": name, "description": text} for mode, name, text in _MODES]
        return {
            "modes": {"currentModeId": opened.mode, "availableModes": modes},
            "configOptions": [await self._describe_models(opened)],
        }

    async def _describe_models(self, opened: _OpenSession) -> Json:
        registry = build_registry(self._services.config, self._services.env)
        state = await self._state(opened.id)
        current = state.session.model or registry.default
        options = [{"value": model["id"], "name": model["label"]} for model in registry.offered]
        if current not in {option["value"] for option in options}:
            options.append({"value": current, "name": current})
        return {
            "type": "select",
            "id": "model",
            "name": "Model",
            "category": "model",
            "currentValue": current,
            "options": options,
        }

    async def _send_updates(self, opened: _OpenSession, updates: list[Json]) -> None:
        for number, update in enumerate(updates):
            await self.peer.notify("session/update", {"sessionId": opened.id, "update": update})
            if number % _UPDATES_IN_A_STEP == 0:
                await asyncio.sleep(0)  # a long history must not delay a cancellation

    async def _state(self, session_id: str) -> SessionState:
        return await self._services.journal.state(self._owner, session_id)

    async def _require(self, session_id: str) -> _OpenSession:
        opened = self._open.get(session_id)
        if opened is not None:
            return opened
        # The process that the editor has talked to may have ended, and this one goes on.
        if await self._services.store.session(self._owner, session_id) is None:
            raise RpcError(NOT_FOUND, "no such session; create or load it first")
        return await self._open_session(session_id, {})

    @property
    def _owner(self) -> str:
        return self._caller.user.id


def _parse(params: Json, kind: type[T]) -> T:
    try:
        return msgspec.convert(params, kind)
    except msgspec.ValidationError as fault:
        _, _, path = str(fault).rpartition(" - at ")
        where = path if path.startswith("`") else str(fault)
        raise RpcError(INVALID_PARAMS, f"invalid params: {where}") from None


def _check_folder(cwd: str) -> Path:
    folder = Path(cwd)
    if "\0" in cwd or not folder.is_absolute() or not folder.is_dir():
        raise RpcError(INVALID_PARAMS, "cwd must be an absolute path of a folder")
    return folder.resolve()


def _convert_servers(servers: list[Json]) -> Json:
    """Return MCP servers of an editor by name, as the configuration has them."""
    converted: Json = {}
    for server in servers:
        name = server.get("name")
        if not isinstance(name, str) or not name:
            raise RpcError(INVALID_PARAMS, "mcpServers: a server has no name")
        kind = server.get("type", "stdio")
        if kind == "stdio":
            env = _convert_pairs(server.get("env"))
            fields = {"command": server.get("command"), "args": server.get("args", []), "env": env}
        elif kind == "http":
            fields = {"url": server.get("url"), "headers": _convert_pairs(server.get("headers"))}
        else:
            raise RpcError(INVALID_PARAMS, "mcpServers: only stdio and http are supported")
        converted[name] = fields
    return converted


def _convert_pairs(pairs: Any) -> Json:
    try:
        return {pair["name"]: pair["value"] for pair in pairs or ()}
    except (TypeError, KeyError):
        raise RpcError(INVALID_PARAMS, "mcpServers: a pair needs name and value") from None


def _build_settings(opened: _OpenSession, state: SessionState) -> Json:
    """Return the fields of `chat:send` for the mode of a session."""
    if opened.mode != "ask":
        return {"mode": "planning" if opened.mode == "plan" else "executing"}
    rules = list(state.agent.settings.get("approvals") or ())
    rules += [{"tool": name, "action": "allow"} for name in _UNASKED_TOOLS]
    rules.append({"tool": "*", "action": "ask"})
    return {"mode": "executing", "settings": {"approvals": rules}}


def _get_time(row: StoredSession) -> float:
    """Return when a session was last changed, in seconds since 1970."""
    try:
        return datetime.fromisoformat(row.updated_at).timestamp()
    except ValueError:
        return 0.0


def _describe_stored(row: StoredSession, workspace: Path) -> Json:
    body = msgspec.json.decode(row.body)
    item: Json = {"sessionId": row.id, "cwd": str(workspace), "updatedAt": row.updated_at}
    if body.get("intent"):
        item["title"] = body["intent"]
    return item
