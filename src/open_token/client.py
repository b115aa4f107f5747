"""A client of the session server: sends messages, folds events into turns, resumes by sequence.

    from open_token.client import Client

    session = Client("http://127.0.0.1:8020", key).create_session(intent="A first chat")
    for item in session.stream("list files"):
        print(item["type"])
    print(session.fold.branch()[-1]["blocks"])

It needs nothing but the standard library."""

import http.client
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from open_token.model.patches import TurnPatcher

Json = dict[str, Any]

_NOT_SESSION_FIELDS = ("head", "reason", "mode", "session_id", "updated_at")
_TIMEOUT = 40.0
"""Seconds without a byte after which a connection counts as lost; streams are never silent so long."""
_ATTEMPTS = 8
"""Attempts in a row without any progress."""
_FIRST_PAUSE = 0.5
_MAX_PAUSE = 10.0


class ServerError(Exception):
    """An error that the server answered with."""

    def __init__(self, status: int, detail: str, code: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code


class Client:
    """The routes of a server; `key` is an API key or an access token."""

    def __init__(self, address: str, key: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("the address of a server begins with http:// or https://")
        self._is_secure = parts.scheme == "https"
        self._host = parts.netloc
        self._base = parts.path.rstrip("/")
        self._key = key

    def create_session(self, **fields: Any) -> "Session":
        """Create a session; the fields are those of `POST /api/sessions`."""
        created = self.request("POST", "/api/sessions", fields)
        return Session(self, created["session_id"])

    def session(self, session_id: str) -> "Session":
        """Return a session by its id."""
        return Session(self, session_id)

    def request(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Request a route and return its JSON; raise ServerError or OSError."""
        response = self.open(method, path, body, query=query)
        with response:
            content = response.read()
        return json.loads(content) if content else None

    def open(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Json | None = None,
        headers: dict[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Request a route and return the response, which the caller closes."""
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=_TIMEOUT)
        content = None if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self._key}", "Connection": "close", **(headers or {})}
        if content is not None:
            sent["Content-Type"] = "application/json"
        target = self._base + path + (f"?{urlencode(query)}" if query else "")
        try:
            connection.request(method, target, content, sent)
            response = connection.getresponse()
            if response.status >= 400:
                with response:
                    raise _build_error(response)
        except http.client.HTTPException as fault:
            connection.close()
            raise ConnectionError(f"the connection was lost: {type(fault).__name__}") from None
        except BaseException:
            connection.close()
            raise
        return response


class Session:
    """One session: its commands, and its turns as they are streamed."""

    def __init__(self, client: Client, session_id: str) -> None:
        self.client = client
        self.id = session_id
        self.fold = SessionFold()

    @property
    def path(self) -> str:
        """The path of its routes."""
        return f"/api/sessions/{quote(self.id, safe='')}"

    def send(self, message: Any, **fields: Any) -> Json:
        """Send a message and return the end of its run; `fields` are those of `chat:send`.

        A lost connection is retried with the same id: the message is processed once."""
        body = _build_body(message, fields)
        for attempt in range(_ATTEMPTS):
            try:
                outcome: Json = self.client.request("POST", f"{self.path}/messages", body)
                return outcome
            except (OSError, ServerError) as fault:
                _raise_unless_temporary(fault, attempt)
            _pause(attempt)
        raise ConnectionError("the server cannot be reached")

    def stream(self, message: Any, **fields: Any) -> Iterator[Json]:
        """Send a message and yield the events of its run, each once, across lost connections."""
        body = _build_body(message, fields)

        def open_stream(position: int | None) -> http.client.HTTPResponse:
            headers = {} if position is None else {"Last-Event-ID": str(position)}
            query = {"stream": "true"}
            path = f"{self.path}/messages"
            return self.client.open("POST", path, body, query=query, headers=headers)

        for item in _read_across_losses(open_stream, None):
            self.fold.apply(item)
            yield item
            if item["type"] == "chat:end":
                return

    def follow(self) -> Iterator[Json]:
        """Yield the events of the session from the position of `fold` on, and go on for ever."""

        def open_stream(position: int | None) -> http.client.HTTPResponse:
            return self.client.open("GET", f"{self.path}/events", query={"after": position or 0})

        for item in _read_across_losses(open_stream, self.fold.seen):
            if self.fold.apply(item):
                yield item

    def questions(self) -> list[Json]:
        """Return what waits for the user: the call, its questions and its kind."""
        return find_questions(self.fold.branch())

    def answer(self, tool_call_id: str, **answer: Any) -> Json:
        """Answer a question by `selections`, `custom` or `answer`; return the end of the run."""
        return self.send("", askuser_answer={"tool_call_id": tool_call_id, **answer})

    def stop(self) -> Json:
        """Stop the current run."""
        stopped: Json = self.client.request("POST", f"{self.path}/stop", {})
        return stopped


class SessionFold:
    """A session rebuilt from its events: all turns, the current branch, and the last run."""

    def __init__(self) -> None:
        self.seen = 0
        """The stream sequence to resume from."""
        self.session: Json = {}
        """The fields of the session that events have reported."""
        self.head: str | None = None
        self.ended: Json | None = None
        """The payload of the last `chat:end`."""
        self._turns = TurnPatcher()
        self._ids: dict[str, str] = {}
        self._parents: dict[str, str | None] = {}

    def apply(self, item: Json) -> bool:
        """Apply an item of `turn:events`; return whether it was new."""
        if item["stream_sequence"] <= self.seen:
            return False
        self.seen = item["stream_sequence"]
        self.take(item["type"], item["payload"])
        return True

    def take(self, name: str, payload: Json) -> None:
        """Apply an event."""
        if name == "turn:start":
            self._begin(payload)
        if name in ("turn:start", "turn:patch", "turn:end"):
            self._turns.take(payload)
        elif name == "memory:inject:done":
            self._turns.change(payload["turn_id"], memory_refs=payload["memory_refs"])
        elif name == "chat:start":
            self.session["status"] = "running"
        elif name == "chat:end":
            self.session["status"] = payload["session_status"]
            self.ended = payload
        elif name == "session:updated":
            self._update(payload)

    def _begin(self, turn: Json) -> None:
        name = turn["id"]
        self._ids[name] = turn["turn_id"]
        self._parents[name] = turn["parent_id"]
        self.head = name

    def _update(self, payload: Json) -> None:
        if "reason" in payload:
            self.head = payload["head"]
        self.session |= {
            name: value for name, value in payload.items() if name not in _NOT_SESSION_FIELDS
        }

    def turns(self) -> list[Json]:
        """Return all turns, also those of other branches."""
        return self._turns.whole()

    def branch(self) -> list[Json]:
        """Return the turns of the current branch, as far as their events were seen."""
        path: list[Json] = []
        name = self.head
        while name is not None and name in self._ids:
            path.append(self._turns.turn(self._ids[name]))
            name = self._parents[name]
        return path[::-1]


def find_questions(turns: list[Json]) -> list[Json]:
    """Return the open questions and approvals in turns: `{tool_call_id, kind, questions}`."""
    found = []
    for turn in turns:
        for call in turn["tool_calls"]:
            if call.get("status") != "awaiting_answer":
                continue
            reference = call.get("pending_question_ref")
            if reference is None:
                kind, questions = "question", _parse_questions(call.get("arguments"))
            elif reference.get("kind") == "approval":
                kind, questions = "approval", reference["questions"]
            else:
                continue  # the question of a subagent, which is on a call of its own
            if questions:
                found.append({"tool_call_id": call["id"], "kind": kind, "questions": questions})
    return found


def _parse_questions(arguments: Any) -> list[Json]:
    """Return the questions in the arguments of a call, which a model may have written wrongly."""
    try:
        given = json.loads(arguments or "{}")
    except (TypeError, ValueError):
        return []
    questions = given.get("questions") if isinstance(given, dict) else None
    return questions if isinstance(questions, list) else []


def _build_body(message: Any, fields: Json) -> Json:
    return {"client_message_id": uuid.uuid4().hex, "message": message, **fields}


def _build_error(response: http.client.HTTPResponse) -> ServerError:
    try:
        body = json.loads(response.read())
        return ServerError(response.status, str(body["detail"]), str(body["code"]))
    except (ValueError, KeyError, TypeError):
        return ServerError(response.status, f"the server answered {response.status}", "http")


def _read_across_losses(open_stream: Any, position: int | None) -> Iterator[Json]:
    """Yield the events of a stream that is opened again after its last event when it is lost."""
    attempt = 0
    while attempt < _ATTEMPTS:
        try:
            with open_stream(position) as response:
                for item in _read_events(response):
                    attempt = 0
                    position = item["stream_sequence"]
                    yield item
        except (OSError, http.client.HTTPException, ServerError) as fault:
            _raise_unless_temporary(fault, attempt)
        _pause(attempt)
        attempt += 1
    raise ConnectionError("the server cannot be reached")


def _read_events(response: http.client.HTTPResponse) -> Iterator[Json]:
    """Yield the server-sent events that have an id; one without an id is an error."""
    has_id = False
    for line in response:
        if line.startswith(b"id:"):
            has_id = True
        elif line.startswith(b"data:"):
            item = json.loads(line[5:])
            if not has_id:
                problem = item.get("payload", item)
                raise ServerError(409, str(problem.get("message")), str(problem.get("code")))
            has_id = False
            yield item


def _raise_unless_temporary(fault: Exception, attempt: int) -> None:
    is_temporary = not isinstance(fault, ServerError) or fault.status in (429, 502, 503, 504)
    if not is_temporary or attempt + 1 >= _ATTEMPTS:
        raise fault


def _pause(attempt: int) -> None:
    time.sleep(min(_FIRST_PAUSE * 2**attempt, _MAX_PAUSE))
