"""Read logs of the Codex app server: threads, turns and the items in them."""

from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.codex_app_server.items import ThreadItems
from open_token.formats.shared.fields import JsonObject, get_dict, get_dicts, get_text, pick_fields
from open_token.formats.shared.json_rpc import Message, iter_messages
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.timestamps import from_epoch
from open_token.sources.source import Source

_THREAD_REQUESTS = ("thread/start", "thread/resume", "thread/fork")
_PROMPT_REQUESTS = ("turn/start", "turn/steer")
_NOTICES = {
    "warning": "warning",
    "guardianWarning": "warning",
    "configWarning": "warning",
    "deprecationNotice": "warning",
}


def read(source: Source, draft: Draft) -> None:
    """Read the threads of the log into the draft."""
    draft.without_thoughts = "unknown"
    draft.conversation["source_runtime"] = "ide"
    reader = _LogReader(draft)
    for message in iter_messages(source):
        if isinstance(message, int):
            draft.note_omission("unknown-record", f"line {message}", "no message of JSON-RPC")
        else:
            reader.read_message(message)
    reader.finish()


class _LogReader:
    """Assigns messages to threads; the first thread is the conversation, others are subagents."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._threads: dict[str, ThreadItems] = {}
        self._requests: dict[Any, Message] = {}
        """Requests without a response."""
        self._spans: dict[str, ThreadItems] = {}
        """The subagents by their spans."""

    def read_message(self, message: Message) -> None:
        """Read a request, a notification or a response."""
        method = message.method
        if method is None:
            self._read_response(message)
            return
        # A response names only the id of its request, so requests are held until then.
        request_id = message.body.get("id")
        if isinstance(request_id, str | int):
            self._requests[request_id] = message
        if method in _PROMPT_REQUESTS:
            self._read_prompt(message)
        elif request_id is None:
            self._read_notification(method, message)

    def finish(self) -> None:
        """Add what broke off, and end the subagents."""
        for thread in self._threads.values():
            thread.finish()
        for span, thread in self._spans.items():
            facts = {} if thread.span else {"records": thread.count}
            self._draft.end_span(span, facts)

    def _get_thread(self, thread_id: str | None, name: str | None = None) -> ThreadItems:
        """Return a thread, which is added on first use; without an id, the first one."""
        key = thread_id or next(iter(self._threads), "")
        known = self._threads.get(key)
        if known is not None:
            return known
        if "" in self._threads:
            # What came before the first thread was started belongs to it.
            thread = self._threads.pop("")
            self._draft.conversation["id"] = key
        elif not self._threads:
            thread = ThreadItems(self._draft)
            if key:
                self._draft.conversation["id"] = key
        else:
            thread = self._start_subagent(key, name or f"agent {len(self._threads)}")
        self._threads[key] = thread
        return thread

    def _start_subagent(self, thread_id: str, name: str) -> ThreadItems:
        """Start a subagent: in a span, or in a draft that nobody exports if it is left out."""
        draft = self._draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent", f"event {draft.count}", "what a subagent did is left out"
            )
            return ThreadItems(Draft(), name, is_subagent=True)
        is_inline = draft.subagents == "inline"
        thread = ThreadItems(draft if is_inline else Draft(), name, is_subagent=True)
        data = {"kind": "subagent", "session_id": thread_id, "name": name}
        actor = draft.get_actor("model", name, provider="openai")
        span = draft.start_span(data, actor, call=self._take_spawn())
        self._spans[span] = thread
        if is_inline:
            thread.span = span
        return thread

    def _take_spawn(self) -> str | None:
        """Return the call that started the next subagent: they come in the order of their calls."""
        for thread in self._threads.values():
            if thread.spawns:
                return thread.spawns.popleft()
        return None

    def _read_prompt(self, message: Message) -> None:
        """Hold a prompt: an item of the turn usually repeats it."""
        thread = self._get_thread(get_text(message.params, "threadId"))
        thread.set_model(get_text(message.params, "model"))
        thread.hold_prompt(get_dicts(message.params, "input"), message.ts)

    def _read_notification(self, method: str, message: Message) -> None:
        params = message.params
        if method == "thread/started":
            self._describe_thread(get_dict(params, "thread"), message)
            return
        thread = self._get_thread(get_text(params, "threadId"))
        delta = params.get("delta")
        if method == "item/started":
            ts = from_epoch(params.get("startedAtMs"), 0.001) or message.ts
            thread.read_item(get_dict(params, "item"), False, ts, message.position)
        elif method == "item/completed":
            ts = from_epoch(params.get("completedAtMs"), 0.001) or message.ts
            thread.read_item(get_dict(params, "item"), True, ts, message.position)
        elif method.startswith("item/") and isinstance(delta, str):
            thread.add_delta(method, get_text(params, "itemId") or "", delta, message.ts)
        elif method == "turn/completed":
            thread.end_turn(get_dict(params, "turn"), message.ts)
        elif method == "thread/tokenUsage/updated":
            thread.set_usage(get_dict(params, "tokenUsage"))
        elif method == "turn/plan/updated":
            thread.annotate("plan", message.ts, **pick_fields(params, "explanation", "plan"))
        elif method == "thread/name/updated":
            self._set_title(thread, get_text(params, "threadName"))
        elif method == "error":
            error = pick_fields(get_dict(params, "error"), "message", "codexErrorInfo")
            thread.annotate("error", message.ts, **error)
        elif method in _NOTICES:
            thread.annotate(_NOTICES[method], message.ts, **pick_fields(params, "message"))
        else:
            self._draft.note_omission(
                "bookkeeping", message.position, f"notification {_format_method(method)}"
            )

    def _describe_thread(self, info: JsonObject, message: Message) -> None:
        is_first = not any(self._threads)
        thread = self._get_thread(get_text(info, "id"), get_text(info, "agentNickname"))
        if is_first:
            started_at = from_epoch(info.get("createdAt"))
            if started_at:
                self._draft.conversation["started_at"] = started_at
        facts = pick_fields(info, "cwd", "cliVersion", "parentThreadId", "forkedFromId", "gitInfo")
        facts |= pick_fields(info, "agentNickname", "agentRole")
        # The response to `thread/start` and the notification `thread/started` say the same.
        if not thread.is_described:
            thread.is_described = True
            thread.annotate("context", message.ts, **facts)
        self._set_title(thread, get_text(info, "name"))
        # A thread that is resumed comes with its earlier turns.
        for turn in get_dicts(info, "turns"):
            ts = from_epoch(turn.get("startedAt"))
            for item in get_dicts(turn, "items"):
                thread.read_item(item, True, ts, message.position)

    def _set_title(self, thread: ThreadItems, title: str | None) -> None:
        if title and not thread.is_subagent:
            self._draft.conversation["title"] = title

    def _read_response(self, message: Message) -> None:
        request_id = message.body.get("id")
        request = None
        if isinstance(request_id, str | int):
            request = self._requests.pop(request_id, None)
        method = request.method if request else None
        error = message.body.get("error")
        if request is None or method is None:
            self._draft.note_omission(
                "unknown-record", message.position, "response without its request"
            )
        elif isinstance(error, dict):
            thread = self._get_thread(get_text(request.params, "threadId"))
            thread.annotate("error", message.ts, **pick_fields(error, "code", "message"))
        elif method in _THREAD_REQUESTS:
            info = get_dict(message.result, "thread")
            thread = self._get_thread(get_text(info, "id"))
            thread.set_model(get_text(message.result, "model"))
            self._describe_thread(info, message)
        elif method.startswith("item/"):
            self._read_answer(method, request, message)
        else:
            self._draft.note_omission(
                "bookkeeping", message.position, f"response to {_format_method(method)}"
            )

    def _read_answer(self, method: str, request: Message, message: Message) -> None:
        """Annotate what the person, or the client, answered to a question of the agent."""
        thread = self._get_thread(get_text(request.params, "threadId"))
        thread.annotate(
            "approval",
            message.ts,
            request=method,
            call=get_text(request.params, "itemId"),
            **pick_fields(request.params, "reason", "questions"),
            **pick_fields(message.result, "decision", "answers"),
        )


def _format_method(method: str) -> str:
    """Return a method as a note can show it."""
    return format_kind(method.replace("/", "."))
