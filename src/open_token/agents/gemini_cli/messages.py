"""Read the records of a Gemini CLI file: messages, patches and rewinds."""

from collections.abc import Callable
from typing import Any

from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_call,
    get_function_response,
    list_content_parts,
    select_message_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.nesting import encode_deep
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage

_MODEL_TYPES = ("gemini", "qwen")
_NOTICE_TYPES = ("info", "warning", "error")
_CANCELLED = "Request cancelled."
_SESSION_CONTEXT = "<session_context>"
# User messages of the client: it asks the model to continue, or describes its environment.
_CLIENT_PREFIXES = (
    "System: Please continue.",
    "System: Potential loop detected.",
    _SESSION_CONTEXT,
)
# The names of the source and those of the annotation.
_SESSION_KIND = "session_kind"
_CONTEXT_FIELDS = {
    "projectHash": "project_hash",
    "kind": _SESSION_KIND,
    "directories": "directories",
}
_HEADER_FIELDS = frozenset(
    (*_CONTEXT_FIELDS, "sessionId", "startTime", "lastUpdated", "summary", "messages")
)
Body = dict[str, Any]
ReadSubagent = Callable[["FileReader", str, Body, str], None]


class FileReader:
    """Adds the events of one file to the draft."""

    def __init__(self, thread: Thread, read_subagent: ReadSubagent) -> None:
        self.thread = thread
        self.header: Body = {}
        """The fields of the header, as patches changed them."""
        self._read_subagent = read_subagent
        self._context: Body = {}
        self._is_context_stale = False
        """Whether the context may have changed since it was annotated."""
        self._starts: dict[str, int] = {}
        """The position of the first event of each message that was not rewound."""
        self._history: set[str] = set()
        """The ids of the messages in the client's history."""
        self._repetition = RepetitionDetector()
        self._rewound: list[range] = []
        self._descriptions: set[int] = set()

    def read_record(self, value: Any, position: str) -> None:
        """Read a header, a patch, a rewind or a message."""
        if not isinstance(value, dict):
            self.thread.note_omission("skipped-record", position, "record is not a JSON object")
            return
        # A document has all messages in one object. Since 0.40 a session is lines: a header,
        # messages, and between them changes of the header and of the history.
        target = value.get("$rewindTo")
        patch = value.get("$set")
        if isinstance(target, str):
            self._rewind(target)
        elif isinstance(patch, dict):
            self._apply_patch(patch, position)
        elif "sessionId" in value and "projectHash" in value:
            header = {name: item for name, item in value.items() if name != "messages"}
            self._apply_patch(header, position)
        else:
            self._read_message(value, position)

    def finish(self) -> None:
        """Drop the branches that were rewound."""
        data = {"kind": "abandoned_branch", "detail": "the conversation was rewound"}
        for positions in self._rewound:
            self.thread.draft.drop_branch(positions.start, positions.stop, data, self.thread.client)

    def _rewind(self, target: str) -> None:
        """Take back everything from a message on, or all messages if none has that id."""
        end = self.thread.draft.count
        first = next(iter(self._starts.values()), end)
        start = self._starts.get(target, first)
        while self._starts and next(reversed(self._starts.values())) >= start:
            self._starts.popitem()
        # A later rewind includes earlier ones behind its target.
        while self._rewound and self._rewound[-1].start >= start:
            self._rewound.pop()
        self._rewound.append(range(start, end))

    def _apply_patch(self, patch: Body, position: str) -> None:
        started = self.header.get("startTime")
        for name, value in patch.items():
            if name != "messages" and value is not None:
                self.header[name] = value
            if name not in _HEADER_FIELDS:
                self.thread.note_omission(
                    "skipped-field", position, f"field {format_kind(name)} of the session"
                )
        if started:
            # A session that was resumed has a header for each start (0.61).
            self.header["startTime"] = started
        if not _CONTEXT_FIELDS.keys().isdisjoint(patch):
            self._is_context_stale = True
        messages = patch.get("messages")
        if isinstance(messages, list):
            self._replace_history(messages, position)

    def _replace_history(self, messages: list[Any], position: str) -> None:
        """Read a new history of the client; what is new in it summarizes what it drops."""
        history = [message for message in messages if isinstance(message, dict)]
        ids = {as_text(message.get("id")) for message in history} - {None}
        is_of_client = [
            _is_client_text(list_content_parts(message.get("content"))) for message in history
        ]
        if history and all(is_of_client):
            # The first history after a start or a resume (0.61): the rest of it follows.
            ids |= self._history
        dropped = len(self._history - ids)
        self._history = {message_id for message_id in ids if message_id}
        if dropped:
            # After a cancelled turn the history is only shorter; a summary is new in it.
            is_shortened = ids <= self._starts.keys()
            data: Body = {"kind": "history_shortened" if is_shortened else "compaction"}
            if not self._repetition.is_repeating:
                data["messages_left_out"] = dropped
            data["messages_kept"] = len(history)
            self.thread.add_annotation(data, ts=to_utc(self.header.get("lastUpdated")))
        self._repetition.is_repeating = False
        for message in history:
            self._read_history_message(message, position)

    def _read_history_message(self, message: Body, position: str) -> None:
        """Read a message of a new history that is not known yet."""
        message_id = as_text(message.get("id"))
        if message_id in self._starts:
            return
        if message_id:
            self._starts[message_id] = self.thread.draft.count
        if message.get("type") == "user":
            self._read_summary(message, position)
            return
        # With a model or calls it is an answer; without, a reply that the client made up.
        if message.get("model") or message.get("toolCalls"):
            self._read_message(message, position)
            return
        content_parts = select_message_parts(self._get_parts(message.get("content"), position))
        if content_parts:
            ts = to_utc(message.get("timestamp"))
            self.thread.add_annotation(
                {"kind": "client_message", "text": wire.build_content(content_parts)}, ts=ts
            )
        else:
            self.thread.note_omission(
                "skipped-record", position, f"type {format_kind(message.get('type'))} in a history"
            )

    def _read_summary(self, message: Body, position: str) -> None:
        parts = self._get_parts(message.get("content"), position)
        self._read_results(parts, message, position)
        content_parts = select_message_parts(parts)
        if content_parts:
            ts = to_utc(message.get("timestamp"))
            event = self.thread.add_injected_message(wire.build_content(content_parts), ts=ts)
            if not _is_client_text(content_parts):
                self.thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _read_message(self, message: Body, position: str) -> None:
        kind = message.get("type")
        if self._is_context_stale:
            self._annotate_context(message)
        message_id = message.get("id")
        if isinstance(message_id, str):
            self._starts.setdefault(message_id, self.thread.draft.count)
            self._history.add(message_id)
        # A resumed session, or one whose call was cancelled, writes the history again, with new ids.
        if kind not in _NOTICE_TYPES and self._repetition.is_repeated(message):
            self.thread.note_omission(
                "repeated-history", position, "message written again by the client"
            )
            return
        self.thread.last_ts = to_utc(message.get("timestamp")) or self.thread.last_ts
        if kind == "user":
            self._read_user(message, position)
        elif kind in _MODEL_TYPES:
            self._read_answer(message, position)
        elif kind in _NOTICE_TYPES:
            self._read_notice(str(kind), message, position)
        else:
            self.thread.note_omission("skipped-record", position, f"type {format_kind(kind)}")

    def _annotate_context(self, message: Body) -> None:
        """Annotate where the session runs, before the first message and when it changes."""
        self._is_context_stale = False
        fields = pick_fields(self.header, *_CONTEXT_FIELDS)
        facts = {_CONTEXT_FIELDS[name]: value for name, value in fields.items()}
        changed = {name: value for name, value in facts.items() if self._context.get(name) != value}
        if changed:
            self._context = facts
            self.thread.add_annotation(
                {"kind": "context", **changed}, ts=to_utc(message.get("timestamp"))
            )

    def _read_user(self, message: Body, position: str) -> None:
        """Read what was sent to the model, and what was typed if that differs."""
        thread = self.thread
        ts = to_utc(message.get("timestamp"))
        parts = self._get_parts(message.get("content"), position)
        self._read_results(parts, message, position)
        if any(get_function_response(part) for part in parts):
            sent = self._drop_result_media(parts, position)
        else:
            sent = select_message_parts(parts)
        # The typed text is stored apart only if the client sent more, such as files behind `@`.
        if message.get("displayContent") is None:
            if sent and _is_client_text(sent):
                thread.add_injected_message(wire.build_content(sent), ts=ts)
            elif sent:
                thread.add_message("user", wire.build_content(sent), thread.get_user_actor(), ts=ts)
            return
        shown = self._get_parts(message["displayContent"], position)
        self._read_results(shown, message, position)
        typed = select_message_parts(shown)
        if typed:
            thread.add_message("user", wire.build_content(typed), thread.get_user_actor(), ts=ts)
        if sent and sent != typed:
            thread.add_injected_message(wire.build_content(sent), ts=ts)

    def _drop_result_media(self, parts: list[Body], position: str) -> list[Body]:
        """Return the texts next to results; images there belong to a result, with its call."""
        content_parts = select_message_parts(parts)
        texts = [part for part in content_parts if isinstance(part.get("text"), str)]
        for _ in range(len(content_parts) - len(texts)):
            self.thread.note_omission(
                "repeated-result", position, "duplicate of an image in a result"
            )
        return texts

    def _get_parts(self, content: Any, position: str) -> list[Body]:
        parts = list_content_parts(content)
        size = len(content) if isinstance(content, list) else 0
        if size > len(parts) or (not parts and content not in (None, "", [])):
            self.thread.note_omission(
                "unknown-part", position, "part that is neither text nor an object"
            )
        return [part for part in parts if part != {"text": ""}]

    def _read_results(self, parts: list[Body], message: Body, position: str) -> None:
        """Read results in a user message; usually they repeat those that are with their calls."""
        media = [
            part for part in select_message_parts(parts) if not isinstance(part.get("text"), str)
        ]
        for part in parts:
            response = get_function_response(part)
            if response is None:
                continue
            key = self.thread.get_call_key(as_text(response.get("id")))
            if not key or not self.thread.draft.is_call_open(key):
                self.thread.note_omission(
                    "repeated-result", position, "duplicate of the result in its call"
                )
                continue
            output, has_failed = unwrap_output(response, media)
            media = []
            ts = to_utc(message.get("timestamp"))
            self.thread.add_tool_result(
                key, output, ts=ts, facts=build_result_facts(None, has_failed)
            )

    def _read_answer(self, message: Body, position: str) -> None:
        """Read reasoning, text, calls and their results, which are in one object with the calls."""
        thread = self.thread
        ts = to_utc(message.get("timestamp"))
        thread.set_model(message.get("model"))
        usage = _MessageUsage(thread, _parse_usage(message.get("tokens")))
        thoughts = message.get("thoughts")
        if isinstance(thoughts, list):
            self._read_thoughts(thoughts, ts, usage, position)
        parts = self._get_parts(message.get("content"), position)
        # Thoughts may be parts of the content instead.
        if not thoughts:
            self._read_thought_parts(parts, ts, usage)
        content_parts = select_message_parts(parts)
        if content_parts:
            content = wire.build_content(content_parts)
            thread.add_message("assistant", content, thread.model_actor, ts=ts, usage=usage.take())
        calls = self._find_calls(message, parts, position)
        self._read_calls(calls, message.get("id") or position, ts, usage)
        usage.close(ts)

    def _read_thoughts(
        self, thoughts: list[Any], ts: str | None, usage: "_MessageUsage", position: str
    ) -> None:
        for thought in thoughts:
            text = _build_thought(thought) if isinstance(thought, dict) else ""
            if not text:
                self.thread.note_omission("unknown-part", position, "thought without text")
                continue
            thought_ts = to_utc(thought.get("timestamp")) or ts
            usage.add_reasoning(self.thread.add_reasoning(text, ts=thought_ts, summary=True))

    def _read_thought_parts(
        self, parts: list[Body], ts: str | None, usage: "_MessageUsage"
    ) -> None:
        for part in parts:
            text = as_text(part.get("text"))
            if part.get("thought") is True and text:
                usage.add_reasoning(self.thread.add_reasoning(text, ts=ts, summary=True))

    def _find_calls(self, message: Body, parts: list[Body], position: str) -> list[Body]:
        """Return the calls of an answer: its `toolCalls`, and those only in its parts."""
        items = message.get("toolCalls")
        if items is None:
            items = []
        elif not isinstance(items, list):
            items = [items]
        calls = [
            call
            for call in items
            if isinstance(call, dict) and (call.get("id") or call.get("name"))
        ]
        if len(calls) != len(items):
            self.thread.note_omission("unknown-part", position, "call with neither id nor name")
        known_ids = {as_text(call.get("id")) for call in calls}
        for part in parts:
            call = get_function_call(part)
            if call and as_text(call.get("id")) not in known_ids:
                calls.append(call)
        return calls

    def _read_calls(
        self, calls: list[Body], group: object, ts: str | None, usage: "_MessageUsage"
    ) -> None:
        thread = self.thread
        keys = []
        for call in calls:
            arguments = call.get("args")
            start = thread.draft.count
            key = thread.add_tool_call(
                as_text(call.get("id")),
                as_text(call.get("name")) or "tool",
                {} if arguments is None else arguments,
                ts=ts,
                usage=usage.usage,
                group=str(group),
                extra=self._describe_call(call),
            )
            if thread.draft.count > start:
                usage.take()
            keys.append(key)
        # All calls come before the first result: the model made them in one answer.
        for key, call in zip(keys, calls, strict=True):
            agent_id = as_text(call.get("agentId"))
            if agent_id:
                self._read_subagent(self, agent_id, call, key)
            if call.get("result") is not None:
                self._read_result(key, call)

    def _describe_call(self, call: Body) -> Body:
        """Return the status of a call without a result, and its description, each only once.

        In the older form that describes the tool, in the newer one this call.
        """
        extra: Body = {}
        status = as_text(call.get("status"))
        if status and status != "success" and call.get("result") is None:
            extra["status"] = status
        description = as_text(call.get("description"))
        arguments = call.get("args")
        if isinstance(arguments, dict) and description in arguments.values():
            description = None
        if description:
            key = hash((as_text(call.get("name")), description))
            if key not in self._descriptions:
                self._descriptions.add(key)
                extra["description"] = description
        return extra

    def _read_result(self, key: str, call: Body) -> None:
        """Read the result of a call, whose timestamp is that of its end."""
        parts = list_content_parts(call["result"])
        responses = []
        others = []
        for part in parts:
            response = get_function_response(part)
            if response is None:
                others.append(part)
            else:
                responses.append(response)
        # After a history snapshot a result may also hold those of its siblings.
        own = [response for response in responses if response.get("id") == call.get("id")]
        response = next(iter(own or responses), {})
        output, has_failed = unwrap_output(response, others)
        if not response and not parts:
            output = call["result"]
        ts = to_utc(call.get("timestamp"))
        self.thread.add_tool_result(
            key, output, ts=ts, facts=build_result_facts(call.get("status"), has_failed)
        )

    def _read_notice(self, level: str, message: Body, position: str) -> None:
        """Read a message of the client to the person, which the model never saw."""
        text = wire.build_content(self._get_parts(message.get("content"), position))
        data: Body = {"kind": "notice", "level": level, "text": text}
        if level == "error":
            data = {"kind": "error", "error": text}
        elif text == _CANCELLED:
            data = {"kind": "interrupted", "text": text}
        self.thread.add_annotation(data, ts=to_utc(message.get("timestamp")))


class _MessageUsage:
    """The usage of a message: exported once, on its first event that is no reasoning."""

    def __init__(self, thread: Thread, usage: Usage | None) -> None:
        self._thread = thread
        self.usage = usage
        self._reasoning: Event | None = None

    def add_reasoning(self, event: Event) -> None:
        self._reasoning = self._reasoning or event

    def take(self) -> Usage | None:
        usage = self.usage
        self.usage = None
        return usage

    def close(self, ts: str | None) -> None:
        """Assign the usage of a message that has only reasoning, or nothing at all."""
        if self.usage and self._reasoning is not None:
            self._thread.draft.set_usage(self._reasoning, self.usage)
        elif self.usage:
            self._thread.add_annotation({"kind": "usage"}, ts=ts, usage=self.usage)


class RepetitionDetector:
    """Detects history that the client writes again, with new ids, after a cancelled call (0.61)."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self.is_repeating = False
        """True from a second session context on, until new content or a new history comes."""

    def is_repeated(self, message: Body) -> bool:
        """Return whether a message holds only known content; otherwise remember its content."""
        parts = list_content_parts(message.get("content"))
        hashes = [key for key in map(_hash_part, parts) if key is not None]
        if self._known and hashes and _starts_with_context(parts):
            self.is_repeating = True
        if not self._known.issuperset(hashes):
            self.is_repeating = False
        if not self.is_repeating:
            self._known.update(hashes)
            calls = message.get("toolCalls")
            if isinstance(calls, list):
                self._known.update(_hash_call(call) for call in calls if isinstance(call, dict))
        return self.is_repeating


def _starts_with_context(parts: list[Body]) -> bool:
    first = next(iter(parts), {})
    return str(first.get("text", "")).lstrip().startswith(_SESSION_CONTEXT)


def _hash_part(part: Body) -> int | None:
    """Return a hash of a text or a call; thoughts, results and the context do not count."""
    if part.get("thought") is True or get_function_response(part) is not None:
        return None
    call = get_function_call(part)
    if call is not None:
        return _hash_call(call)
    text = part.get("text")
    if not isinstance(text, str):
        return hash(encode_deep(part))
    if not text or text.lstrip().startswith(_SESSION_CONTEXT):
        return None
    return hash(text)


def _hash_call(call: Body) -> int:
    """Return a hash of tool and arguments: the id differs when the history is written again."""
    return hash((encode_deep(call.get("name")), encode_deep(call.get("args"))))


def _is_client_text(parts: list[Body]) -> bool:
    """Return whether the client wrote a user message."""
    content = wire.build_content(parts)
    return isinstance(content, str) and content.lstrip().startswith(_CLIENT_PREFIXES)


def _build_thought(thought: Body) -> str:
    texts = [as_text(thought.get(name)) for name in ("subject", "description")]
    return "\n\n".join(text for text in texts if text)


def _parse_usage(tokens: Any) -> Usage | None:
    """Return the usage; Gemini counts thoughts apart from output, and tool input from input."""
    if not isinstance(tokens, dict):
        return None
    return build_usage(
        input_tokens=_sum_counts(tokens, "input", "tool"),
        output_tokens=_sum_counts(tokens, "output", "thoughts"),
        reasoning_tokens=tokens.get("thoughts"),
        cache_read_tokens=tokens.get("cached"),
    )


def _sum_counts(tokens: Body, *names: str) -> int | None:
    known = [tokens[name] for name in names if type(tokens.get(name)) is int]
    return sum(known) if known else None
